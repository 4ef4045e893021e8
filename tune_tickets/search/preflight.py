"""Checks before anything is computed: rows, backbone, threat models, and every setting that a trial could draw."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tune_tickets.attacks.substitutes import source_identity
from tune_tickets.attacks.threat import ThreatModel, threat_of, threats_of, with_resources
from tune_tickets.config import Experiment, Settings
from tune_tickets.config.method import method_type
from tune_tickets.config.source import KeyPath, split
from tune_tickets.config.task import Planted, Task
from tune_tickets.config.training import ENCODER_INPUT, NO_WORDS, Adversary
from tune_tickets.data.bias import WordVectors
from tune_tickets.data.rows import rows_digest
from tune_tickets.data.task import TaskData, load_task
from tune_tickets.engine.stage import Stage, StageKey
from tune_tickets.engine.store import Store
from tune_tickets.errors import ConfigError, ResourceError, Unreachable
from tune_tickets.methods.base import World
from tune_tickets.methods.given import (
    corpus_stage,
    corpus_texts,
    keep_corpus,
    keep_mask,
    keep_rows,
    keep_twins,
    keep_vectors,
    mask_key,
    ood_train_stage,
    read_rows,
    rows_stage,
    task_vectors,
    twin_stage,
    vectors_stage,
)
from tune_tickets.methods.stages import masked_lm_model, masked_lm_stage
from tune_tickets.models.backbone import inspect_backbone, unreadable_markers
from tune_tickets.models.families.base import Anatomy
from tune_tickets.models.loading import given_mask
from tune_tickets.models.source import backbone_fingerprint, resolved_pooling
from tune_tickets.results.metrics import objective_names
from tune_tickets.results.objective import falling
from tune_tickets.results.records import ThreatRecord
from tune_tickets.search.space import trial_options, trials_wanted, warm_starts
from tune_tickets.tickets.drawing import cut_count
from tune_tickets.tickets.unstructured import Mask
from tune_tickets.tracking.protocol import RowsRecord, SearchInputs


def further_rows(settings: Settings, unseen: list[str]) -> dict[str, TaskData]:
    """Return the rows of every task under `transfer`, by name. Unreachable ones are added to `unseen`."""
    found = {}
    for name, other in settings.transfer.items():
        try:
            found[name] = load_task(other.task, settings.seed)
        except Unreachable as error:
            unseen.append(f"transfer.{name}: {error}")
    return found


def texts_searched_on(experiment: Experiment, unseen: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the texts of every corpus that a trial could use, by name. Unreachable ones are added to `unseen`."""
    found: dict[str, tuple[str, ...]] = {}
    for method in (experiment.at(point).method for point in trial_options(experiment)):
        for name, reason in method.not_searchable.items():
            if f"method.{name}" in experiment.domains:
                message = f"cannot be searched: {reason}; set a number"
                raise experiment.source.error(split(f"method.{name}"), message)
        corpus = method.text_corpus
        if corpus is None or corpus in found:
            continue
        try:
            found[corpus] = method.read_texts(experiment.settings.seed)
        except Unreachable as error:
            note = f"method.corpus: {error}"
            if note not in unseen:
                unseen.append(note)
    return found


def check_labels(experiment: Experiment, data: TaskData | None, transfers: Mapping[str, TaskData]) -> None:
    """Raise ConfigError if a mask covers the classifier, but the tasks differ in their number of labels."""
    domain = experiment.domains.get("method.kind")
    kinds = [str(kind) for kind in domain.corners()] if domain is not None else [experiment.settings.method.kind]
    covering = [kind for kind in kinds if method_type(kind).masks_classifier]
    if data is None or not covering:
        return
    for name, other in transfers.items():
        if len(other.labels) != len(data.labels):
            raise experiment.source.error(
                ("transfer", name),
                f"the task has {len(other.labels)} labels and the main one {len(data.labels)}, but masks of the method "
                f"{covering[0]} cover the classifier too: use tasks with equally many labels, or another method",
            )


def check_lengths(experiment: Experiment) -> None:
    """Check that the backbone has enough positions for every task and for the blocks of a corpus."""
    model = experiment.settings.model
    for name, other in experiment.settings.transfer.items():
        inspect_backbone(model, other.task.max_length, f"transfer.{name}.task.max_length")
    for method in (experiment.at(point).method for point in trial_options(experiment)):
        for name, tokens in method.lengths().items():
            inspect_backbone(model, tokens, f"method.{name}")


