"""Optuna's samplers by the names of the YAML, and one of our own for grids over a condition tree.

None keeps anything between trials: each is made anew, seeded by the trial's number, and reads the study's storage.
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
    "multivariate-tpe": "by a TPE of their own",
    "nsga2": "at random, and are not inherited",
    "gp": "at random",
}
"""How samplers that model all parameters together draw those that only some trials have."""


def make_sampler(experiment: Experiment, number: int, name: str | None = None) -> BaseSampler:
    """The sampler of a trial, or of one of its parameters: rebuilt with one seed for all, it would repeat its draws."""
    search = experiment.settings.search
    seed = (experiment.settings.seed * 1_000_003 + number) % 2**32
    if name is not None:
        seed = derived_seed(seed, name) % 2**32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)  # older releases need what newer ones call deprecated
        match search.sampler:
            case "grid":
                return TreeGrid(grid(experiment))
            case "random":
                return RandomSampler(seed=seed)
            case "nsga2":
                return NSGAIISampler(population_size=search.population, seed=seed)
            case "gp":
                startup = max(1, search.startup_trials)  # it cannot fit nothing
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
    """What a user should know of how the sampler treats conditions; None if nothing."""
    conditional = [name for name, domain in experiment.domains.items() if domain.when]
    sampler = experiment.settings.search.sampler
    if not conditional or sampler not in _INDEPENDENT:
        return None
    return (
        f"The sampler {sampler} models the parameters that every trial has; those under a condition "
        f"({', '.join(conditional)}) are sampled independently, {_INDEPENDENT[sampler]}."
    )


class GaussianProcess(GPSampler):
    """Optuna's, which takes a trial that was left half drawn for one that runs beside it, and draws away from it."""

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As Optuna's, by what all other trials have drawn and reached."""
        others: Any = _Others(study, trial.number)
        return super().sample_relative(others, trial, search_space)


class _Others:
    """A study without one of its trials."""

    def __init__(self, study: optuna.Study, number: int) -> None:
        self._study, self._number = study, number

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a study has
        return getattr(self._study, name)

    def _get_trials(self, *arguments: Any, **options: Any) -> list[FrozenTrial]:  # noqa: ANN401 - Optuna's own
        return [each for each in self._study._get_trials(*arguments, **options) if each.number != self._number]


class TreeGrid(BaseSampler):
    """Each point of a grid once, in order, whatever session proposes it; warm starts take their points first."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Nothing: parameters are drawn one by one, as the condition tree unfolds."""
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing, likewise."""
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Scalar:
        """The value of the first point that no other trial has and that agrees with what this one has drawn."""
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
    """Equal for values that mean the same: a grid of floats has points such as 0.30000000000000004."""
    return f"{value:.12g}" if isinstance(value, float) else repr(value)
