"""The title of a trial in tables: the paper's name of the method, what was removed and what was added."""

from collections.abc import Iterator

from tune_tickets.config.experiment import Settings
from tune_tickets.config.training import ADVERSARIES, LOSSES

RANDOM = "reinitialised"


def title(settings: Settings) -> str:
    """Return a title such as 'finetune', 'PGD', 'EarlyBERT + FreeLB' or 'robustt, no adversary, shuffled'."""
    method = settings.method
    added, ablated = list(_added(settings)) if method.retrained else [], list(_ablated(settings))
    if not method.finds_ticket:  # the whole model has no mask and no structure to ablate
        return ", ".join([" + ".join(added) or method.label, *(part for part in ablated if part == RANDOM)])
    ticket = ", ".join([method.label, *method.changes(), *ablated])
    return " + ".join([ticket, *added])


def _added(settings: Settings) -> Iterator[str]:
    """Yield what the retraining adds to plain fine-tuning."""
    retraining = settings.retraining
    if retraining.debiasing.loss != "ce":
        yield LOSSES[retraining.debiasing.loss]
    if retraining.regulariser.kind == "infobert":
        yield "InfoBERT"
    if retraining.adversary.kind != "none":
        yield ADVERSARIES[retraining.adversary.kind]


def _ablated(settings: Settings) -> Iterator[str]:
    ablation = settings.ablation
    if ablation.mask == "shuffled":
        yield "shuffled"
    if ablation.weights == "reinitialised":
        yield RANDOM
    if ablation.structure == "discarded":
        yield "no structure"
