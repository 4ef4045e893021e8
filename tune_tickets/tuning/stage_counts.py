"""How often the trials and controls of a search ask for each kind of stage, before anything is run."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import product

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.method import EarlyRobust, FineTune, Imp, RobustT
from tune_tickets.config.searchable import fill
from tune_tickets.space import warm_starts

_DECIDING = ("method.kind", "method.sparsity", "ablation.mask")
"""What the number of a trial's stages depends on."""
_OPTIONS: tuple[str, ...] = ("method.kind", "ablation.mask", "retraining.adversary.kind")


def trial_options(experiment: Experiment) -> list[Settings]:
    """The settings once per value of what decides over stages and their work; the dearest training last."""
    searched = [name for name in _OPTIONS if name in experiment.domains]
    values = product(*(experiment.domains[name].corners() for name in searched))
    points = [dict(zip(searched, found, strict=True)) for found in values]
    options = [experiment.at(fill(experiment.document, experiment.domains, point)) for point in points]
    return sorted(options, key=lambda option: option.retraining.adversary.passes)


def stages_asked(experiment: Experiment, options: list[Settings]) -> Counter[str]:
    """How often each stage is asked for: as the warm starts say, and at most for every trial beyond them."""
    settings = experiment.settings
    started = list(_settled(experiment))
    asked = sum(map(_stages_of_trial, started), Counter[str]())
    most: Counter[str] = Counter()
    for option in options:
        most |= _stages_of_trial(_sparsest(experiment, option))
    for _ in range(settings.search.trials - len(started)):
        asked += most
    randoms = settings.controls.random_seeds if settings.controls.random else 0
    for _ in range(randoms + int(settings.controls.dense)):
        asked += _stages_of_model(settings)
    return asked + Counter(draw=randoms)


def _settled(experiment: Experiment) -> Iterator[Settings]:
    """The warm starts that say themselves which stages they ask for; the sampler completes the others."""
    for point in warm_starts(experiment)[: experiment.settings.search.trials]:
        filled = fill(experiment.document, experiment.domains, point)
        if all(name in point for name in _DECIDING if name in filled):
            yield experiment.at(filled)


def _stages_of_trial(settings: Settings) -> Counter[str]:
    method, stages = settings.method, _stages_of_model(settings)
    if isinstance(method, FineTune):
        return stages
    stages += Counter(draw=1 + int(settings.ablation.mask == "shuffled"))
    if isinstance(method, EarlyRobust):
        return stages + Counter(search=1)
    if isinstance(method, RobustT):
        return stages + Counter(masks=1, retrain=1)
    if isinstance(method, Imp):
        rounds = len(method.schedule())
        return stages + Counter(imp=rounds, draw=rounds - 1)
    return stages


def _stages_of_model(settings: Settings) -> Counter[str]:
    """What any model goes through once it is there to be trained."""
    evaluation = settings.evaluation
    shards = math.ceil(evaluation.rows / evaluation.shard)
    return Counter(retrain=1, evaluate=1, attack=len(evaluation.attacks) * shards)


def _sparsest(experiment: Experiment, option: Settings) -> Settings:
    """The rounds of IMP grow with the sparsity asked for."""
    domain = experiment.domains.get("method.sparsity")
    if domain is None or not isinstance(option.method, Imp):
        return option
    most = max(float(sparsity) for sparsity in domain.corners() if isinstance(sparsity, int | float))
    return option.model_copy(update={"method": option.method.model_copy(update={"sparsity": most})})
