"""The masked language model of an attack: fitted by a stage, or the one that was resolved on this machine."""

from typing import TYPE_CHECKING

from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.engine.execution import StageContext
from tune_tickets.trial.backbone import device_of
from tune_tickets.trial.bodies.masked_lm import load_masked_lm

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM


def masked_lm_of(context: StageContext, threat: ThreatModel) -> "MaskedLM | None":
    """What proposes the words of the threat model; None if something else does."""
    if threat.words != "masked-lm":
        return None
    from tune_tickets.attacks.masked_words import MaskedLM, resolved_masked_lm  # imports TextAttack

    device = device_of(context.resources)
    if not threat.fits_masked_lm:
        return resolved_masked_lm(device)
    model, tokenizer = load_masked_lm(context)
    model.to(device)  # type: ignore[arg-type]
    return MaskedLM(model, tokenizer, context.stage.upstream["masked_lm"].digest)
