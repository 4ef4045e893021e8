"""What tables call the model of a trial: the papers' name of it, what was taken from it, what was added to it."""

from collections.abc import Iterator

from tune_tickets.config.experiment import Settings
from tune_tickets.config.method import EarlyBird, EarlyRobust, FineTune, Imp, Method, ORTicket, RobustT
from tune_tickets.config.orticket import CORPUS
from tune_tickets.config.srnets import SRNets
from tune_tickets.config.training import Adversary

ADVERSARIES = {"pgd": "PGD", "freelb": "FreeLB"}
"""As the papers write them."""
LOSSES = {"poe": "PoE", "reweight": "reweighting", "confidence": "confidence"}
RANDOM = "reinitialised"


def title(settings: Settings) -> str:
    """Such as 'finetune', 'PGD', 'earlyrobust', 'EarlyBERT + FreeLB' or 'robustt, no adversary, shuffled'."""
    added, ablated = list(_added(settings)), list(_ablated(settings))
    if isinstance(settings.method, SRNets) and not settings.method.retrained:  # taken as it is
        added = []
    if isinstance(settings.method, FineTune):  # the whole model has neither a mask nor a structure to lose
        return ", ".join([" + ".join(added) or settings.method.kind, *(part for part in ablated if part == RANDOM)])
    ticket = ", ".join([_name(settings.method), *_changed(settings.method), *ablated])
    return " + ".join([ticket, *added])


def _added(settings: Settings) -> Iterator[str]:
    """What the retraining adds to fine-tuning."""
    retraining = settings.retraining
    if retraining.debiasing.loss != "ce":
        yield LOSSES[retraining.debiasing.loss]
    if retraining.regulariser.kind == "infobert":
        yield "InfoBERT"
    if retraining.adversary.kind != "none":
        yield ADVERSARIES[retraining.adversary.kind]


def _name(method: Method) -> str:
    """EarlyRobust without an adversary is EarlyBERT."""
    return "EarlyBERT" if isinstance(method, EarlyRobust) and _plain(method.adversary) else method.kind


def _changed(method: Method) -> Iterator[str]:
    """In what a method's search differs from the paper's."""
    if isinstance(method, RobustT) and method.scores == "magnitude":
        yield "magnitude"
    elif isinstance(method, RobustT):
        yield from ["no adversary"] * _plain(method.adversary) + ["no penalty"] * (method.penalty == 0)
    if isinstance(method, RobustT) and method.grouping == "structured":
        yield "structured"
    if isinstance(method, ORTicket):
        yield from [f"on {method.search_on}"] * (method.search_on != CORPUS)
        yield from ["no adversary"] * _plain(method.adversary)
    if isinstance(method, EarlyBird) and method.penalty_heads == method.penalty_neurons == 0:
        yield "no penalty"
    if isinstance(method, SRNets):
        yield from _pruned(method)
    if isinstance(method, Imp) and not _plain(method.adversary):
        yield f"{ADVERSARIES[method.adversary.kind]} rounds"


def _pruned(method: SRNets) -> Iterator[str]:
    """How, in which of the three paradigms and, where it is not cross entropy, under which losses."""
    if method.pruning != "mask_training":
        yield "IMP" if method.pruning == "imp" else "IMP rewound"
    elif method.paradigm != "finetuned":
        yield method.paradigm
    if method.from_finetuned and method.finetuning.debiasing.loss != "ce":
        yield f"{LOSSES[method.finetuning.debiasing.loss]} fine-tuned"
    if method.debiasing.loss != "ce":
        yield f"{LOSSES[method.debiasing.loss]} pruned"
    if method.ood_rows:
        yield "OOD rows"


def _ablated(settings: Settings) -> Iterator[str]:
    ablation = settings.ablation
    if ablation.mask == "shuffled":
        yield "shuffled"
    if ablation.weights == "reinitialised":
        yield RANDOM
    if ablation.structure == "discarded":
        yield "no structure"


def _plain(adversary: Adversary) -> bool:
    return adversary.kind == "none"
