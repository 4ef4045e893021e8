"""Confirmed tickets: means and intervals over seeds, and paired tests against the controls of the same seeds."""

from collections.abc import Mapping, Sequence
from statistics import mean

from tune_tickets.confirmation import ConfirmedModel, Estimate, SeedRun, SeedTest
from tune_tickets.evaluation.intervals import paired_t, t_interval

_FIGURES = ("clean", "aua", "ood")


def is_figure(name: str) -> bool:
    """Whether a metric is one that a confirmation makes a claim about: accuracies, clean, attacked and OOD."""
    return name.split("/", 1)[0] in _FIGURES


def estimates(runs: Sequence[SeedRun]) -> dict[str, Estimate]:
    """By metric, over the seeds that were measured."""
    done = [run for run in runs if run.status == "complete"]
    names = dict.fromkeys(name for run in done for name in run.metrics if is_figure(name))
    return {name: _estimate([run.metrics[name] for run in done if name in run.metrics]) for name in names}


def tests(models: Sequence[ConfirmedModel]) -> tuple[SeedTest, ...]:
    """Every ticket against the dense control and the random tickets like it, per metric."""
    return tuple(
        _test(ticket, other, metric)
        for ticket in models
        if ticket.kind == "ticket"
        for other in models
        if other.kind == "dense" or (other.kind == "random" and other.trial == ticket.trial)
        for metric in ticket.estimates
        if metric in other.estimates
    )


def _estimate(values: Sequence[float]) -> Estimate:
    return Estimate(mean=mean(values), interval=t_interval(values), seeds=len(values))


def _test(ticket: ConfirmedModel, other: ConfirmedModel, metric: str) -> SeedTest:
    ours, theirs = _by_seed(ticket, metric), _by_seed(other, metric)
    both = [seed for seed in ours if seed in theirs]
    pairs = [(ours[seed], theirs[seed]) for seed in both]
    differences = [one - two for one, two in pairs]
    return SeedTest(
        ticket=ticket.name,
        other=other.name,
        metric=metric,
        difference=mean(differences) if differences else 0.0,
        interval=t_interval(differences),
        p_value=paired_t([one for one, _ in pairs], [two for _, two in pairs]),
        seeds=len(both),
    )


def _by_seed(model: ConfirmedModel, metric: str) -> Mapping[int, float]:
    return {run.seed: run.metrics[metric] for run in model.runs if metric in run.metrics}
