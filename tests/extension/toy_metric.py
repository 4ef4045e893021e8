"""A metric that lives outside the package: one row."""

from tune_tickets.results.metrics import Metric, register

register(
    Metric(
        "toy_gap",
        lambda model: None if not model.attacks else model.clean.accuracy - model.attacks[0].accuracy_under_attack,
        better="lower",
        objective=True,
        column="ToyGap%",
    )
)
