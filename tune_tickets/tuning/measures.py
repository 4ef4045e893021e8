"""The metrics an experiment measures, by name: what its objective may be made of."""

from collections.abc import Iterator

from tune_tickets.attacks.threat import threats_of
from tune_tickets.config import Experiment, Settings
from tune_tickets.config.source import KeyPath
from tune_tickets.objective import falling


def measured(settings: Settings) -> tuple[str, ...]:
    """The metrics with a direction that every finished trial has: all but flops are the better the higher."""
    attacked = tuple(f"aua/{threat.name}" for threat in threats_of(settings.evaluation))
    twins = tuple(f"ood/{name}" for name in settings.task.twins)
    apart = ("ood", *twins) if twins else ()
    lost = ("sparsity", "sparsity/heads", "sparsity/neurons", "sparsity/weights", "flops")
    own = ("clean", "aua", *attacked, "weighted_f1")
    further = tuple(f"transfer/{task}/{name}" for task in settings.transfer for name in own)
    means = ("mean/clean", "mean/aua") if further else ()
    return (*own, *apart, *lost, *means, *further)


def check_objective(experiment: Experiment) -> None:
    """Refuse an objective made of what is not measured, or whose early exit could end a ticket that would win."""
    settings = experiment.settings
    known = measured(settings)
    for place, metric in _named(settings):
        if metric not in known:
            instead = ". For latency take flops, which is the same on every machine" if metric == "latency" else ""
            raise experiment.source.error(
                place, f"{metric!r} is not measured in this experiment; what is: {', '.join(known)}{instead}"
            )
    if settings.evaluation.early_exit and (found := falling(settings.objective)):
        raise experiment.source.error(
            ("evaluation", "early_exit"),
            f"cannot be exact under the constraint {found[0]}: a ticket may look hopeless before its last row is "
            "attacked and meet it then. Set early_exit to false, or leave the constraint out",
        )


def _named(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Every metric the objective reads, and where it is named."""
    objective = settings.objective
    key = {"weighted": "weights", "constrained": "maximise"}.get(objective.kind, "metrics")
    for metric in objective.valued:
        yield ("objective", key), metric
    for index, constraint in enumerate(objective.constraints):
        yield ("objective", "constraints", index, "metric"), constraint.metric
