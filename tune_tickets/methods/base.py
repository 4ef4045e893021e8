"""`Method`, the base class of every method, and `Flow`, which runs the stages of one ticket. Read this first.

[fine-tune] -> find -> draw -> retrain -> evaluate -> ood -> attack
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from tune_tickets.attacks.threat import RULES_VERSION, ThreatModel
from tune_tickets.config import Settings
from tune_tickets.config.evaluation import Fitting
from tune_tickets.config.method import MethodSection
from tune_tickets.config.task import Model
from tune_tickets.config.training import Ablation, Adversary, Debiasing, Drawing, Retraining
from tune_tickets.engine.quarantine import Lost
from tune_tickets.engine.runner import OnRecord, Runner, unheard
from tune_tickets.engine.stage import Stage, StageKey, StageResult
from tune_tickets.methods.attacking import (
    Rival,
    ShardedAttack,
    attack_at_once,
    attack_while_it_can_win,
    bounds,
    suite_figures,
    trained_on,
)
from tune_tickets.methods.stages import (
    TICKET_FILE,
    Attack,
    Bias,
    Draw,
    Epochs,
    Evaluate,
    FittedMaskedLM,
    Ood,
    Retrain,
    Substitutes,
    Teacher,
    epoch_file,
    masked_lm_model,
    masked_lm_stage,
)
from tune_tickets.results.records import (
    CleanFigures,
    EpochFigures,
    MaskedHead,
    OodFigures,
    Outcome,
    Sparsity,
    StageRecord,
    TransferFigures,
)

_MOST_LOST = 8
"""More results than any stage reads. If something is still missing after so many repairs, the stage fails."""


class Method(MethodSection):
    """A way to find tickets: a pydantic schema of its settings, and the stages that lead to a mask.

    To add a method, write a subclass in one file: its fields are its section of the YAML file, `ticket` asks the flow
    to run stages (also of its own, see `engine.stage.Stage`) and returns the key of the drawn mask.

    Example:
        class Smallest(Method):
            kind: Literal["smallest"] = "smallest"
            sparsity: Ratio = 0.5

            def ticket(self, flow, drawing=None):
                inputs = {**flow.model_inputs(), "kind": "magnitude", "sparsity": self.sparsity, "pooler": False}
                return flow.run(Draw(**inputs, data=flow.world.data), flow.on_record).key
    """

    @abstractmethod
    def ticket(self, flow: "Flow", drawing: Drawing | None = None) -> StageKey | None:
        """Find a ticket.

        Args:
            flow: runs stages, and knows the settings and the data.
            drawing: other shares of heads and neurons to cut, for methods with `ratios`.

        Returns:
            The key of the drawn mask; None for the whole model.
        """

    def training(self, flow: "Flow", ticket: StageKey, ablation: Ablation | None) -> Stage:
        """The stage that trains a ticket: on its own, from the pre-trained weights."""
        return flow.retrain(ticket, ablation=ablation)


@dataclass(frozen=True)
class World:
    """What the driver found before the first trial: identities that are part of the digests of stages."""

    data: StageKey
    model_fingerprint: str
    anatomy: dict[str, int]
    threats: tuple[ThreatModel, ...]
    tickets: dict[str, StageKey] = field(default_factory=dict)
    """The masks of the ticket files that the method reads, by path."""
    corpus: StageKey | None = None
    """The plain texts that a masked language model is fitted on, if an attack uses one."""
    vectors: dict[str, StageKey] = field(default_factory=dict)
    """The word vectors of the fastText files that bias models read, by path."""
    twins: dict[str, StageKey] = field(default_factory=dict)
    """The OOD twins of the task, by name."""
    ood_train: StageKey | None = None
    """The rows of twins that a method may train on, if there are any."""
    measured: StageKey | None = None
    """Rows to measure models on instead of the select rows: the report rows. Only `confirm` sets it."""
    transfers: dict[str, StageKey] = field(default_factory=dict)
    """The rows of the further tasks, by name."""
    search_texts: dict[str, StageKey] = field(default_factory=dict)
    """The plain texts of searches on masked text, by `method.corpus`."""
    pooling: str = "first"
    """What `model.pooling: auto` means for the encoder."""
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The identities of the sources of substitutes that an adversary may train with, by name."""


