"""The way of one ticket, stage by stage. This page alone knows their order: read it first.

search -> draw -> retrain -> evaluate -> attack
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tune_tickets.attacks.threat import RULES_VERSION, ThreatModel
from tune_tickets.config import Settings
from tune_tickets.config.ablation import Ablation
from tune_tickets.config.method import Drawing, EarlyRobust, FineTune, Imp, RandomTicket, RobustT
from tune_tickets.config.retraining import Retraining
from tune_tickets.records import AttackFigures, CleanFigures, Outcome, Sparsity, StageRecord
from tune_tickets.trial.attacking import Beaten, ShardedAttack, bounds
from tune_tickets.trial.corpus import masked_lm_stage
from tune_tickets.trial.runner import OnRecord, Runner
from tune_tickets.trial.stage import Stage, StageKey, StageResult

Rival = Callable[[CleanFigures, Sequence[float]], tuple[float, ...] | None]
"""Given clean figures and the most that accuracy under each attack can be: the values within reach, if they lose."""


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


@dataclass
class Pipeline:
    """The stages of one model under fixed settings. Every stage asked for is noted in `stages`."""

    settings: Settings
    world: World
    runner: Runner
    stages: list[StageRecord] = field(default_factory=list)

    def find_ticket(self, on_record: OnRecord, rival: Rival | None = None) -> Outcome:
        """The trial of the configured method: find a ticket, ablate it if asked to, train it on its own, measure it.

        `Beaten` is raised if the rival wins before all rows have been attacked.
        """
        ticket, ablation = self.draw(on_record), self.settings.ablation
        if ticket is not None and ablation.mask == "shuffled":
            ticket = self._shuffled(ticket, ablation.seed, on_record)
        return self.train_and_measure(ticket, on_record, ablation, rival)

    def dense_control(self, on_record: OnRecord) -> Outcome:
        """The whole model, trained and measured in the same way."""
        return self.train_and_measure(None, on_record)

    def random_control(self, like: StageKey, seed: int, on_record: OnRecord) -> Outcome:
        """A ticket that keeps as much in every layer as `like` does, chosen at random."""
        return self.train_and_measure(self._shuffled(like, seed, on_record), on_record, self.settings.ablation)

    def draw(self, on_record: OnRecord) -> StageKey | None:
        """The mask of the ticket; None for the whole model."""
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
            return self._run(Stage("draw", inputs | {"drawing": method.drawing.model_dump()}), on_record).key
        if isinstance(method, RobustT):
            return self._draw_by_masks(method, on_record)
        if isinstance(method, Imp):
            return self._draw_by_rounds(method, on_record)
        search = self._run(self._search(method), on_record)
        inputs = {"kind": "scores", "stop": search.record["stop"], "drawing": method.drawing.model_dump()}
        return self._run(Stage("draw", inputs, {"search": search.key}), on_record).key

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
        """Retrain from the pre-trained weights, then clean accuracy, then every threat model."""
        trained = self._run(self._retrain(ticket, ablation=ablation), on_record)
        evaluated = self._run(self._evaluate(trained), on_record)
        clean = CleanFigures.model_validate(evaluated.record["clean"])
        return Outcome(
            clean=clean,
            attacks=self._under_attack(trained, evaluated, clean, rival),
            sparsity=Sparsity.model_validate(trained.record["sparsity"]),
            retrain_digest=trained.key.digest,
            draw_digest=ticket.digest if ticket is not None else None,
            mask=ticket.content if ticket is not None else None,
        )

    def _under_attack(
        self, trained: StageResult, evaluated: StageResult, clean: CleanFigures, rival: Rival | None
    ) -> tuple[AttackFigures, ...]:
        """Every threat model: all shards at once, or one by one while the ticket can still beat its rival."""
        masked_lm = self._run(self._masked_lm(), _unheard) if self.world.corpus is not None else None
        attacks = [
            ShardedAttack(each, self._shards(trained, each, masked_lm), evaluated, masked_lm)
            for each in self.world.threats
        ]
        if rival is None:
            results = iter(self._run_all([shard for attack in attacks for shard in attack.shards]))
            for attack in attacks:
                attack.done += [next(results) for _ in attack.shards]
        else:
            self._attack_while_it_can_win(attacks, clean, rival)
        return tuple(attack.figures() for attack in attacks)

    def _attack_while_it_can_win(self, attacks: Sequence[ShardedAttack], clean: CleanFigures, rival: Rival) -> None:
        for attack in attacks:
            for shard in attack.left:
                beaten = rival(clean, [each.best_possible() for each in attacks])
                if beaten is not None:
                    raise Beaten(beaten, sum(each.rows_done() for each in attacks))
                attack.done += self._run_all([shard])

    def _search(self, method: EarlyRobust) -> Stage:
        inputs = {**self._model_inputs(), "method": method.search_inputs()}
        return Stage("search", inputs, {"data": self.world.data}, goal=method.stop_rule())

    def _retrain(
        self, ticket: StageKey | None, retraining: Retraining | None = None, ablation: Ablation | None = None
    ) -> Stage:
        settings = self.settings
        inputs = {
            **self._model_inputs(),
            "retraining": (retraining or settings.retraining).model_dump(mode="json"),
            "probe": settings.evaluation.probe.model_dump(mode="json"),
            "eval_batch_size": settings.evaluation.batch_size,
            **(ablation or Ablation()).start_inputs(),
        }
        upstream = {"data": self.world.data} | ({"draw": ticket} if ticket is not None else {})
        return Stage("retrain", inputs, upstream)

    def _evaluate(self, trained: StageResult) -> Stage:
        evaluation = self.settings.evaluation
        inputs = {"eval_batch_size": evaluation.batch_size, "rows": evaluation.rows, "seed": self.settings.seed}
        return Stage("evaluate", inputs, {"data": self.world.data, "retrain": trained.key})

    def _shards(self, trained: StageResult, threat: ThreatModel, masked_lm: StageResult | None) -> tuple[Stage, ...]:
        evaluation = self.settings.evaluation
        inputs = {
            "seed": self.settings.seed,
            "threat": asdict(threat),
            "rules": RULES_VERSION,
            "rows": evaluation.rows,
            "eval_batch_size": evaluation.batch_size,
        }
        upstream = {"data": self.world.data, "retrain": trained.key}
        if masked_lm is not None and threat.fits_masked_lm:
            upstream["masked_lm"] = masked_lm.key
        shards = bounds(evaluation.rows, evaluation.shard)
        return tuple(Stage("attack", {**inputs, "shard": list(shard)}, upstream) for shard in shards)

    def _masked_lm(self) -> Stage:
        """A masked language model on the backbone: the same for every ticket, so that all meet the same attacker."""
        assert self.world.corpus is not None
        return masked_lm_stage(self.settings, self.world.model_fingerprint, self.world.corpus)

    def _model_inputs(self) -> dict[str, Any]:
        return {
            "seed": self.settings.seed,
            "model": self.settings.model.model_dump(mode="json"),
            "model_fingerprint": self.world.model_fingerprint,
            "max_length": self.settings.task.max_length,
        }

    def _run(self, stage: Stage, on_record: OnRecord) -> StageResult:
        result = self.runner.run(stage, lambda record: on_record({"stage": stage.name, **record}))
        self._note(result)
        return result

    def _run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        results = self.runner.run_all(stages)
        for result in results:
            self._note(result)
        return results

    def _note(self, result: StageResult) -> None:
        reused = not result.computed or result.record.get("computed_mini_epochs") == 0
        self.stages.append(
            StageRecord(
                name=result.key.name,
                digest=result.key.digest,
                cached=reused,
                seconds=result.seconds,
                training=result.record.get("training"),
            )
        )


def _later(on_record: OnRecord, steps: int) -> OnRecord:
    """The records of a round behind those of the rounds before it."""
    return lambda record: on_record({**record, "step": record["step"] + steps})


def _unheard(record: dict[str, Any]) -> None:
    """The epochs of a fine-tuning before the search are not those that trials are compared by."""
