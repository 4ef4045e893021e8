"""How often the trials and controls of a search ask for each kind of stage, before anything is run."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import product

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.domain import Scalar
from tune_tickets.config.loading import active, fill
from tune_tickets.config.method import EarlyBird, FineTune, Imp, ORTicket, RandomTicket, RobustT
from tune_tickets.config.orticket import CORPUS
from tune_tickets.config.srnets import SRNets
from tune_tickets.config.training import Debiasing
from tune_tickets.search.space import reference, trials_wanted, warm_starts

_FINDING = ("method.search_on", "method.pruning", "method.paradigm")
_LOSSES = ("method.debiasing.loss", "method.finetuning.debiasing.loss", "retraining.debiasing.loss")
_DECIDING = ("method.kind", *_FINDING, *_LOSSES, "method.sparsity", "ablation.mask")
"""What the number of a trial's stages depends on."""
_OPTIONS = ("method.kind", *_FINDING, *_LOSSES, "ablation.mask", "retraining.adversary.kind")


def trial_options(experiment: Experiment) -> list[Settings]:
    """The settings once per value of what decides over stages and their work; the dearest training last."""
    searched = [name for name in _OPTIONS if name in experiment.domains]
    values = product(*(experiment.domains[name].corners() for name in searched))
    points = [_settled_by(dict(zip(searched, found, strict=True)), experiment) for found in values]
    different = [point for index, point in enumerate(points) if point not in points[:index]]
    options = [experiment.at(point) for point in different]
    return sorted(options, key=lambda option: option.retraining.adversary.passes)


def _settled_by(point: dict[str, Scalar], experiment: Experiment) -> dict[str, Scalar]:
    """All that is searched where these values are chosen: a method is not asked for what only another one has."""
    params: dict[str, Scalar] = {}
    for name, domain in experiment.domains.items():
        if active(domain, params, experiment.document):
            params[name] = point.get(name, domain.corners()[0])
    return params


def stages_asked(experiment: Experiment, options: list[Settings]) -> Counter[str]:
    """How often each stage is asked for: as the warm starts say, and at most for every trial beyond them."""
    settings = experiment.settings
    started = list(_settled(experiment))
    asked = sum(map(_stages_of_trial, started), Counter[str]())
    most: Counter[str] = Counter()
    for option in options:
        most |= _stages_of_trial(_sparsest(experiment, option))
    for _ in range(trials_wanted(experiment) - len(started)):
        asked += most
    randoms = _randoms(experiment)
    for _ in range(randoms + int(settings.controls.dense)):
        asked += _stages_of_model(settings)
    for _ in range(randoms):
        asked += _stages_of_random_cut(settings) + Counter(draw=len(settings.transfer))
    return asked + _stages_of_epochs(experiment)


def _randoms(experiment: Experiment) -> int:
    """How many random controls there are at most: every trial may be on the front, and have counts of its own."""
    controls = experiment.settings.controls
    tickets = 1 if controls.random_of == "winner" else trials_wanted(experiment)
    return controls.random_seeds * tickets if controls.random else 0


def _stages_of_epochs(experiment: Experiment) -> Counter[str]:
    """The winner and the dense control after every epoch but the last, which is measured already."""
    settings = experiment.settings
    domain = experiment.domains.get("retraining.epochs")
    winners = settings.retraining.epochs if domain is None else max(int(str(value)) for value in domain.corners())
    trained = [winners] + [reference(experiment).retraining.epochs] * settings.controls.dense
    if not settings.controls.epochs:
        return Counter()
    evaluation, between = settings.evaluation, sum(trained) - len(trained)
    shards = len(evaluation.attacks) * math.ceil(evaluation.rows / evaluation.shard)
    return Counter(epochs=len(trained), evaluate=between, attack=between * shards)


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
    drawings = 1 + int(settings.ablation.mask == "shuffled")
    stages += Counter(draw=drawings)
    if isinstance(method, EarlyBird | RandomTicket):
        stages += Counter(draw=drawings * sum(other.drawing is not None for other in settings.transfer.values()))
    if isinstance(method, ORTicket) and method.search_on == CORPUS:
        return stages + Counter(masked_lm=1, mlm_search=1)
    if isinstance(method, EarlyBird):
        return stages + Counter(search=1)
    if isinstance(method, RobustT):
        return stages + Counter(masks=1, retrain=1) + _experts(method.finetuning.debiasing)
    if isinstance(method, Imp):
        rounds = len(method.schedule())
        return stages + Counter(imp=rounds, draw=rounds - 1)
    if isinstance(method, SRNets):
        return stages + _stages_of_pruning(method, len(settings.task.twins))
    return stages


def _stages_of_pruning(method: SRNets, twins: int) -> Counter[str]:
    stages = Counter(retrain=1) + _experts(method.finetuning.debiasing) if method.from_finetuned else Counter[str]()
    if method.pruning == "mask_training":
        return stages + Counter(srnets_masks=1, ood_curve=twins) + _experts(method.debiasing)
    cuts = len(method.cuts())
    # What is rewound after the last cut needs no training behind it.
    trained = cuts - int(method.pruning == "imp_rewind")
    stages += Counter(srnets_imp=trained, draw=cuts - 1)
    return sum((_experts(method.debiasing) for _ in range(trained)), stages)


def _stages_of_random_cut(settings: Settings) -> Counter[str]:
    """A random ticket is drawn like another; taken as it is, it is cut from the weights that pruning started from."""
    method, drawn = settings.method, Counter(draw=1)
    if not isinstance(method, SRNets) or method.retrained:
        return drawn
    drawn += Counter(retrain=int(method.from_finetuned))
    return drawn + Counter(srnets_imp=1) + _experts(method.debiasing) if method.pruning == "imp" else drawn


def _stages_of_model(settings: Settings) -> Counter[str]:
    """What any model goes through on every task once it is there to be trained."""
    evaluation, tasks = settings.evaluation, 1 + len(settings.transfer)
    attacked = (evaluation.rows, *map(settings.attacked_rows, settings.transfer))
    shards = sum(math.ceil(rows / evaluation.shard) for rows in attacked)
    measured = Counter(retrain=tasks, evaluate=tasks, attack=len(evaluation.attacks) * shards)
    trainings = [
        settings.retraining,
        *(other.retraining or settings.retraining for other in settings.transfer.values()),
    ]
    experts = sum((_experts(training.debiasing) for training in trainings), Counter[str]())
    return measured + Counter(ood=len(settings.task.twins)) + experts


def _experts(debiasing: Debiasing) -> Counter[str]:
    """What the loss of a training reads; a teacher is fine-tuned first."""
    return Counter(debiasing.experts) + Counter(retrain=int("teacher" in debiasing.experts))


def _sparsest(experiment: Experiment, option: Settings) -> Settings:
    """The rounds of IMP, and the cuts of SRNets, grow with the sparsity asked for."""
    domain = experiment.domains.get("method.sparsity")
    if domain is None or not isinstance(option.method, Imp | SRNets):
        return option
    most = max(float(sparsity) for sparsity in domain.corners() if isinstance(sparsity, int | float))
    return option.model_copy(update={"method": option.method.model_copy(update={"sparsity": most})})
