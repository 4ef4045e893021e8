"""Results of trials, controls and confirmations as plain data."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tune_tickets.results.metrics import aua_of, epoch_values, outcome_values


class Record(BaseModel):
    """Base of all records: unknown keys are errors, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Training(Record):
    """The cost of training. A pass of a ticket counts like one of the whole model; seconds show that it is smaller."""

    passes: float = Field(description="Forward and backward passes over all training rows, each adversarial pass one")
    seconds: float = Field(description="Time in training steps, without loading and evaluation")

    def __add__(self, other: "Training") -> "Training":
        return Training(passes=self.passes + other.passes, seconds=self.seconds + other.seconds)


class Cost(Record):
    """The cost of one trained model. Shared stages are counted in full for each trial."""

    retraining: Training = Field(description="Training the model itself, the ticket once it is drawn")
    search: Training = Field(description="Training to find the ticket; 0 for controls and baselines")

    @property
    def total(self) -> Training:
        """Retraining and search together."""
        return self.retraining + self.search

    def metrics(self) -> dict[str, float]:
        """Return the cost as a flat mapping with the names used in MLflow."""
        own, total = self.retraining, self.total
        passes = {"cost/passes": own.passes, "cost/passes_with_search": total.passes}
        return passes | {"cost/seconds": own.seconds, "cost/seconds_with_search": total.seconds}


class CostBaseline(Record):
    """Adversarial training of the whole model, with which the cost of a ticket is compared."""

    adversary: Literal["pgd", "freelb"]
    trial: str | None = Field(description="The best trial that trained so; null if none did and it is computed")
    steps: int = Field(description="K of the adversary")
    epochs: int
    passes: float
    seconds: float | None = Field(description="Measured in the trial; null if computed")


SUMMARY_SCHEMA = 1

TrialStatus = Literal["complete", "pruned", "failed", "interrupted"]
SearchStatus = Literal["finished", "interrupted", "stopped", "failed"]


class StageRecord(Record):
    """One stage that a trial requested."""

    name: str
    digest: str
    cached: bool = Field(description="True if the result was there already, or another trial was computing it")
    seconds: float = Field(description="Computing time of the stage itself, also when it was cached")
    training: Training | None = Field(
        None, description="The full cost of its training, whoever computed it; null for other stages"
    )
    figures: dict[str, float] = Field(
        default_factory=dict, description="What it measured, such as the accuracy of a bias model or a teacher"
    )


class CleanFigures(Record):
    """Accuracy on unchanged select rows."""

    rows: int
    accuracy: float
    interval: tuple[float, float]
    majority_share: float = Field(description="Largest share of rows given one label; 100 is a constant predictor")
    weighted_f1: float | None = Field(None, description="Mean F1 of the classes weighted by their rows")
    sample: str = Field("", description="Digest of the rows: texts, labels and order")


class MaskedAccuracy(Record):
    """How well the masked language model of an attack guesses hidden tokens of unseen texts."""

    top1: float
    top10: float


class AttackFigures(Record):
    """One threat model against one model, with TextAttack's definitions."""

    threat: str
    fingerprint: str
    rows: int
    clean: float = Field(description="Clean% over the attacked rows")
    accuracy_under_attack: float = Field(
        description="Aua%: failed attacks / all rows; in a suite: rows that withstood this and all earlier attacks"
    )
    interval: tuple[float, float]
    success_rate: float = Field(description="Suc%: successes / (successes + failures); 0 if nothing was attacked")
    queries: float = Field(description="#Query: mean over attacked rows")
    words_changed: float = Field(description="Mean % of words changed in successful attacks")
    similarity: float | None = Field(description="Mean sentence similarity of successful attacks, -1 to 1")
    skipped: int = Field(description="Rows the model got wrong before any change")
    survived: tuple[bool, ...] = Field(description="Per attacked row: right before and after the attack")
    sample: str = Field("", description="Digest of the attacked rows: texts, labels and order")
    after: tuple[str, ...] | None = Field(
        None,
        description="In a suite: fingerprints of the threat models before it, whose victims were not attacked again. "
        "Null without a suite",
    )
    masked_lm: MaskedAccuracy | None = Field(
        None, description="Of the masked language model fitted to propose words: % of hidden tokens guessed"
    )
    candidates: int = Field(0, description="Changed texts proposed, before any constraint; 0 if they were not counted")
    rejected: dict[str, float] = Field(
        default_factory=dict, description="% of the candidates that each constraint rejected, by its name"
    )