@dataclass
class Flow:
    """The stages of one model with fixed settings. `stages` lists every stage that was requested."""

    settings: Settings
    world: World
    runner: Runner
    stages: list[StageRecord] = field(default_factory=list)
    drawn_from: dict[str, StageKey | None] = field(default_factory=dict)
    """The stage with the weights that a subnetwork was cut from, by its mask; None for the pre-trained weights."""
    training_seed: int | None = None
    """Another seed for all training. Rows and attacks keep the seed of the experiment."""
    scores: StageResult | None = None
    """The finished search for scores. All tasks draw from it."""
    masked_head: MaskedHead | None = None
    on_record: OnRecord = unheard
    """Receives the metric history of the stages by which trials are compared."""

    @property
    def method(self) -> Method:
        """The configured method."""
        return cast(Method, self.settings.method)

    # --- what trials and controls ask for ---

    def find_ticket(self, on_record: OnRecord, rival: Rival | None = None) -> Outcome:
        """Run the trial of the configured method: find a ticket, ablate it if configured, train it, measure it.

        Args:
            on_record: receives the metric history.
            rival: tells whether the best finished ticket already wins; then the attack stops early.

        Raises:
            Beaten: the rival wins before all rows have been attacked.
        """
        self.on_record = on_record
        ticket, ablation = self._ablated(self.method.ticket(self)), self.settings.ablation
        outcome = self.train_and_measure(ticket, on_record, ablation, rival)
        outcome = outcome.model_copy(update={"masked_head": self.masked_head})

        def at_ratios_of(task: "Flow", name: str) -> StageKey | None:
            drawing = task.settings.transfer[name].drawing
            if drawing is None or self.method.ratios is None:
                return ticket
            return task._ablated(self.method.ticket(task, drawing))

        return self._transferred(outcome, at_ratios_of, ablation)

    def dense_control(self, on_record: OnRecord) -> Outcome:
        """Train and measure the whole model."""
        return self._transferred(self.train_and_measure(None, on_record), lambda task, name: None)

    def random_control(
        self, like: StageKey, seed: int, on_record: OnRecord, transfers: Mapping[str, StageKey] | None = None
    ) -> Outcome:
        """Train and measure a random ticket that keeps as much in every layer as `like`.

        Args:
            like: the mask whose counts are kept.
            seed: decides what is removed.
            on_record: receives the metric history.
            transfers: the masks to take the counts from on further tasks, by name.
        """
        ablation, likes = self.settings.ablation, transfers or {}
        self.on_record = on_record
        outcome = self.train_and_measure(self.shuffled(like, seed), on_record, ablation)
        return self._transferred(outcome, lambda task, name: task.shuffled(likes[name], seed), ablation)

    def train_and_measure(
        self,
        ticket: StageKey | None,
        on_record: OnRecord,
        ablation: Ablation | None = None,
        rival: Rival | None = None,
    ) -> Outcome:
        """Train a ticket, then measure clean accuracy, OOD twins and every threat model."""
        self.on_record = on_record
        if ticket is None:
            training: Stage = self.retrain(None, ablation=ablation)
        else:
            training = self.method.training(self, ticket, ablation)
        trained = self.run(training, on_record)
        evaluated = self.run(self._evaluate(trained), on_record)
        unattacked = Outcome(
            clean=CleanFigures.model_validate(evaluated.record["clean"]),
            attacks=(),
            sparsity=Sparsity.model_validate(trained.record["sparsity"]),
            ood=self._out_of_distribution(trained),
            flops=evaluated.record["flops"],
            retrain_digest=trained.key.digest,
            draw_digest=ticket.digest if ticket is not None else None,
            mask=ticket.content if ticket is not None else None,
            notes=trained_on(self.settings, self.world.sources, self.world.threats, whole=ticket is None),
        )
        attacks = self._under_attack(trained, evaluated, unattacked, rival)
        figures = tuple(attack.figures() for attack in attacks)
        return unattacked.model_copy(update={"attacks": figures, "suite": suite_figures(attacks)})

    def after_every_epoch(self, trained: Retrain, final: Outcome) -> tuple[EpochFigures, ...]:
        """Measure the model after each epoch of its retraining. The retraining is repeated for this.

        If its last epoch equals the trained model bit for bit, it has the `final` metrics. Else it is measured too.
        """
        kept = self.run(Epochs.of(trained), unheard)
        last = len(kept.files)
        repeated = _sha256(kept, epoch_file(last)) == _sha256(self.run(trained, unheard), TICKET_FILE)
        epochs = range(1, last if repeated else last + 1)
        evaluated = self.run_all([self._evaluate(kept, epoch) for epoch in epochs])
        attacks = [self._attacks(kept, each, epoch) for each, epoch in zip(evaluated, epochs, strict=True)]
        attack_at_once([attack for each in attacks for attack in each], self.run_all)
        measured = [
            EpochFigures(
                epoch=epoch,
                clean=CleanFigures.model_validate(each.record["clean"]),
                attacks=tuple(attack.figures() for attack in against),
                suite=suite_figures(against),
            )
            for epoch, each, against in zip(epochs, evaluated, attacks, strict=True)
        ]
        own = EpochFigures(epoch=last, clean=final.clean, attacks=final.attacks, suite=final.suite)
        return (*measured, own) if repeated else tuple(measured)

    def draw(self, on_record: OnRecord, drawing: Drawing | None = None) -> StageKey | None:
        """Find the ticket of the configured method, at other ratios if given; None for the whole model."""
        self.on_record = on_record
        return self.method.ticket(self, drawing)

    # --- what methods ask for ---

    def run(self, stage: Stage, on_record: OnRecord) -> StageResult:
        """Get the result of a stage. `on_record` receives its metric history."""
        repairs = 0
        while True:
            try:
                result = self.runner.run(stage, lambda record: on_record({"stage": stage.name, **record}))
            except Lost as lost:
                repairs = self._repair(lost, repairs)
            else:
                self._note(result)
                return result

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """Get the results of stages that do not depend on one another."""
        repairs = 0
        while True:
            try:
                results = self.runner.run_all(stages)
            except Lost as lost:
                repairs = self._repair(lost, repairs)
            else:
                for result in results:
                    self._note(result)
                return results

    def model_inputs(self) -> dict[str, Any]:
        """The inputs of a stage that starts from the pre-trained model."""
        return {
            "seed": self.settings.seed if self.training_seed is None else self.training_seed,
            "model": self.settings.model.stage_inputs(self.world.pooling),
            "model_fingerprint": self.world.model_fingerprint,
            "max_length": self.settings.task.max_length,
        }

    def shuffled(self, like: StageKey, seed: int) -> StageKey:
        """Draw a random mask that keeps as much in every layer as another one."""
        return self.run(Draw(kind="shuffled", ticket_seed=seed, like=like), self.on_record).key

    def retrain(
        self,
        ticket: StageKey | None,
        retraining: Retraining | None = None,
        ablation: Ablation | None = None,
        leave: dict[str, Any] | None = None,
    ) -> Retrain:
        """The training of a ticket, or of the whole model, from the pre-trained weights.

        Args:
            ticket: the mask; None for the whole model.
            retraining: how to train; the `retraining` section unless given.
            ablation: what is taken away from the ticket before it is trained.
            leave: the point at which the training stops, if it is not its end.
        """
        settings, retraining = self.settings, retraining or self.settings.retraining
        return Retrain(
            **self.model_inputs(),
            retraining=retraining.model_dump(mode="json"),
            probe=settings.evaluation.probe.model_dump(mode="json"),
            eval_batch_size=settings.evaluation.batch_size,
            **(ablation or Ablation()).start_inputs(),
            **(leave or {}),
            data=self.world.data,
            draw=ticket,
            **self.experts(retraining.debiasing),
            substitutes=self.substitutes(retraining.adversary),
        )

    def experts(self, debiasing: Debiasing) -> dict[str, Any]:
        """Run the stages whose predictions a loss reads. Returns their keys by role: none for plain cross entropy."""
        stages = {"bias": self._bias, "teacher": self._teacher}
        return {role: self.run(stages[role](debiasing), unheard).key for role in debiasing.experts}

    def substitutes(self, adversary: Adversary, data: StageKey | None = None) -> StageKey | None:
        """Run the stage whose substitutes an adversary reads. Returns its key; None for other kinds of adversary.

        Args:
            adversary: of a training on labelled rows.
            data: the rows, if they are not those of the task.
        """
        if not adversary.reads_substitutes:
            return None
        stage = Substitutes(source=self.world.sources[adversary.source], data=data or self.world.data)
        return self.run(stage, unheard).key

    def masked_lm(self, model: Model, fitting: Fitting, corpus: StageKey) -> FittedMaskedLM:
        """A masked language model on the backbone, fitted on plain texts if it has no head."""
        return masked_lm_stage(self.settings.seed, model, self.world.model_fingerprint, fitting, corpus)

    def recompute(self, stage: Stage) -> StageResult:
        """Compute a stage again whose result is missing in the store. Its record replaces the earlier one."""
        self.stages[:] = [noted for noted in self.stages if noted.digest != stage.digest]
        return self.run(stage, unheard)

    # --- steps ---

    def _ablated(self, ticket: StageKey | None) -> StageKey | None:
        """The ticket to train: as drawn, or shuffled if the ablation says so."""
        ablation = self.settings.ablation
        if ticket is not None and ablation.mask == "shuffled":
            return self.shuffled(ticket, ablation.seed)
        return ticket

    def _bias(self, debiasing: Debiasing) -> Stage:
        """The bias model. It sees word vectors and texts, and at most the input embeddings of the encoder."""
        bias, planted = debiasing.bias, self.settings.task.planted
        if bias.features == "marker" and bias.markers is None and planted is not None:
            bias = bias.model_copy(update={"markers": planted.markers})
        embeddings = bias.reads_vectors and not bias.reads_file
        inputs = self.model_inputs()
        return Bias(
            bias=bias.model_dump(mode="json"),
            seed=self.settings.seed if bias.folds is not None else None,
            model=self.settings.model.stage_inputs(None) if embeddings else None,
            model_fingerprint=inputs["model_fingerprint"] if embeddings else None,
            data=self.world.data,
            vectors=self.world.vectors[bias.vectors] if bias.reads_file else None,
        )

    def _teacher(self, debiasing: Debiasing) -> Stage:
        """A plain fine-tuning of the whole model, then its predictions on the rows it was trained on."""
        finetuning = Retraining.model_validate(debiasing.teacher.model_dump())
        trained = self.run(self.retrain(None, finetuning), unheard)
        batch_size = self.settings.evaluation.batch_size
        return Teacher(eval_batch_size=batch_size, data=self.world.data, retrain=trained.key)

    def _evaluate(self, trained: StageResult, epoch: int | None = None) -> Stage:
        evaluation = self.settings.evaluation
        return Evaluate(
            eval_batch_size=evaluation.batch_size,
            rows=evaluation.rows,
            seed=self.settings.seed,
            epoch=epoch,
            data=self._measured_on,
            retrain=trained.key,
        )

    def _out_of_distribution(self, trained: StageResult) -> tuple[OodFigures, ...]:
        """The metrics on the select rows of every OOD twin."""
        batch_size, twins = self.settings.evaluation.batch_size, self.world.twins.values()
        stages = [Ood(eval_batch_size=batch_size, twin=twin, retrain=trained.key) for twin in twins]
        return tuple(OodFigures.model_validate(result.record["ood"]) for result in self.run_all(stages))

    def _under_attack(
        self, trained: StageResult, evaluated: StageResult, unattacked: Outcome, rival: Rival | None
    ) -> list[ShardedAttack]:
        """Every threat model: all shards at once, or one by one while the ticket can still beat its rival."""
        attacks = self._attacks(trained, evaluated)
        if rival is None:
            attack_at_once(attacks, self.run_all)
        else:
            attack_while_it_can_win(attacks, unattacked.metrics(), rival, self.run_all)
        return attacks

    def _attacks(self, trained: StageResult, evaluated: StageResult, epoch: int | None = None) -> list[ShardedAttack]:
        masked_lm = self.run(self._attackers_masked_lm(), unheard) if self.world.corpus is not None else None
        suite = self.settings.evaluation.suite
        attacks: list[ShardedAttack] = []
        for threat in self.world.threats:
            shards = self._shards(trained, threat, masked_lm, epoch)
            before = attacks[-1] if suite and attacks else None
            attacks.append(ShardedAttack(threat, shards, evaluated, masked_lm, suite=suite, before=before))
        return attacks

    def _attackers_masked_lm(self) -> Stage:
        """The masked language model of attacks. It is the same for every ticket, so that all face the same attacker."""
        assert self.world.corpus is not None
        fitting = self.settings.evaluation.masked_lm
        return self.masked_lm(masked_lm_model(self.settings), fitting, self.world.corpus)

    @property
    def _measured_on(self) -> StageKey:
        return self.world.measured or self.world.data

    def _shards(
        self, trained: StageResult, threat: ThreatModel, masked_lm: StageResult | None, epoch: int | None = None
    ) -> tuple[Attack, ...]:
        evaluation = self.settings.evaluation
        whole = Attack(
            seed=self.settings.seed,
            threat=asdict(threat),
            rules=RULES_VERSION,
            rows=evaluation.rows,
            eval_batch_size=evaluation.batch_size,
            epoch=epoch,
            data=self._measured_on,
            retrain=trained.key,
            masked_lm=masked_lm.key if masked_lm is not None and threat.fits_masked_lm else None,
        )
        return tuple(replace(whole, shard=list(shard)) for shard in bounds(evaluation.rows, evaluation.shard))

    # --- further tasks ---

    def _transferred(
        self, outcome: Outcome, ticket_for: "Callable[[Flow, str], StageKey | None]", ablation: Ablation | None = None
    ) -> Outcome:
        """The outcome on the main task together with those on all tasks under `transfer`."""
        found = tuple(self._transfer(name, ticket_for, ablation) for name in self.settings.transfer)
        return outcome.model_copy(update={"transfers": found})

    def _transfer(
        self, name: str, ticket_for: "Callable[[Flow, str], StageKey | None]", ablation: Ablation | None
    ) -> TransferFigures:
        # Separate lists of stages, so that masks and attacked texts of two tasks are not mixed. Their epochs are not
        # reported: trials are compared by those of the main task.
        apart = replace(self, stages=[], on_record=unheard)
        outcome = apart._on_task(name).train_and_measure(ticket_for(apart, name), unheard, ablation)
        return TransferFigures(name=name, outcome=outcome, stages=tuple(apart.stages))

    def _on_task(self, name: str) -> "Flow":
        """The same flow with the rows and the training of another task."""
        settings, world = self.settings, self.world
        other, rows = settings.transfer[name], settings.attacked_rows(name)
        evaluation = settings.evaluation.model_copy(update={"rows": rows})
        changes = {"task": other.task, "retraining": other.retraining or settings.retraining, "evaluation": evaluation}
        # Twins and report rows belong to the main task.
        world = replace(world, data=world.transfers[name], twins={}, ood_train=None, measured=None)
        return replace(self, settings=settings.model_copy(update=changes), world=world)

    # --- bookkeeping ---

    def _repair(self, lost: Lost, before: int) -> int:
        """Compute a result again that a stage reads and that is missing. Returns how many repairs were made."""
        if before == _MOST_LOST:
            raise lost
        lost.check(self.recompute(lost.stage))
        return before + 1

    def _note(self, result: StageResult) -> None:
        reused = not result.computed or result.record.get("computed_mini_epochs") == 0
        self.stages.append(
            StageRecord(
                name=result.key.name,
                digest=result.key.digest,
                cached=reused,
                seconds=result.seconds,
                training=result.record.get("training"),
                figures=result.record.get("figures", {}),
            )
        )


def _sha256(result: StageResult, file: str) -> str:
    return result.files[file].rsplit("#", 1)[1]
