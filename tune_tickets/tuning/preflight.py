"""Checks before anything is spent: the rows, the backbone, the threat models, and what a trial could ask of them."""

from dataclasses import asdict

from tune_tickets.attacks.threat import ThreatModel, named, with_resources
from tune_tickets.config import Experiment
from tune_tickets.config.document import split
from tune_tickets.config.evaluation import Attack, Evaluation
from tune_tickets.config.method import EarlyRobust, RandomTicket
from tune_tickets.data.task import TaskData, load_task
from tune_tickets.errors import ConfigError
from tune_tickets.models.anatomy import Anatomy
from tune_tickets.models.inspection import inspect_backbone
from tune_tickets.models.source import backbone_fingerprint
from tune_tickets.space import warm_starts
from tune_tickets.tickets.drawing import cut_count
from tune_tickets.trial.pipeline import World
from tune_tickets.trial.rows import keep_rows, rows_stage
from tune_tickets.trial.stage import StageKey
from tune_tickets.trial.store import Store


def preflight(experiment: Experiment, store: Store) -> World:
    """Check everything, then put the rows into the store."""
    data, anatomy = check(experiment)
    keep_rows(store, data)
    return world_of(experiment, data, anatomy)


def world_of(experiment: Experiment, data: TaskData, anatomy: Anatomy) -> World:
    """The identities that enter the digests of stages."""
    stage = rows_stage(data)
    settings = experiment.settings
    return World(
        data=StageKey(stage.name, stage.digest, content=stage.digest),
        model_fingerprint=backbone_fingerprint(settings.model),
        anatomy=asdict(anatomy),
        threats=tuple(with_resources(threat, None) for threat in threats_of(settings.evaluation)),
    )


def check(experiment: Experiment) -> tuple[TaskData, Anatomy]:
    """Whether the experiment can be run here; writes nothing."""
    settings = experiment.settings
    warm_starts(experiment)
    for index, attack in enumerate(settings.evaluation.attacks):
        try:
            threat_of(attack, None)
        except ConfigError as error:
            raise experiment.source.error(("evaluation", "attacks", index), str(error)) from None
    _check_twins(experiment)
    anatomy = inspect_backbone(settings.model, settings.task.max_length)
    if isinstance(settings.method, EarlyRobust | RandomTicket):
        _check_ratio(experiment, anatomy)
    return load_task(settings.task, settings.seed), anatomy


def threats_of(evaluation: Evaluation) -> list[ThreatModel]:
    """The threat models of an experiment, before their resources are looked for."""
    return [threat_of(attack, evaluation.query_budget) for attack in evaluation.attacks]


def threat_of(attack: str | Attack, query_budget: int | None) -> ThreatModel:
    """The threat model that stands in an experiment by name, or by name and parameters."""
    if isinstance(attack, str):
        return named(attack, query_budget)
    return named(attack.name, query_budget, **attack.parameters())


def _check_twins(experiment: Experiment) -> None:
    names = [threat.name for threat in threats_of(experiment.settings.evaluation)]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise experiment.source.error(("evaluation", "attacks", index), f"{name!r} stands there twice")


def _check_ratio(experiment: Experiment, anatomy: Anatomy) -> None:
    """Every layer keeps a head, whatever ratio and scope a trial draws."""
    for scope in _options(experiment, "method.drawing.heads_scope"):
        layers = 1 if scope == "layer" else anatomy.layers
        most = layers * (anatomy.heads - 1)
        for ratio in _options(experiment, "method.drawing.heads"):
            cut = cut_count(float(ratio), layers * anatomy.heads)  # type: ignore[arg-type]
            if cut > most:
                where = "each layer" if scope == "layer" else "the model"
                raise experiment.source.error(
                    split("method.drawing.heads"),
                    f"{float(ratio):g} would remove {cut} of the {layers * anatomy.heads} heads of {where}, "  # type: ignore[arg-type]
                    f"but every layer keeps at least one, so at most {most} can go: "
                    f"lower it to {most / (layers * anatomy.heads):.4g} or less",
                )


def _options(experiment: Experiment, name: str) -> list[object]:
    """All values a setting of the drawing can take, by their bounds."""
    if name in experiment.domains:
        return list(experiment.domains[name].corners())
    value: object = experiment.settings
    for part in split(name):
        value = getattr(value, str(part))
    return [value]