class SuiteFigures(Record):
    """Several threat models one after the other: a row survives if it withstands all of them."""

    threats: tuple[str, ...] = Field(description="Their names, in order")
    fingerprints: tuple[str, ...] = Field(description="Their fingerprints, in order")
    rows: int
    accuracy: float = Field(description="Aua%: rows that withstand all threat models / all rows")
    interval: tuple[float, float]
    survived: tuple[bool, ...] = Field(description="Per row: right before and after every attack")
    sample: str = Field("", description="Digest of the rows: texts, labels and order")


class OodFigures(Record):
    """One model on select rows of an out-of-distribution twin of the task."""

    name: str = Field(description="Of the twin")
    metric: Literal["accuracy", "weighted_f1"]
    value: float
    interval: tuple[float, float] = Field(description="Wilson's for accuracy, a bootstrap over rows for weighted F1")
    rows: int
    groups: dict[str, float] = Field(description="Accuracy by group, such as HANS's heuristics; empty without groups")
    right: tuple[bool, ...] = Field(description="Per row: whether the answer counts as the label")
    sample: str = Field("", description="Digest of the rows: texts, labels and order")


class Sparsity(Record):
    """How much of the model was cut."""

    heads: float
    neurons: float
    weights: float = Field(0.0, description="Share of single weights cut from the masked matrices")
    parameters: int = Field(description="Parameters without embeddings")
    parameters_total: int
    parameters_dense: int = Field(description="The same count of the dense model, without embeddings")

    @property
    def overall(self) -> float:
        """% of the parameters without embeddings that are gone, whether as heads, neurons or single weights."""
        return 100.0 * (1.0 - self.parameters / self.parameters_dense)


class MaskedHead(MaskedAccuracy):
    """The masked-LM head with which a ticket was searched on masked text, measured before the search."""

    fitted: bool = Field(description="Whether the checkpoint has none, so that one was fitted first")


class TransferFigures(Record):
    """The ticket of a trial on a further task: drawn by the same scores, trained and measured there."""

    name: str = Field(description="Of the task, as under `transfer`")
    outcome: "Outcome"
    stages: tuple[StageRecord, ...] = Field(description="The stages of this task only")


class Outcome(Record):
    """Everything that was measured of one trained model."""

    clean: CleanFigures
    attacks: tuple[AttackFigures, ...]
    sparsity: Sparsity
    ood: tuple[OodFigures, ...] = ()
    flops: float | None = Field(
        None,
        description="Forward FLOPs in % of the dense model's: a proxy of latency that does not depend on the machine",
    )
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = Field((), description="Notes about the metrics that do not bar the model")
    retrain_digest: str = Field(description="Stage whose weights these figures belong to")
    draw_digest: str | None = Field(None, description="Stage that drew the ticket; null for the whole model")
    mask: str | None = Field(None, description="Digest of the mask itself: equal for equal tickets")
    masked_head: MaskedHead | None = Field(None, description="Of tickets searched on masked text: the head used there")
    transfers: tuple[TransferFigures, ...] = Field((), description="The same ticket on further tasks")
    suite: SuiteFigures | None = Field(None, description="With `evaluation.suite`: all attacks together")

    @property
    def aua(self) -> float | None:
        """Accuracy under the suite, or else the mean over all attacks; None without attacks."""
        return aua_of(self)

    def metrics(self) -> dict[str, float]:
        """Return all metrics as a flat mapping, with the names that MLflow and the summary use."""
        return outcome_values(self)


def cost_of(stages: Iterable[StageRecord], retrain_digest: str) -> Cost | None:
    """Return the cost of the model that the stage `retrain_digest` trained; None if it is not among the stages."""
    trained = {stage.digest: stage.training for stage in stages if stage.training is not None}
    own = trained.pop(retrain_digest, None)
    if own is None:
        return None
    return Cost(retraining=own, search=sum(trained.values(), Training(passes=0.0, seconds=0.0)))


class TrialRecord(Record):
    """One trial of the search."""

    id: str
    number: int
    attempt: int = Field(1, description="1, plus one for each retry after an error")
    status: TrialStatus
    method: str = Field("", description="`method.kind` of the trial")
    title: str = Field("", description="What tables call it: 'earlyrobust', 'PGD', 'robustt, shuffled + FreeLB'")
    uses_ood_information: bool = Field(False, description="Whether its training or its value saw OOD rows")
    params: dict[str, Any]
    metrics: dict[str, float] = Field(default_factory=dict)
    values: tuple[float, ...] | None = Field(None, description="What Optuna was told; one value, or the vector")
    bound: tuple[float, ...] | None = Field(
        None, description="Of a trial that was stopped during its attack: the best values it could still have reached"
    )
    feasible: bool | None = Field(None, description="Whether the ticket may win (floor, near-constant check)")
    outcome: Outcome | None = None
    stages: tuple[StageRecord, ...] = ()
    cost: Cost | None = None
    error: str | None = None
    rungs: tuple[tuple[int, float], ...] = Field((), description="Epoch and probe score, as the scheduler saw them")
    seconds: float = 0.0


