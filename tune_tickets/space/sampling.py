"""From search domains to one define-by-run function for Optuna."""

from typing import Protocol

from tune_tickets.config import Experiment
from tune_tickets.config.domain import Choice, Domain, Int, LogUniform, Scalar, Uniform
from tune_tickets.config.searchable import active


class Suggester(Protocol):
    """The part of an Optuna trial that sampling uses."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float: ...

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int: ...

    def suggest_categorical(self, name: str, choices: tuple[Scalar, ...]) -> Scalar: ...


def sample(experiment: Experiment, trial: Suggester) -> dict[str, Scalar]:
    """Draw a value for every domain whose conditions are met, conditions first."""
    params: dict[str, Scalar] = {}
    for name, domain in experiment.domains.items():
        if active(domain, params, experiment.document):
            params[name] = _draw(name, domain, trial)
    return params


def _draw(name: str, domain: Domain, trial: Suggester) -> Scalar:
    match domain:
        case Uniform(uniform=(low, high), step=step):
            # Without the rounding a grid has points such as 0.30000000000000004, which share no stage with 0.3.
            return float(f"{trial.suggest_float(name, low, high, step=step):.12g}")
        case LogUniform(log_uniform=(low, high)):
            return trial.suggest_float(name, low, high, log=True)
        case Int(int=(first, last), step=stride):
            return trial.suggest_int(name, first, last, step=stride)
        case Choice(choice=choices):
            return trial.suggest_categorical(name, choices)
