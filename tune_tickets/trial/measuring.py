"""How `Pipeline` measures a trained model, also epoch by epoch: clean accuracy, OOD twins, threat models."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from tune_tickets.attacks.threat import RULES_VERSION, ThreatModel
from tune_tickets.config import Settings
from tune_tickets.engine.runner import OnRecord, unheard
from tune_tickets.engine.stage import Stage, StageKey, StageResult
from tune_tickets.results.records import AttackFigures, CleanFigures, EpochFigures, OodFigures, Outcome
from tune_tickets.trial.attacking import Beaten, ShardedAttack, best_possible, bounds
from tune_tickets.trial.corpus import masked_lm_stage
from tune_tickets.trial.weight_files import TICKET_FILE, epoch_file

if TYPE_CHECKING:
    from tune_tickets.trial.pipeline import World

Rival = Callable[[Mapping[str, float]], tuple[float, ...] | None]
"""Given what is known and the most that accuracy under each attack can be: the values within reach, if they lose."""


class MeasuringSteps(ABC):
    """What a pipeline does with a model once it is trained."""

    settings: Settings
    world: "World"

    @abstractmethod
    def _run(self, stage: Stage, on_record: OnRecord) -> StageResult: ...

    @abstractmethod
    def _run_all(self, stages: Sequence[Stage]) -> list[StageResult]: ...

    def after_every_epoch(self, trained: Stage, final: Outcome) -> tuple[EpochFigures, ...]:
        """The model after each epoch of its retraining, which is run once more to keep them; all are attacked at once.

        The last one is the model that was `trained` and has its `final` figures, unless it came out differently.
        """
        kept = self._run(replace(trained, name="epochs"), unheard)
        last = len(kept.files)
        repeated = _sha256(kept, epoch_file(last)) == _sha256(self._run(trained, unheard), TICKET_FILE)
        epochs = range(1, last if repeated else last + 1)
        evaluated = self._run_all([self._evaluate(kept, epoch) for epoch in epochs])
        attacks = [self._attacks(kept, each, epoch) for each, epoch in zip(evaluated, epochs, strict=True)]
        self._attack_at_once([attack for each in attacks for attack in each])
        measured = [
            EpochFigures(
                epoch=epoch,
                clean=CleanFigures.model_validate(each.record["clean"]),
                attacks=tuple(attack.figures() for attack in against),
            )
            for epoch, each, against in zip(epochs, evaluated, attacks, strict=True)
        ]
        own = EpochFigures(epoch=last, clean=final.clean, attacks=final.attacks)
        return (*measured, own) if repeated else tuple(measured)

    def _out_of_distribution(self, trained: StageResult) -> tuple[OodFigures, ...]:
        """Every OOD twin of the task, on its select rows."""
        inputs = {"eval_batch_size": self.settings.evaluation.batch_size}
        twins = self.world.twins.values()
        measured = self._run_all([Stage("ood", inputs, {"twin": twin, "retrain": trained.key}) for twin in twins])
        return tuple(OodFigures.model_validate(result.record["ood"]) for result in measured)

    def _under_attack(
        self, trained: StageResult, evaluated: StageResult, unattacked: Outcome, rival: Rival | None
    ) -> tuple[AttackFigures, ...]:
        """Every threat model: all shards at once, or one by one while the ticket can still beat its rival."""
        attacks = self._attacks(trained, evaluated)
        if rival is None:
            self._attack_at_once(attacks)
        else:
            self._attack_while_it_can_win(attacks, unattacked.metrics(), rival)
        return tuple(attack.figures() for attack in attacks)

    def _attacks(self, trained: StageResult, evaluated: StageResult, epoch: int | None = None) -> list[ShardedAttack]:
        masked_lm = self._run(self._masked_lm(), unheard) if self.world.corpus is not None else None
        return [
            ShardedAttack(each, self._shards(trained, each, masked_lm, epoch), evaluated, masked_lm)
            for each in self.world.threats
        ]

    def _attack_at_once(self, attacks: Sequence[ShardedAttack]) -> None:
        results = iter(self._run_all([shard for attack in attacks for shard in attack.shards]))
        for attack in attacks:
            attack.done += [next(results) for _ in attack.shards]

    def _attack_while_it_can_win(
        self, attacks: Sequence[ShardedAttack], known: Mapping[str, float], rival: Rival
    ) -> None:
        for attack in attacks:
            for shard in attack.left:
                beaten = rival({**known, **best_possible(attacks)})
                if beaten is not None:
                    raise Beaten(beaten, sum(each.rows_done() for each in attacks))
                attack.done += self._run_all([shard])

    def _evaluate(self, trained: StageResult, epoch: int | None = None) -> Stage:
        evaluation = self.settings.evaluation
        inputs = {"eval_batch_size": evaluation.batch_size, "rows": evaluation.rows, "seed": self.settings.seed}
        inputs |= _after(epoch)
        return Stage("evaluate", inputs, {"data": self._measured_on, "retrain": trained.key})

    @property
    def _measured_on(self) -> StageKey:
        return self.world.measured or self.world.data

    def _shards(
        self, trained: StageResult, threat: ThreatModel, masked_lm: StageResult | None, epoch: int | None = None
    ) -> tuple[Stage, ...]:
        evaluation = self.settings.evaluation
        inputs = {
            "seed": self.settings.seed,
            "threat": asdict(threat),
            "rules": RULES_VERSION,
            "rows": evaluation.rows,
            "eval_batch_size": evaluation.batch_size,
            **_after(epoch),
        }
        upstream = {"data": self._measured_on, "retrain": trained.key}
        if masked_lm is not None and threat.fits_masked_lm:
            upstream["masked_lm"] = masked_lm.key
        shards = bounds(evaluation.rows, evaluation.shard)
        return tuple(Stage("attack", {**inputs, "shard": list(shard)}, upstream) for shard in shards)

    def _masked_lm(self) -> Stage:
        """A masked language model on the backbone: the same for every ticket, so that all meet the same attacker."""
        assert self.world.corpus is not None
        return masked_lm_stage(self.settings, self.world.model_fingerprint, self.world.corpus)


def _after(epoch: int | None) -> dict[str, Any]:
    """What a stage is told of an epoch; nothing of the end of a training."""
    return {} if epoch is None else {"epoch": epoch}


def _sha256(result: StageResult, file: str) -> str:
    return result.files[file].rsplit("#", 1)[1]