class ControlRecord(Record):
    """A dense fine-tune or a random ticket, measured like a trial."""

    kind: Literal["dense", "random"]
    seed: int
    like: str | None = Field(
        None, description="The trial whose sparsity in every layer a random ticket has; null: the selected one"
    )
    title: str = Field("", description="What tables call it: 'finetune', 'FreeLB', 'random'")
    outcome: Outcome
    stages: tuple[StageRecord, ...]
    cost: Cost | None = None

    @property
    def name(self) -> str:
        """Its name: 'dense', 'random-0', or 'random-t003-0' if it is like another trial than the winner."""
        return self.kind if self.kind == "dense" else self.named(self.seed, self.like)

    @staticmethod
    def named(seed: int, like: str | None) -> str:
        """Return the name of a random ticket."""
        return f"random-{seed}" if like is None else f"random-{like}-{seed}"


class EpochFigures(Record):
    """A model after one epoch of its training."""

    epoch: int
    clean: CleanFigures
    attacks: tuple[AttackFigures, ...]
    suite: SuiteFigures | None = None

    def metrics(self) -> dict[str, float]:
        """Return the metrics as a flat mapping, with the names of the summary."""
        return epoch_values(self)


class EpochsRecord(Record):
    """The selected trial or the dense control, attacked after every epoch of its training."""

    model: str = Field(description="'t003' or 'dense'")
    title: str = Field("", description="What tables call it")
    epochs: tuple[EpochFigures, ...] = Field((), description="In order; the last one is the final model")
    left_out: str | None = Field(None, description="Why there are none")
    stages: tuple[StageRecord, ...] = ()


class Comparison(Record):
    """A paired comparison of the selected ticket with another model on the same rows."""

    other: str = Field(description="'dense', 'random-0' or 'trial 7'")
    threat: str
    difference: float = Field(description="Aua points, selected minus other")
    p_value: float = Field(description="Exact McNemar test, not corrected")
    corrected: float | None = Field(None, description="The p-value after Holm's correction; null in older summaries")
    rows: int | None = Field(None, description="The rows of the test; null in older summaries")
    distinguishable: bool = Field(description="Whether the corrected p-value is below 0.05")


class OodComparison(Record):
    """A paired comparison of the selected ticket with another model on the rows of an OOD twin."""

    other: str = Field(description="'dense', 'random-0' or 'trial 7'")
    twin: str
    difference: float = Field(description="Points of the twin's metric, selected minus other")
    p_value: float = Field(description="Exact McNemar test of the rows answered rightly, not corrected")
    corrected: float | None = Field(None, description="The p-value after Holm's correction; null in older summaries")
    distinguishable: bool = Field(description="Whether the corrected p-value is below 0.05")


class Detectable(Record):
    """The difference in accuracy that the rows can show: 80% power in a two-sided test at the 5% level."""

    figure: str = Field(description="'clean' or 'ood/<twin>'")
    rows: int
    points: float
    paired: bool = Field(description="On the same rows, by the share on which winner and dense control disagreed")


class Substitution(Record):
    """One change an attack made, with the words around it, for a person to judge."""

    row: int = Field(description="Number of the attacked row")
    left: str = Field(description="A few words of the original text before the change")
    old: str = Field(description="The word or words replaced; empty if words were only put in")
    new: str
    right: str = Field(description="A few words of the original text after the change")
    similarity: float | None = Field(
        description="Of the whole attacked text and its original, -1 to 1; of successful attacks"
    )
    successful: bool = Field(description="Whether the attack as a whole changed the answer")


class ThreatRecord(Record):
    """A threat model: what the name of a column stands for."""

    name: str
    fingerprint: str
    resources: dict[str, str]
    substitutions: tuple[Substitution, ...] = Field((), description="A random sample of what the attack changed")
    substitutions_of: str | None = Field(None, description="The model they were made against: 't003', 'dense'")


class StageUse(Record):
    """How often a kind of stage was requested and how often it was computed."""

    asked: int
    computed: int
    seconds: float


