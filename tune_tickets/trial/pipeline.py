"""The way of one ticket, stage by stage. This page alone knows their order: read it first.

search -> draw -> retrain -> evaluate -> ood -> attack
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config import Settings
from tune_tickets.config.method import Drawing, EarlyBird, FineTune, Imp, ORTicket, RandomTicket, RobustT
from tune_tickets.config.orticket import CORPUS, TASK
from tune_tickets.config.srnets import SRNets, Start
from tune_tickets.config.training import Ablation, Debiasing, Retraining
from tune_tickets.engine.quarantine import Lost
from tune_tickets.engine.runner import OnRecord, Runner
from tune_tickets.engine.runner import later as _later
from tune_tickets.engine.runner import unheard as _unheard
from tune_tickets.engine.stage import Stage, StageKey, StageResult
from tune_tickets.results.records import CleanFigures, MaskedHead, Outcome, Sparsity, StageRecord
from tune_tickets.trial.corpus import searched_lm_stage
from tune_tickets.trial.measuring import MeasuringSteps, Rival
from tune_tickets.trial.subnetworks import SubnetworkSteps
from tune_tickets.trial.transferring import transferred

Got = TypeVar("Got")
_MOST_LOST = 8
"""More than any stage reads: whoever still finds something lost then fails."""


@dataclass(frozen=True)
class World:
    """What the driver found out before the first trial: identities that enter the digests of stages."""

    data: StageKey
    model_fingerprint: str
    anatomy: dict[str, int]
    threats: tuple[ThreatModel, ...]
    tickets: dict[str, StageKey] = field(default_factory=dict)
    """The masks of the ticket files that the method names, by path."""
    corpus: StageKey | None = None
    """The plain texts a masked language model is fitted on, if an attack takes one."""
    vectors: dict[str, StageKey] = field(default_factory=dict)
    """The word vectors of the fastText files that bias models name, by path."""
    twins: dict[str, StageKey] = field(default_factory=dict)
    """The OOD twins of the task, by name."""
    ood_train: StageKey | None = None
    """The rows of twins that a method may train on, if there are any."""
    measured: StageKey | None = None
    """Rows that models are measured on in the place of the select rows: the report rows, known to `confirm` alone."""
    transfers: dict[str, StageKey] = field(default_factory=dict)
    """The rows of the further tasks, by name."""
    search_texts: dict[str, StageKey] = field(default_factory=dict)
    """The plain texts that tickets are searched on, by `method.corpus`."""


@dataclass
class Pipeline(SubnetworkSteps, MeasuringSteps):
    """The stages of one model under fixed settings. Every stage asked for is noted in `stages`."""

    settings: Settings
    world: World
    runner: Runner
    stages: list[StageRecord] = field(default_factory=list)
    drawn_from: dict[str, StageKey | None] = field(default_factory=dict)
    training_seed: int | None = None
    """Seed of all training, where it is not that of the experiment; rows and attacks keep that one."""
    scores: StageResult | None = None
    """The search by coefficients, once it is done: all tasks draw from the same."""
    masked_head: MaskedHead | None = None

    def find_ticket(self, on_record: OnRecord, rival: Rival | None = None) -> Outcome:
        """The trial of the configured method: find a ticket, ablate it if asked to, train it on its own, measure it.

        `Beaten` is raised if the rival wins before all rows have been attacked.
        """
        ticket, ablation = self._ticket(on_record), self.settings.ablation
        outcome = self.train_and_measure(ticket, on_record, ablation, rival)
        outcome = outcome.model_copy(update={"masked_head": self.masked_head})

        def at_ratios_of(task: Pipeline, name: str) -> StageKey | None:
            drawing = task.settings.transfer[name].drawing
            redrawn = drawing is not None and isinstance(task.settings.method, EarlyBird | RandomTicket)
            return task._ticket(_unheard, drawing) if redrawn else ticket

        return transferred(self, outcome, at_ratios_of, ablation)

    def dense_control(self, on_record: OnRecord) -> Outcome:
        """The whole model, trained and measured in the same way."""
        return transferred(self, self.train_and_measure(None, on_record), lambda task, name: None)

    def random_control(
        self, like: StageKey, seed: int, on_record: OnRecord, transfers: Mapping[str, StageKey] | None = None
    ) -> Outcome:
        """A ticket that keeps as much in every layer as `like` does, on further tasks as theirs, chosen at random."""
        ablation = self.settings.ablation
        outcome = self.train_and_measure(self._shuffled(like, seed, on_record), on_record, ablation)
        likes = transfers or {}
        return transferred(self, outcome, lambda task, name: task._shuffled(likes[name], seed, _unheard), ablation)

    def _ticket(self, on_record: OnRecord, drawing: Drawing | None = None) -> StageKey | None:
        """The ticket as it is trained: drawn, and shuffled if it is to be ablated so."""
        ticket, ablation = self.draw(on_record, drawing), self.settings.ablation
        if ticket is not None and ablation.mask == "shuffled":
            return self._shuffled(ticket, ablation.seed, on_record)
        return ticket

    def draw(self, on_record: OnRecord, drawing: Drawing | None = None) -> StageKey | None:
        """The mask of the ticket, perhaps at other ratios of heads and neurons; None for the whole model."""
        method = self.settings.method
        if isinstance(method, FineTune):
            return None
        if isinstance(method, RandomTicket) and method.like is not None:
            return self._shuffled(self.world.tickets[method.like], method.ticket_seed, on_record)
        if isinstance(method, RandomTicket):
            inputs: dict[str, Any] = {
                "kind": "random",
                "anatomy": self.world.anatomy,
                "ticket_seed": method.ticket_seed,
            }
            ratios = drawing or method.drawing
            return self._run(Stage("draw", inputs | {"drawing": ratios.model_dump()}), on_record).key
        if isinstance(method, RobustT):
            return self._draw_by_masks(method, on_record)
        if isinstance(method, Imp):
            return self._draw_by_rounds(method, on_record)
        if isinstance(method, SRNets):
            return self._draw_subnetwork(method, on_record)
        if self.scores is None:
            self.scores = self._run(self._search(method), on_record)
        ratios = drawing or method.drawing
        inputs = {"kind": "scores", "stop": self.scores.record["stop"], "drawing": ratios.model_dump()}
        return self._run(Stage("draw", inputs, {"search": self.scores.key}), on_record).key

    def _draw_by_masks(self, method: RobustT, on_record: OnRecord) -> StageKey:
        """RobustT: fine-tune, train masks on the frozen weights, draw. One mask training serves every sparsity."""
        finetuned = self._run(self._retrain(None, method.finetuning), _unheard)
        inputs = {**self._model_inputs(), "method": method.search_inputs()}
        masks = self._run(Stage("masks", inputs, {"data": self.world.data, "retrain": finetuned.key}), on_record)
        drawing: dict[str, Any] = {"kind": "ranking", "sparsity": method.sparsity, "ranking": "global"}
        if method.grouping == "structured":
            ratios = Drawing(heads=method.sparsity, neurons=method.sparsity)
            drawing = {"kind": "scores", "stop": 1, "drawing": ratios.model_dump()}
        return self._run(Stage("draw", drawing, {"search": masks.key}), on_record).key

    def _draw_by_rounds(self, method: Imp, on_record: OnRecord) -> StageKey:
        """IMP: train, cut the smallest of the weights left, rewind, again. All sparsities share their first rounds."""
        inputs = {**self._model_inputs(), "method": method.search_inputs()}
        within: dict[str, StageKey] = {}
        before: dict[str, StageKey] = {}
        epochs = 0
        for sparsity in method.schedule():
            training = Stage("imp", inputs, {"data": self.world.data, **within, **before})
            trained = self._run(training, _later(on_record, epochs))
            drawing = {"kind": "ranking", "sparsity": sparsity, "ranking": method.ranking}
            drawn = self._run(Stage("draw", drawing, {"search": trained.key, **within}), on_record)
            within, epochs = {"within": drawn.key}, epochs + len(trained.history)
            if method.rewinding == "learning_rate":
                before = {"before": trained.key}
        return drawn.key

    def _shuffled(self, like: StageKey, seed: int, on_record: OnRecord) -> StageKey:
        inputs = {"kind": "shuffled", "ticket_seed": seed}
        return self._run(Stage("draw", inputs, {"like": like}), on_record).key

    def train_and_measure(
        self,
        ticket: StageKey | None,
        on_record: OnRecord,
        ablation: Ablation | None = None,
        rival: Rival | None = None,
    ) -> Outcome:
        """Retrain from the pre-trained weights, then clean accuracy, OOD twins, and every threat model."""
        method = self.settings.method
        if ticket is not None and isinstance(method, SRNets) and not method.retrained:
            trained = self._as_it_is(method, ticket, on_record)
        else:
            trained = self._run(self._retrain(ticket, ablation=ablation), on_record)
        evaluated = self._run(self._evaluate(trained), on_record)
        unattacked = Outcome(
            clean=CleanFigures.model_validate(evaluated.record["clean"]),
            attacks=(),
            sparsity=Sparsity.model_validate(trained.record["sparsity"]),
            ood=self._out_of_distribution(trained),
            flops=evaluated.record["flops"],
            retrain_digest=trained.key.digest,
            draw_digest=ticket.digest if ticket is not None else None,
            mask=ticket.content if ticket is not None else None,
        )
        attacks = self._under_attack(trained, evaluated, unattacked, rival)
        return unattacked.model_copy(update={"attacks": attacks})

    def _search(self, method: EarlyBird) -> Stage:
        on = method.search_on if isinstance(method, ORTicket) else TASK
        if isinstance(method, ORTicket) and on == CORPUS:
            return self._masked_search(method)
        task, data = self.settings.task, self.world.data
        if on != TASK:
            task, data = self.settings.transfer[on].task, self.world.transfers[on]
        inputs = {**self._model_inputs(), "max_length": task.max_length, "method": method.search_inputs()}
        return Stage("search", inputs, {"data": data}, goal=method.stop_rule())

    def _masked_search(self, method: ORTicket) -> Stage:
        """ORTicket: the search on masked text, which knows no task. A checkpoint without a head gets one before it."""
        corpus = self.world.search_texts[method.corpus]
        head = searched_lm_stage(self.settings, method, self.world.model_fingerprint, corpus)
        fitted = self._run(head, _unheard)
        self.masked_head = MaskedHead.model_validate({name: fitted.record[name] for name in MaskedHead.model_fields})
        inputs = {"seed": self.settings.seed, "method": method.search_inputs()}
        upstream = {"corpus": corpus, "masked_lm": fitted.key}
        return Stage("mlm_search", inputs, upstream, goal=method.stop_rule())

    def _retrain(
        self,
        ticket: StageKey | None,
        retraining: Retraining | None = None,
        ablation: Ablation | None = None,
        start: Start | None = None,
    ) -> Stage:
        settings, retraining = self.settings, retraining or self.settings.retraining
        inputs = {
            **self._model_inputs(),
            "retraining": retraining.model_dump(mode="json"),
            "probe": settings.evaluation.probe.model_dump(mode="json"),
            "eval_batch_size": settings.evaluation.batch_size,
            **(ablation or Ablation()).start_inputs(),
            **(start or Start()).leave_inputs(),
        }
        upstream = {"data": self.world.data} | ({"draw": ticket} if ticket is not None else {})
        return Stage("retrain", inputs, upstream | self._experts(retraining.debiasing))

    def _experts(self, debiasing: Debiasing) -> dict[str, StageKey]:
        """The stages whose predictions the loss of a training reads, by role: none for plain cross entropy."""
        stages = {"bias": self._bias, "teacher": self._teacher}
        return {role: self._run(stages[role](debiasing), _unheard).key for role in debiasing.experts}

    def _bias(self, debiasing: Debiasing) -> Stage:
        """The bias model. It knows word vectors and texts, nothing of the network but perhaps its input embeddings."""
        bias, planted = debiasing.bias, self.settings.task.planted
        if bias.features == "marker" and bias.markers is None and planted is not None:
            bias = bias.model_copy(update={"markers": planted.markers})
        inputs: dict[str, Any] = {"bias": bias.model_dump(mode="json")}
        if bias.folds is not None:
            inputs["seed"] = self.settings.seed
        upstream = {"data": self.world.data}
        if bias.reads_file:
            upstream["vectors"] = self.world.vectors[bias.vectors]
        elif bias.reads_vectors:
            inputs |= {name: self._model_inputs()[name] for name in ("model", "model_fingerprint")}
        return Stage("bias", inputs, upstream)

    def _teacher(self, debiasing: Debiasing) -> Stage:
        """A plain fine-tuning of the whole model, then its predictions on the rows it was trained on."""
        finetuning = Retraining.model_validate(debiasing.teacher.model_dump())
        trained = self._run(self._retrain(None, finetuning), _unheard)
        inputs = {"eval_batch_size": self.settings.evaluation.batch_size}
        return Stage("teacher", inputs, {"data": self.world.data, "retrain": trained.key})

    def _model_inputs(self) -> dict[str, Any]:
        return {
            "seed": self.settings.seed if self.training_seed is None else self.training_seed,
            "model": self.settings.model.model_dump(mode="json"),
            "model_fingerprint": self.world.model_fingerprint,
            "max_length": self.settings.task.max_length,
        }

    def recompute(self, stage: Stage) -> StageResult:
        """Compute a stage that the store has lost; its record takes the place of the one there was."""
        result = self._mended(lambda: self.runner.run(stage))
        self.stages[:] = [noted for noted in self.stages if noted.digest != result.key.digest]
        self._note(result)
        return result

    def _run(self, stage: Stage, on_record: OnRecord) -> StageResult:
        result = self._mended(lambda: self.runner.run(stage, lambda record: on_record({"stage": stage.name, **record})))
        self._note(result)
        return result

    def _run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        results = self._mended(lambda: self.runner.run_all(stages))
        for result in results:
            self._note(result)
        return results

    def _mended(self, get: Callable[[], Got]) -> Got:
        """What a runner gives, once all that is lost of what it reads has been computed again."""
        for _ in range(_MOST_LOST):
            try:
                return get()
            except Lost as lost:
                lost.check(self.recompute(lost.stage))
        return get()

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
