"""Trials as people number them, over the Optuna trials that stand for them: the first try, and those after errors."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from tune_tickets.config.domain import Scalar

RETRY_OF = "retry_of"
"""User attribute of an Optuna trial that tries the trial of that number again. A failed one can never run again."""


@dataclass
class Place:
    """The number of a trial, and all its tries in order."""

    number: int
    tries: list[FrozenTrial] = field(default_factory=list)

    @property
    def fixed(self) -> Collection[str]:
        """The parameters that were enqueued with their values."""
        return tuple(self.last.system_attrs.get("fixed_params", ())) if self.tries else ()

    @property
    def last(self) -> FrozenTrial:
        """The try that counts."""
        return self.tries[-1]


def places(study: optuna.Study) -> list[Place]:
    """All trials of a study in order; numbers have no gaps, however often trials were tried again."""
    found: list[Place] = []
    for trial in study.get_trials(deepcopy=False):
        again = trial.user_attrs.get(RETRY_OF)
        if again is None:
            found.append(Place(len(found)))
        found[-1 if again is None else again].tries.append(trial)
    return found


class SeededTrial:
    """An Optuna trial in which every parameter is drawn with a seed of its own.

    If the driver is killed while a trial is being drawn, the rest is drawn by the next one, as it would have been. What
    a sampler draws for all parameters together comes first, from the sampler without a name.
    """

    def __init__(
        self, trial: optuna.Trial, fixed: Collection[str], sampler: Callable[[str | None], BaseSampler]
    ) -> None:
        """`fixed` names the parameters that were enqueued with their values."""
        self._trial, self._fixed, self._sampler = trial, fixed, sampler

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """As Optuna's."""
        return self._seeded(name).suggest_float(name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        """As Optuna's."""
        return self._seeded(name).suggest_int(name, low, high, step=step)

    def suggest_categorical(self, name: str, choices: tuple[Scalar, ...]) -> Scalar:
        """As Optuna's."""
        value: Scalar = self._seeded(name).suggest_categorical(name, choices)
        return value

    def _seeded(self, name: str) -> optuna.Trial:
        if name not in self._trial.params and name not in self._fixed:
            self._trial.study.sampler = self._sampler(None)
            self._trial.relative_params  # noqa: B018 - drawn at the first look, and kept
            self._trial.study.sampler = self._sampler(name)
        return self._trial
