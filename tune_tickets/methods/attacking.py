"""One threat model against one model, in shards of rows; suites of them; when an attack may stop early."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_tickets.attacks.records import RowResult, Status, figures
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config import Settings
from tune_tickets.config.training import Adversary
from tune_tickets.engine.stage import StageResult
from tune_tickets.methods.stages import Attack
from tune_tickets.results.metrics import attack_bounds
from tune_tickets.results.records import AttackFigures, MaskedAccuracy, SuiteFigures


class Beaten(Exception):
    """The ticket cannot beat the best one any more, even if it withstands all remaining rows."""

    def __init__(self, bound: tuple[float, ...], rows: int) -> None:
        super().__init__(f"can no longer beat the best ticket: at most {', '.join(f'{value:.4f}' for value in bound)}")
        self.bound = bound
        """The best objective values that were still possible."""
        self.rows = rows
        """How many rows were attacked before, over all threat models."""


Rival = Callable[[Mapping[str, float]], tuple[float, ...] | None]
"""Takes the known metrics and the best possible accuracy under each attack. Returns the objective values that are still
possible if they lose against the best ticket so far, else None."""
_RunAll = Callable[[Sequence[Attack]], list[StageResult]]


@dataclass
class ShardedAttack:
    """One threat model against one model. Each shard of rows is a stage, so a dead worker costs one shard."""

    threat: ThreatModel
    shards: tuple[Attack, ...]
    evaluated: StageResult
    """Has the rows of the sample that the model gets right before any change."""
    masked_lm: StageResult | None = None
    done: list[StageResult | None] = field(default_factory=list)
    """The results so far; None for a shard in which no row was left to attack."""
    suite: bool = False
    """Whether it is one threat model of a suite."""
    before: "ShardedAttack | None" = None
    """In a suite, the threat model before it: only the rows that withstood that one are attacked."""

    @property
    def left(self) -> tuple[Attack, ...]:
        """The shards that have not run yet, in order."""
        return self.shards[len(self.done) :]

    @property
    def ready(self) -> bool:
        """Whether its shards can run: the threat model before it has attacked all rows."""
        return self.before is None or not self.before.left

    def stages(self) -> list[Attack | None]:
        """The stages that are left, each with the rows that are left; None if there are none."""
        if self.before is None:
            return list(self.left)
        assert self.ready
        earlier = self.before._rows()
        return [_narrowed(shard, earlier) for shard in self.left]

    def best_possible(self) -> float:
        """Accuracy under attack in % if the model withstands every remaining row."""
        alive = self._alive()
        return 100.0 * sum(alive) / len(alive)

    def figures(self) -> AttackFigures:
        """The metrics over all rows, once the last shard is done."""
        assert not self.left
        rejected: Counter[str] = Counter()
        for shard in self._computed():
            rejected.update(shard.record["rejected"])
        candidates = sum(shard.record["candidates"] for shard in self._computed())
        sample = self.evaluated.record["attacked_sample"]
        after = self._after() if self.suite else None
        name, fingerprint = self.threat.name, self.threat.fingerprint
        whole = figures(self._rows(), name, fingerprint, rejected, candidates, sample, after)
        if self.masked_lm is None or not self.threat.fits_masked_lm:
            return whole
        accuracy = MaskedAccuracy(top1=self.masked_lm.record["top1"], top10=self.masked_lm.record["top10"])
        return whole.model_copy(update={"masked_lm": accuracy})

    def rows_done(self) -> int:
        """How many rows were attacked."""
        return sum(len(shard.record["rows"]) for shard in self._computed())

    def _computed(self) -> list[StageResult]:
        return [shard for shard in self.done if shard is not None]

    def _after(self) -> tuple[str, ...]:
        return () if self.before is None else (*self.before._after(), self.before.threat.fingerprint)

    def _alive(self) -> list[bool]:
        """Per row of the sample: whether the model can still withstand everything up to this threat model."""
        attackable: list[bool] = self.evaluated.record["attackable"]
        known = [row.status == "failed" for row in self._rows()]
        return known + (attackable if self.before is None else self.before._alive())[len(known) :]

    def _rows(self) -> list[RowResult]:
        """The rows of the shards that are done."""
        if self.before is None:
            return [RowResult(**row) for shard in self._computed() for row in shard.record["rows"]]
        earlier, rows = self.before._rows(), []
        for shard, result in zip(self.shards, self.done, strict=False):
            stage = _narrowed(shard, earlier)
            attacked = [] if result is None else result.record["rows"]
            found = dict(zip([] if stage is None else stage.places, attacked, strict=True))
            for place in shard.places:
                withstood = earlier[place].status == "failed"
                rows.append(RowResult(**found[place]) if withstood else _not_attacked(earlier[place]))
        return rows


def _narrowed(shard: Attack, earlier: Sequence[RowResult]) -> Attack | None:
    """The shard with only the rows that withstood the threat models before; None if there are none."""
    statuses = {place: earlier[place].status for place in shard.places}
    if not {"successful", "lost"} & set(statuses.values()):
        return shard  # nothing was lost: the same stage as without a suite
    only = [place for place, status in statuses.items() if status == "failed"]
    return replace(shard, only=only) if only else None


def _not_attacked(earlier: RowResult) -> RowResult:
    """A row that is wrong from the start, or that lost to an earlier threat model of the suite."""
    status: Status = "skipped" if earlier.status == "skipped" else "lost"
    return RowResult(earlier.index, status, queries=0, words_changed=0.0, similarity=None)


def attack_at_once(attacks: Sequence[ShardedAttack], run_all: _RunAll) -> None:
    """Run all shards together. The threat models of a suite wait for the one before."""
    waiting = list(attacks)
    while waiting:
        ready = [(attack, attack.stages()) for attack in waiting if attack.ready]
        stages = [stage for _, found in ready for stage in found if stage is not None]
        results = iter(run_all(stages) if stages else [])
        for attack, found in ready:
            attack.done += [None if stage is None else next(results) for stage in found]
        waiting = [attack for attack in waiting if attack.left]


def attack_while_it_can_win(
    attacks: Sequence[ShardedAttack], known: Mapping[str, float], rival: Rival, run_all: _RunAll
) -> None:
    """Run shard after shard.

    Raises:
        Beaten: the rival wins before all rows have been attacked.
    """
    for attack in attacks:
        for stage in attack.stages():
            if stage is None:
                attack.done.append(None)
                continue
            beaten = rival({**known, **best_possible(attacks)})
            if beaten is not None:
                raise Beaten(beaten, sum(each.rows_done() for each in attacks))
            attack.done += run_all([stage])


def best_possible(attacks: Sequence[ShardedAttack]) -> dict[str, float]:
    """The highest possible accuracy under each attack and under all of them, by the names of these metrics."""
    accuracies = {attack.threat.name: attack.best_possible() for attack in attacks}
    return attack_bounds(accuracies, suite=attacks[0].suite)


def suite_figures(attacks: Sequence[ShardedAttack]) -> SuiteFigures | None:
    """The rows that withstand every threat model, once all are done; None if the attacks are no suite."""
    if not attacks or not attacks[0].suite:
        return None
    last = attacks[-1].figures()
    return SuiteFigures(
        threats=tuple(attack.threat.name for attack in attacks),
        fingerprints=tuple(attack.threat.fingerprint for attack in attacks),
        rows=last.rows,
        accuracy=last.accuracy_under_attack,
        interval=last.interval,
        survived=last.survived,
        sample=last.sample,
    )


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