def search_inputs(settings: Settings, world: World, store: Store) -> SearchInputs:
    """Return the rows and threat models of a search, as `preflight` stored them."""
    rows = list(_rows(settings.task, world.data, store))
    for name, key in world.transfers.items():
        rows += _rows(settings.transfer[name].task, key, store)
    return SearchInputs(tuple(rows), tuple(_threat(threat) for threat in world.threats))


def _rows(task: Task, key: StageKey, store: Store) -> Iterator[RowsRecord]:
    kept = store.find(key.name, key.digest)
    if kept is None:
        return
    found = read_rows(store, kept)
    for context, examples in (("train", found.train), ("select", found.select)):
        digest = rows_digest((row.texts, row.label) for row in examples)
        name = f"{task.source} ({context})"
        yield RowsRecord(name, context, digest, task.source, len(examples), found.columns, found.labels)


def _threat(threat: ThreatModel) -> ThreatRecord:
    return ThreatRecord(name=threat.name, fingerprint=threat.fingerprint, resources=dict(threat.resources))


def measured(settings: Settings) -> tuple[str, ...]:
    """Return the metrics with a direction that every finished trial has."""
    threats = [threat.name for threat in threats_of(settings.evaluation)]
    return objective_names(threats, settings.task.twins, settings.transfer, settings.evaluation.suite)


def check_objective(experiment: Experiment) -> None:
    """Raise ConfigError if the objective names an unknown metric, or if early exit could stop a winner."""
    settings = experiment.settings
    known = measured(settings)
    for place, metric in _named(settings):
        if metric not in known:
            instead = ". For latency use flops, which is the same on every machine" if metric == "latency" else ""
            raise experiment.source.error(
                place, f"{metric!r} is not measured in this experiment. Known metrics: {', '.join(known)}{instead}"
            )
    if settings.evaluation.early_exit and (found := falling(settings.objective)):
        raise experiment.source.error(
            ("evaluation", "early_exit"),
            f"is not exact with the constraint {found[0]}: a ticket that fails it now may meet it after its last "
            "attacked row. Set early_exit to false, or remove the constraint",
        )


