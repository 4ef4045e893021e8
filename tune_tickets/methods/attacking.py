"""One threat model against one model, in shards of rows, and when an attack may stop early."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_tickets.attacks.records import RowResult, figures
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config import Settings
from tune_tickets.config.training import Adversary
from tune_tickets.engine.stage import Stage, StageResult
from tune_tickets.results.metrics import attack_bounds
from tune_tickets.results.records import AttackFigures, MaskedAccuracy


class Beaten(Exception):
    """The ticket cannot beat the best one any more, even if it withstands all remaining rows."""

    def __init__(self, bound: tuple[float, ...], rows: int) -> None:
        super().__init__(f"can no longer beat the best ticket: at most {', '.join(f'{value:.4f}' for value in bound)}")
        self.bound = bound
        """The best objective values that were still possible."""
        self.rows = rows
        """How many rows were attacked before, over all threat models."""


@dataclass
class ShardedAttack:
    """One threat model against one model. Each shard of rows is a stage, so a dead worker costs one shard."""

    threat: ThreatModel
    shards: tuple[Stage, ...]
    evaluated: StageResult
    """Has the rows of the sample that the model gets right before any change."""
    masked_lm: StageResult | None = None
    done: list[StageResult] = field(default_factory=list)

    @property
    def left(self) -> tuple[Stage, ...]:
        """The shards that have not run yet, in order."""
        return self.shards[len(self.done) :]

    def best_possible(self) -> float:
        """Accuracy under attack in % if the model withstands every remaining row."""
        rows = self._rows()
        survived = sum(row.status == "failed" for row in rows)
        attackable: list[bool] = self.evaluated.record["attackable"]
        return 100.0 * (survived + sum(attackable[len(rows) :])) / len(attackable)

    def figures(self) -> AttackFigures:
        """The metrics over all rows, once the last shard is done."""
        assert not self.left
        rejected: Counter[str] = Counter()
        for shard in self.done:
            rejected.update(shard.record["rejected"])
        candidates = sum(shard.record["candidates"] for shard in self.done)
        sample = self.evaluated.record["attacked_sample"]
        whole = figures(self._rows(), self.threat.name, self.threat.fingerprint, rejected, candidates, sample)
        if self.masked_lm is None or not self.threat.fits_masked_lm:
            return whole
        accuracy = MaskedAccuracy(top1=self.masked_lm.record["top1"], top10=self.masked_lm.record["top10"])
        return whole.model_copy(update={"masked_lm": accuracy})

    def rows_done(self) -> int:
        """How many rows were attacked."""
        return len(self._rows())

    def _rows(self) -> list[RowResult]:
        return [RowResult(**row) for shard in self.done for row in shard.record["rows"]]


def best_possible(attacks: Sequence[ShardedAttack]) -> dict[str, float]:
    """The highest possible accuracy under each attack and their mean, by the names of these metrics."""
    return attack_bounds({attack.threat.name: attack.best_possible() for attack in attacks})


def bounds(rows: int, size: int) -> Sequence[tuple[int, int]]:
    """The first and last row of each shard of at most `size` rows. They do not depend on the number of workers."""
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]


def trained_on(
    settings: Settings, sources: Mapping[str, Mapping[str, Any]], threats: Sequence[ThreatModel], whole: bool
) -> tuple[str, ...]:
    """A note if a model was trained on the substitutes of attacks that measure it.

    Args:
        settings: of the trial.
        sources: the identities of the sources of substitutes, by name.
        threats: the attacks that measure the model.
        whole: whether it is the whole model, which no method has searched for.
    """
    adversaries = [settings.retraining.adversary] if whole or settings.method.retrained else []
    if not whole and isinstance(own := getattr(settings.method, "adversary", None), Adversary):
        adversaries.append(own)
    used = [sources[adversary.source] for adversary in adversaries if adversary.reads_substitutes]
    words = {word for source in used for word in source.get("words", "").split("+")}
    seen = [threat.name for threat in threats if words & set(threat.sources)]
    return (f"trained on the substitutes of {', '.join(seen)}",) if seen else ()