class Selection(Record):
    """The feasible trial with the highest objective, and why it is chosen or not."""

    trial: str | None
    beaten: bool = Field(
        False, description="Whether the dense control is better (see the verdict), so that nothing calls it chosen"
    )
    ticket: str | None = Field(description="Path of the ticket file inside the results folder")
    reason: str
    comparisons: tuple[Comparison, ...] = ()
    ood: tuple[OodComparison, ...] = ()

    @property
    def winner(self) -> str | None:
        """The chosen trial; None if there is none, or if the dense control is better."""
        return None if self.beaten else self.trial


class Verdict(Record):
    """What to do with the ticket of the first rank: ship it, keep the dense model, or search on."""

    kind: Literal["ship", "keep_dense", "undecided"]
    sentence: str = Field(description="The verdict in one sentence, with its figures and p-value")
    trial: str | None = Field(None, description="The trial that was compared with the dense control")
    dominated: bool = Field(
        False, description="Whether the dense control is at least as accurate clean and under attack, and better in one"
    )
    p_value: float | None = Field(
        None, description="Exact McNemar test under attack against the dense control, after Holm's correction"
    )
    figures: dict[str, float] = Field(default_factory=dict, description="The figures of the sentence, by name")


class Summary(Record):
    """`summary.json`. Fields are only ever added; a change of meaning raises `schema_version`."""

    schema_version: int = SUMMARY_SCHEMA
    experiment: str
    config_digest: str
    seed: int
    status: SearchStatus
    stopped_by: str | None = Field(None, description="What ended a search whose status is 'stopped' or 'failed'")
    spent: dict[str, float] = Field(
        default_factory=dict, description="CPU-, GPU- and wall-clock hours and money of all sessions; see search.budget"
    )
    trials: tuple[TrialRecord, ...]
    controls: tuple[ControlRecord, ...]
    epochs: tuple[EpochsRecord, ...] = Field((), description="With `controls.epochs`: attacks after every epoch")
    selected: Selection
    verdict: Verdict | None = Field(None, description="Null in summaries of older releases")
    front: tuple[str, ...] = Field(description="Trials no other trial beats in every figure of the objective")
    threat_models: tuple[ThreatRecord, ...]
    cost_baselines: tuple[CostBaseline, ...] = Field((), description="PGD and FreeLB training of the whole model")
    uses_ood_information: bool = Field(
        False, description="Whether OOD rows entered a training or the objective of this search"
    )
    detectable: tuple[Detectable, ...] = Field((), description="For searches with OOD twins")
    stages: dict[str, StageUse]
    versions: dict[str, str]
    total_seconds: float


CONFIRM_SCHEMA = 1
ModelKind = Literal["ticket", "dense", "random"]


class SeedRun(Record):
    """One model trained with one fresh seed and measured on the report rows."""

    model: str = Field(description="'t003', 'dense' or 'random like t003'")
    seed: int
    status: Literal["complete", "failed"]
    metrics: dict[str, float] = Field(default_factory=dict, description="As of a trial, but on report rows")
    error: str | None = None
    retrain_digest: str | None = Field(None, description="Stage whose weights these figures belong to")


class Estimate(Record):
    """The mean over the seeds that were measured, and its 95% interval (t over seeds)."""

    mean: float
    interval: tuple[float, float] | None = Field(description="Null with fewer than two seeds")
    seeds: int = Field(description="How many seeds the mean is over")


class ConfirmedModel(Record):
    """One model over all seeds. Failed seeds are counted."""

    name: str
    kind: ModelKind
    trial: str | None = Field(description="The trial whose ticket it is, or whose ticket a random one is like")
    title: str = Field(description="What tables call it")
    params: dict[str, Any]
    failed: int = Field(description="How many of the seeds failed")
    estimates: dict[str, Estimate]
    runs: tuple[SeedRun, ...]


class SeedTest(Record):
    """Paired t-test over the seeds that both models were measured with."""

    ticket: str
    other: str
    metric: str
    difference: float = Field(description="Points, ticket minus other, mean over seeds")
    interval: tuple[float, float] | None
    p_value: float | None = Field(description="Two-sided; null with fewer than two seeds")
    seeds: int


class Confirmation(Record):
    """`confirm.json`."""

    schema_version: int = CONFIRM_SCHEMA
    experiment: str
    config_digest: str
    report_fingerprint: str = Field(description="Of the report rows, which no choice was based on")
    rows: int = Field(description="Report rows")
    attacked_rows: int = Field(description="How many of them were attacked, the same for every model and seed")
    seeds: tuple[int, ...]
    tickets: tuple[str, ...] = Field(description="The trials confirmed, best first by the objective on select rows")
    models: tuple[ConfirmedModel, ...]
    tests: tuple[SeedTest, ...]
    total_seconds: float