def _named(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Yield every metric that the objective reads, and its key."""
    objective = settings.objective
    key = {"weighted": "weights", "constrained": "maximise"}.get(objective.kind, "metrics")
    for metric in objective.valued:
        yield ("objective", key), metric
    for index, constraint in enumerate(objective.constraints):
        yield ("objective", "constraints", index, "metric"), constraint.metric


@dataclass(frozen=True)
class Seen:
    """What `look` found. `unseen` says what could not be read, because it is on the hub or not fetched."""

    data: TaskData | None
    anatomy: Anatomy | None
    masks: dict[str, Mask]
    """Masks of the ticket files that a trial could read, by path."""
    threats: tuple[ThreatModel, ...]
    texts: tuple[str, ...] | None
    """Texts for the masked language model, if an attack uses one."""
    vectors: dict[str, WordVectors]
    """Word vectors of the fastText files that a bias model could read, by path."""
    unseen: tuple[str, ...]
    transfers: dict[str, TaskData] = field(default_factory=dict)
    """Rows of further tasks, by name."""
    search_texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Texts that tickets are searched on, by corpus."""
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Identities of the sources of substitutes that an adversary could train with, by name."""


def preflight(experiment: Experiment, store: Store) -> World:
    """Check everything, then store what stages read: rows, texts, word vectors and masks of ticket files.

    Args:
        experiment: The experiment.
        store: The stage store.

    Returns:
        The identities that enter the digests of stages.

    Raises:
        ConfigError: A setting that a trial could draw is not valid.
        DataError: Rows cannot be used.
        ResourceError: Something cannot be read.
    """
    seen = look(experiment)
    world = world_of(experiment, seen)
    if world is None or seen.data is None:
        raise ResourceError("\n\n".join(seen.unseen))
    for data in (seen.data, *seen.transfers.values()):
        keep_rows(store, data)
    keep_twins(store, seen.data)
    for mask in seen.masks.values():
        keep_mask(store, mask)
    for texts in (*seen.search_texts.values(), *([] if seen.texts is None else [seen.texts])):
        keep_corpus(store, texts)
    for vectors in seen.vectors.values():
        keep_vectors(store, vectors)
    return world


def look(experiment: Experiment) -> Seen:
    """Check whether the experiment can run, as far as possible from here. Nothing is written."""
    settings = experiment.settings
    warm_starts(experiment)
    _check_threats(experiment)
    check_objective(experiment)
    trials_wanted(experiment)  # raises if a grid has a continuous domain
    data = anatomy = texts = None
    masks: dict[str, Mask] = {}
    vectors: dict[str, WordVectors] = {}
    threats: list[ThreatModel] = []
    unseen: list[str] = []
    try:
        anatomy = _check_backbone(experiment)
        masks = {path: given_mask(path, settings.model) for path in _named_tickets(experiment)}
    except Unreachable as error:
        unseen.append(str(error))
    try:
        data = load_task(settings.task, settings.seed)
        texts = corpus_texts(settings, data.train) if _fits_masked_lm(settings) else None
        vectors = {path: task_vectors(path, data) for path in _named_vectors(experiment)}
    except Unreachable as error:
        unseen.append(str(error))
    transfers, search_texts = further_rows(settings, unseen), texts_searched_on(experiment, unseen)
    check_labels(experiment, data, transfers)
    masked_lm = None if anatomy is None or texts is None else _masked_lm(settings, texts)
    for threat in threats_of(settings.evaluation):
        if threat.fits_masked_lm and masked_lm is None:
            continue  # the backbone or the rows are missing, which is reported already
        try:
            threats.append(with_resources(threat, masked_lm))
        except ResourceError as error:
            unseen.append(str(error))
    sources: dict[str, dict[str, Any]] = {}
    for source in _named_sources(experiment):
        try:
            sources[source] = source_identity(source)
        except ResourceError as error:
            unseen.append(str(error))
    reasons = tuple(dict.fromkeys(unseen))
    return Seen(data, anatomy, masks, tuple(threats), texts, vectors, reasons, transfers, search_texts, sources)


def world_of(experiment: Experiment, seen: Seen) -> World | None:
    """Return the identities that enter the digests of stages; None if something could not be read."""
    if seen.data is None or seen.anatomy is None or seen.unseen:
        return None
    return World(
        data=stage_key(rows_stage(seen.data)),
        model_fingerprint=backbone_fingerprint(experiment.settings.model),
        pooling=resolved_pooling(experiment.settings.model),
        anatomy=asdict(seen.anatomy),
        threats=seen.threats,
        tickets={path: mask_key(mask) for path, mask in seen.masks.items()},
        corpus=None if seen.texts is None else stage_key(corpus_stage(seen.texts)),
        twins={twin.name: stage_key(twin_stage(twin)) for twin in seen.data.ood},
        ood_train=stage_key(ood_train_stage(seen.data.ood_train)) if seen.data.ood_train else None,
        vectors={path: stage_key(vectors_stage(vectors)) for path, vectors in seen.vectors.items()},
        transfers={name: stage_key(rows_stage(data)) for name, data in seen.transfers.items()},
        search_texts={corpus: stage_key(corpus_stage(texts)) for corpus, texts in seen.search_texts.items()},
        sources=seen.sources,
    )


def stage_key(stage: Stage) -> StageKey:
    """Return the key of a stage whose content is its digest."""
    return StageKey(stage.name, stage.digest, content=stage.digest)


def _fits_masked_lm(settings: Settings) -> bool:
    return any(threat.fits_masked_lm for threat in threats_of(settings.evaluation))


def _masked_lm(settings: Settings, texts: tuple[str, ...]) -> str:
    """Return the digest of the stage that fits the masked language model."""
    model, fitting = masked_lm_model(settings), settings.evaluation.masked_lm
    fingerprint = backbone_fingerprint(settings.model)
    return masked_lm_stage(settings.seed, model, fingerprint, fitting, stage_key(corpus_stage(texts))).digest


def _check_threats(experiment: Experiment) -> None:
    for index, attack in enumerate(experiment.settings.evaluation.attacks):
        try:
            threat_of(attack, None)
        except ConfigError as error:
            raise experiment.source.error(("evaluation", "attacks", index), str(error)) from None
    names = [threat.name for threat in threats_of(experiment.settings.evaluation)]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise experiment.source.error(("evaluation", "attacks", index), f"{name!r} is listed twice")


def _check_backbone(experiment: Experiment) -> Anatomy:
    settings = experiment.settings
    anatomy = inspect_backbone(settings.model, settings.task.max_length)
    if _fits_masked_lm(settings):
        length = settings.evaluation.masked_lm.max_length
        inspect_backbone(masked_lm_model(settings), length, "evaluation.masked_lm.max_length")
    if settings.task.planted is not None:
        _check_markers(experiment, settings.task.planted)
    check_lengths(experiment)
    if settings.method.ratios is not None:
        own = [f"transfer.{name}.drawing" for name, other in settings.transfer.items() if other.drawing is not None]
        for drawing in ("method.drawing", *own):
            _check_ratio(experiment, anatomy, drawing)
    return anatomy


def _check_markers(experiment: Experiment, planted: Planted) -> None:
    """Raise ConfigError if the tokenizer splits a marker: the model would not see it."""
    unreadable = unreadable_markers(experiment.settings.model, planted.markers)
    if unreadable:
        raise experiment.source.error(
            ("task", "planted", "markers"),
            f"{', '.join(map(repr, unreadable))} would not reach the model as a separate token; choose common words "
            "or signs of its vocabulary",
        )


def _named_tickets(experiment: Experiment) -> list[str]:
    """Return the ticket files that trials may read."""
    methods = [experiment.at(point).method for point in trial_options(experiment)]
    found = {method.ticket_file for method in methods if method.ticket_file is not None}
    listed = _options(experiment, "method.like") if "method.like" in experiment.domains else []
    return sorted(found | {str(path) for path in listed if path is not None})


def _named_vectors(experiment: Experiment) -> set[str]:
    """Return the files with word vectors that bias models may read."""
    return _values_of(experiment, ("bias", "vectors")) - {ENCODER_INPUT}


def _named_sources(experiment: Experiment) -> list[str]:
    """Return the sources of substitutes that adversaries may train with: those written, and the default."""
    default = str(Adversary.model_fields["source"].default)
    return sorted(_values_of(experiment, ("adversary", "source")) - {NO_WORDS} | {default})


def _values_of(experiment: Experiment, key: tuple[str, ...]) -> set[str]:
    """Return every value that a setting of this name can have, anywhere in the document."""
    named: set[str] = set()

    def walk(node: object, path: tuple[str, ...]) -> None:
        if path[-len(key) :] == key:
            domain = experiment.domains.get(".".join(path))
            named.update(map(str, domain.corners() if domain is not None else [node]))
        elif isinstance(node, dict):
            for name, value in node.items():
                walk(value, (*path, str(name)))

    walk(experiment.document, ())
    return named


def _check_ratio(experiment: Experiment, anatomy: Anatomy, drawing: str) -> None:
    """Raise ConfigError if a trial could draw a ratio that leaves a layer without a head."""
    for scope in _options(experiment, f"{drawing}.heads_scope"):
        layers = 1 if scope == "layer" else anatomy.layers
        most = layers * (anatomy.heads - 1)
        for ratio in _options(experiment, f"{drawing}.heads"):
            cut = cut_count(float(ratio), layers * anatomy.heads)  # type: ignore[arg-type]
            if cut > most:
                where = "each layer" if scope == "layer" else "the model"
                raise experiment.source.error(
                    split(f"{drawing}.heads"),
                    f"{float(ratio):g} would remove {cut} of the {layers * anatomy.heads} heads of {where}, "  # type: ignore[arg-type]
                    f"but every layer keeps at least one, so at most {most} can go: "
                    f"lower it to {most / (layers * anatomy.heads):.4g} or less",
                )


def _options(experiment: Experiment, name: str) -> list[object]:
    """Return the values that a setting can have; of a range, its bounds."""
    if name in experiment.domains:
        return list(experiment.domains[name].corners())
    value: object = experiment.settings
    for part in split(name):
        value = value[part] if isinstance(value, dict) else getattr(value, str(part))
    return [value]
