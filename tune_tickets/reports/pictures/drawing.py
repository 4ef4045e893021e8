"""The list of all pictures in order, with titles and captions. Pictures without data are left out with a reason."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from matplotlib.figure import Figure

from tune_tickets.reports.pictures.evidence import Evidence, NothingToDraw
from tune_tickets.reports.pictures.examples import example_figure
from tune_tickets.reports.pictures.front import front_figure, front_of, front_panels
from tune_tickets.reports.pictures.importance import coordinates, importance_figure, parallel_figure
from tune_tickets.reports.pictures.masks import distance_figure, mask_figure, mask_trainings, pattern_figure
from tune_tickets.reports.pictures.sparsity import CUT, epochs_figure, gamma_figure, series_figure, sparsity_panels
from tune_tickets.reports.pictures.style import Gallery, Picture, rendered
from tune_tickets.reports.pictures.subnetworks import ood_panels, schedule_figure, schedules, start_figure, start_panels
from tune_tickets.reports.pictures.training import attacked_epochs_figure, epoch_figure, loss_figure

T = TypeVar("T")
_SPREAD = "If several models share an x value, the line is their mean and the band one standard deviation."


@dataclass(frozen=True)
class Plan:
    """One picture before it is drawn."""

    name: str
    title: str
    caption: str | Callable[[Evidence], str]
    figure: Callable[[Evidence], Figure]

    def said(self, evidence: Evidence) -> str:
        """Return the caption."""
        return self.caption if isinstance(self.caption, str) else self.caption(evidence)


def draw_all(evidence: Evidence) -> Gallery:
    """Draw all pictures. An error in one does not affect the others."""
    pictures, left_out, failed = [], {}, {}
    for plan in PLANS:
        try:
            svg, png = rendered(partial(plan.figure, evidence))
        except NothingToDraw as reason:
            left_out[plan.name] = str(reason)
        except Exception as error:
            failed[plan.name] = f"{type(error).__name__}: {error}"
        else:
            pictures.append(Picture(plan.name, plan.title, plan.said(evidence), svg, png))
    return Gallery(tuple(pictures), left_out, failed)


def _front(evidence: Evidence) -> Figure:
    return front_figure(front_panels(evidence))


def _sparsity(kind: str) -> Callable[[Evidence], Figure]:
    def figure(evidence: Evidence) -> Figure:
        drawn = sparsity_panels(evidence, kind)
        first = [panel for panel in drawn if panel[0] == drawn[0][0]]
        return series_figure(drawn, CUT[kind], columns=len(first))

    return figure


def _patterns(evidence: Evidence) -> Figure:
    return pattern_figure(_some(evidence.patterns, evidence, "patterns", "no ticket was drawn"))


def _distances(evidence: Evidence) -> Figure:
    why = "no trial searched by coefficients (methods earlyrobust and orticket)"
    return distance_figure(_some(evidence.distances, evidence, "distances", why))


def _ood(evidence: Evidence) -> Figure:
    drawn = ood_panels(evidence.measured)
    return series_figure(drawn, "sparsity, % of the prunable weights cut", columns=min(3, len(drawn)))


def _parallel(evidence: Evidence) -> Figure:
    axes, trials = coordinates(evidence)
    try:
        front = [point.name for point in front_of(front_panels(evidence)[0][1])]
    except NothingToDraw:
        front = []
    return parallel_figure(axes, trials, front)


def _importance(evidence: Evidence) -> Figure:
    if not evidence.importances:
        raise NothingToDraw(evidence.missing.get("importances", "no importances were computed"))
    return importance_figure(evidence.importances)


def _epochs_attacked(evidence: Evidence) -> Figure:
    if _by_epoch(evidence):
        return attacked_epochs_figure(evidence.epochs, evidence.selected)
    try:
        return epochs_figure(evidence.measured)
    except NothingToDraw as reason:
        left_out = [f"{one.model}: {one.left_out}" for one in evidence.epochs if one.left_out]
        raise NothingToDraw("; ".join([str(reason), *left_out])) from None


def _epochs_said(evidence: Evidence) -> str:
    if _by_epoch(evidence):
        return (
            "The ticket and the dense control under real attacks after every epoch of their training, on "
            "select rows; bars are 95% intervals. The last epoch is the model of the tables."
        )
    trained = "trials that were trained for more or for fewer epochs, each with its own schedule"
    return f"Under real attacks: {trained}. {_SPREAD}"


def _by_epoch(evidence: Evidence) -> bool:
    """Whether a model with several epochs was attacked after each of them."""
    return any(len(one.metrics) > 1 for one in evidence.epochs)


def _examples(evidence: Evidence) -> Figure:
    return example_figure(_some(evidence.examples, evidence, "examples", "no attack changed a text"))


def _some(found: Iterable[T], evidence: Evidence, name: str, otherwise: str) -> tuple[T, ...]:
    there = tuple(found)
    if not there:
        raise NothingToDraw(evidence.missing.get(name, otherwise))
    return there


PLANS = (
    Plan(
        "front",
        "Clean accuracy against accuracy under attack",
        "Every measured trial with 95% intervals as bars, cut at 0 and 100%; the line joins the tickets that no other "
        "ticket beats in both accuracies. Colour is sparsity; the dense control is the hollow diamond, random tickets "
        "are crosses. The bar of a mean over attacks is the mean of their intervals.",
        _front,
    ),
    *(
        Plan(
            f"sparsity-{kind}",
            f"Clean accuracy and Aua over sparsity: {kind}",
            f"Tickets, random tickets and the dense control, by the share of {kind} cut. {_SPREAD} "
            "Trials with the same x may differ in other settings.",
            _sparsity(kind),
        )
        for kind in CUT
    ),
    Plan(
        "patterns",
        "Sparsity patterns",
        "What survives in every layer: each attention head, and the neurons or weights of the MLP. Tickets that "
        "differ only in their seed are shown as a mean.",
        _patterns,
    ),
    Plan(
        "mask-distances",
        "Mask distance between mini-epochs",
        "Normalised Hamming distance between the masks drawn at any two mini-epochs of the search; darker is "
        "closer. The dashed lines show where the search stopped and the ticket was drawn.",
        _distances,
    ),
    Plan(
        "gamma",
        "Accuracy under attack against γ",
        "γ is the threshold of the early stop: a smaller γ means a longer search. Trials with the same x may differ "
        f"in other settings. {_SPREAD}",
        lambda evidence: gamma_figure(evidence.measured),
    ),
    Plan(
        "mask-training",
        "R(m) and exact masks over the epochs of mask training",
        "By the regularisation strength λ: the regulariser R(m), and how many hard-concrete masks are exactly 0 or "
        "exactly 1.",
        lambda evidence: mask_figure(mask_trainings(evidence.curves)),
    ),
    Plan(
        "ood-sparsity",
        "In and out of distribution over sparsity",
        f"Accuracy on the select rows of the task and of its OOD twins. {_SPREAD}",
        _ood,
    ),
    Plan(
        "mask-start",
        "Mask training by its start",
        "The mask during its training, at its target sparsity, by how long the weights were fine-tuned before: on "
        "select rows of the task and of its OOD twins. The twins are measured after the training and choose nothing. "
        f"{_SPREAD}",
        lambda evidence: start_figure(*start_panels(evidence.curves)),
    ),
    Plan(
        "mask-schedule",
        "Fixed and gradual sparsity",
        "Mask training at a fixed sparsity, and with a sparsity that grows to it. Bars are means over trials, whiskers "
        "one standard deviation.",
        lambda evidence: schedule_figure(*schedules(evidence.measured)),
    ),
    Plan(
        "epochs",
        "Clean accuracy and the probe per epoch",
        "Retraining, epoch by epoch. The probe is accuracy under a PGD attack on the word embeddings of a few select "
        "rows: a cheap stand-in for the accuracy under attack in the tables.",
        epoch_figure,
    ),
    Plan(
        "epochs-attacked",
        "Clean accuracy and Aua by the epochs of retraining",
        _epochs_said,
        _epochs_attacked,
    ),
    Plan(
        "losses",
        "Training curves",
        "Mean training loss of every kind of training in the search; trials that share a stage share its line. "
        "Losses of different panels are not comparable.",
        loss_figure,
    ),
    Plan(
        "importance",
        "Importance of the settings",
        "How much of the variance of the objective each searched setting explains, by Optuna's fANOVA over the "
        "completed trials. With few trials these shares are rough.",
        _importance,
    ),
    Plan(
        "parallel",
        "Trials as parallel coordinates",
        "Every measured trial is a line through its settings to its metrics. Trials on the front of clean accuracy and "
        "Aua are thick. Lines through the same choice are drawn slightly apart.",
        _parallel,
    ),
    Plan(
        "examples",
        "Attacked texts",
        "What the attacks did to a few texts: words struck through were replaced by the bold words after them.",
        _examples,
    ),
)
"""In display order."""
