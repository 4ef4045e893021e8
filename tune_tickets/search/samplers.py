"""Optuna's samplers by their names in the YAML, and a grid over conditional domains.

Samplers keep no state: a new one is made for every trial, seeded by its number. It reads the study from the storage.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial

from tune_tickets.config import Experiment
from tune_tickets.config.domain import Scalar
from tune_tickets.models.seeding import derived_seed
from tune_tickets.search.space import Point, grid

_INDEPENDENT = {
    "multivariate-tpe": "by a separate TPE",
    "nsga2": "at random, without inheritance",
    "gp": "at random",
}
"""How samplers that model all parameters together draw conditional ones."""


def make_sampler(experiment: Experiment, number: int, name: str | None = None) -> BaseSampler:
    """Return the sampler of a trial, or of one of its parameters. Each has its own seed, so no draw is repeated."""
    search = experiment.settings.search
    seed = (experiment.settings.seed * 1_000_003 + number) % 2**32
    if name is not None:
        seed = derived_seed(seed, name) % 2**32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)  # arguments that older releases need
        match search.sampler:
            case "grid":
                return TreeGrid(grid(experiment))
            case "random":
                return RandomSampler(seed=seed)
            case "nsga2":
                return NSGAIISampler(population_size=search.population, seed=seed)
            case "gp":
                startup = max(1, search.startup_trials)  # a GP needs at least one trial
                return GaussianProcess(seed=seed, n_startup_trials=startup, warn_independent_sampling=False)
            case kind:
                return TPESampler(
                    seed=seed,
                    n_startup_trials=search.startup_trials,
                    multivariate=kind != "tpe",
                    group=kind == "group-tpe",
                    warn_independent_sampling=False,
                )


def sampler_note(experiment: Experiment) -> str | None:
    """Return what a user should know about the sampler and conditional domains, or None."""
    conditional = [name for name, domain in experiment.domains.items() if domain.when]
    sampler = experiment.settings.search.sampler
    if not conditional or sampler not in _INDEPENDENT:
        return None
    return (
        f"The sampler {sampler} only models parameters that every trial has. Conditional ones "
        f"({', '.join(conditional)}) are sampled independently, {_INDEPENDENT[sampler]}."
    )


class GaussianProcess(GPSampler):
    """Optuna's GP sampler for trials that are drawn one parameter at a time.

    Optuna takes the half-drawn trial itself for another running one, and would draw away from it.
    """

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Like Optuna's, but without the trial itself among the others."""
        others: Any = _Others(study, trial.number)
        return super().sample_relative(others, trial, search_space)


class _Others:
    """A study without one of its trials. Optuna has no public way to hide a trial from a sampler."""

    def __init__(self, study: optuna.Study, number: int) -> None:
        self._study, self._number = study, number

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a study has
        return getattr(self._study, name)

    def _get_trials(self, *arguments: Any, **options: Any) -> list[FrozenTrial]:  # noqa: ANN401 - Optuna's own
        return [each for each in self._study._get_trials(*arguments, **options) if each.number != self._number]


class TreeGrid(BaseSampler):
    """Proposes each point of a grid once, in order, over all sessions. Warm starts count as proposed."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return nothing: parameters are drawn one by one, because conditions depend on earlier ones."""
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return nothing, for the same reason."""
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Scalar:
        """Return the value of the first free point that agrees with the parameters drawn so far."""
        own = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        fitting = [point for point in self._points if param_name in point and _agrees(point, own)]
        others = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        taken = {_key({**each.system_attrs.get("fixed_params", {}), **each.params}) for each in others}
        fresh = [point for point in fitting if _key(point) not in taken]
        return (fresh or fitting)[0][param_name]


def _agrees(point: Point, drawn: Point) -> bool:
    return all(name in point and _same(point[name]) == _same(value) for name, value in drawn.items())


def _key(point: Point) -> frozenset[tuple[str, str]]:
    return frozenset((name, _same(value)) for name, value in point.items())


def _same(value: Scalar) -> str:
    """Return equal texts for equal values: a grid of floats has points such as 0.30000000000000004."""
    return f"{value:.12g}" if isinstance(value, float) else repr(value)
