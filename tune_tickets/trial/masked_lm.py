"""The masked language model of an attack: fitted by a stage, or the one that was resolved on this machine."""

from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.errors import ResourceError
from tune_tickets.trial.execution import StageContext


def masked_lm_of(context: StageContext, threat: ThreatModel) -> None:
    if threat.words != "masked-lm":
        return
    raise ResourceError("to come")
