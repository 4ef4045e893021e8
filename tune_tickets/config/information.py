"""Whether a search has seen out-of-distribution rows: only then can its OOD figures be called tuned on them."""

from tune_tickets.config.experiment import Settings
from tune_tickets.config.srnets import SRNets


def uses_ood_information(settings: Settings) -> bool:
    """Whether OOD rows enter the training (as the upper bound) or the value that trials are compared by."""
    trained_on = isinstance(settings.method, SRNets) and settings.method.ood_rows
    return trained_on or any(name.split("/")[0] == "ood" for name in settings.objective.terms)
