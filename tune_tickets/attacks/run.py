"""Run attacks in lock-step. Each is seeded by its row, so order and sharding change nothing."""

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from tune_tickets.attacks.charmer import Charmer
from tune_tickets.attacks.lockstep import in_lockstep
from tune_tickets.attacks.neighbours import load_encoder
from tune_tickets.attacks.records import (
    AttackRecord,
    AttackRow,
    Found,
    Measured,
    Measurement,
    Tally,
    figures,
    sample_substitutions,
)
from tune_tickets.attacks.threat import ThreatModel, with_resources
from tune_tickets.attacks.victim import Victim, clean, split_visible
from tune_tickets.data.sample import Sample
from tune_tickets.errors import ConfigError, DataError, ResourceError, TicketsError
from tune_tickets.models.classifier import Classifier
from tune_tickets.results.statistics import wilson

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM

__all__ = ["AttackRecord", "AttackRow", "Attacked", "attack_rows", "row_seed"]

_WIDTH = 64
"""Number of attacks at the same time. Enough to fill batches, also of long texts."""


@dataclass(frozen=True)
class Attacked:
    """One record per row, in order, and how many candidates were proposed and rejected."""

    records: list[AttackRecord]
    candidates: int
    rejected: dict[str, int]
    """Number of candidates that each constraint rejected."""


def attack_rows(
    victim: Victim,
    rows: Sequence[AttackRow],
    threat: ThreatModel,
    columns: tuple[str, ...],
    attacked: str,
    labels: tuple[str, ...],
    seed: int,
    query_budget: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    masked_lm: "MaskedLM | None" = None,
    width: int = _WIDTH,
) -> Attacked:
    """Attack every row, `width` of them at the same time.

    Raises:
        ConfigError, DataError: Rows, columns and labels do not fit together.
        ResourceError: The threat model was named with other resources than this process has.
        TicketsError: An attack on a row failed with an error. No metric is given, since it would leave this row out.
    """
    _check(rows, threat, columns, attacked, labels, masked_lm)
    column = columns.index(attacked)
    attacker = _attacker(victim, threat, column, query_budget or threat.query_budget, masked_lm)

    def job(row: AttackRow) -> AttackRecord:
        try:
            return _attack_row(attacker, victim, row, columns, column, len(labels), row_seed(seed, row.index))
        except Exception as error:
            raise TicketsError(
                f"attack {threat.name} failed on row {row.index} ({type(error).__name__}: {error}); "
                "no metric is given, since it would leave this row out"
            ) from error

    records: dict[int, AttackRecord] = {}
    with _own_randomness(), attacker.running():
        attacker.prepare(split_visible(clean(row.texts[column]), victim.max_length)[0] for row in rows)
        for number, record in in_lockstep([partial(job, row) for row in rows], width):
            records[number] = record
            if progress is not None:
                progress(len(records), len(rows))
    in_order = [records[number] for number in range(len(rows))]
    return Attacked(in_order, attacker.tally.candidates, dict(attacker.tally.rejected))


def _check(
    rows: Sequence[AttackRow],
    threat: ThreatModel,
    columns: tuple[str, ...],
    attacked: str,
    labels: tuple[str, ...],
    masked_lm: "MaskedLM | None",
) -> None:
    if attacked not in columns:
        raise ConfigError(f"the attacked column {attacked!r} is not one of the text columns {columns}")
    for row in rows:
        if len(row.texts) != len(columns) or not 0 <= row.label < len(labels):
            raise DataError(
                f"row {row.index} has {len(row.texts)} texts and label {row.label}; expected are "
                f"{len(columns)} texts and a label from 0 to {len(labels) - 1}"
            )
    here = with_resources(threat, masked_lm.identity if masked_lm else None).resources
    if here != threat.resources:
        changed = sorted(name for name in here if here[name] != threat.resources.get(name))
        raise ResourceError(
            f"threat model {threat.name} was named with other resources than this process has ({', '.join(changed)}): "
            "install the same packages and set the same environment variables on every node"
        )


class _Attacker(Protocol):
    """A threat model against one victim."""

    @property
    def tally(self) -> Tally: ...

    def running(self) -> AbstractContextManager[None]:
        """Hold while rows are attacked."""
        ...

    def prepare(self, texts: Iterable[str]) -> None:
        """Look up at once what the attacks on these texts need."""
        ...

    def attack(self, columns: Mapping[str, str], label: int, seed: int) -> Found:
        """Attack one row."""
        ...


def _attacker(
    victim: Victim, threat: ThreatModel, column: int, query_budget: int | None, masked_lm: "MaskedLM | None"
) -> _Attacker:
    if threat.swaps == "characters":
        return Charmer(victim, threat, column, query_budget)
    from tune_tickets.attacks.recipes import Recipe  # imports TextAttack, which takes seconds

    return Recipe.of(victim, threat, column, query_budget, masked_lm)


def _attack_row(
    attacker: _Attacker,
    victim: Victim,
    row: AttackRow,
    columns: tuple[str, ...],
    column: int,
    classes: int,
    seed: int,
) -> AttackRecord:
    _reseed(seed)
    texts = tuple(clean(text) for text in row.texts)
    visible, rest = zip(*(split_visible(text, victim.max_length) for text in texts), strict=True)
    found = attacker.attack(OrderedDict(zip(columns, visible, strict=True)), int(row.label), seed)
    if found.classes != classes:
        raise ConfigError(f"the model has {found.classes} classes, the task {classes}")
    perturbed = tuple(head + tail for head, tail in zip(found.texts, rest, strict=True))
    similarity = None
    if found.status == "successful":
        encoder = load_encoder(victim.model.device, victim.exact)
        [similarity] = encoder.similarities([(texts[column], perturbed[column])])
    return AttackRecord(
        index=row.index,
        texts=texts,
        perturbed_texts=perturbed,
        label=int(row.label),
        prediction=found.prediction,
        perturbed_prediction=found.perturbed_prediction,
        status=found.status,
        queries=found.queries,
        words_changed=_words_changed(*found.words, rest),
        similarity=similarity,
    )


def _words_changed(before: list[str], after: list[str], rest: tuple[str, ...]) -> float:
    # As TextAttack's metric, but aligned: a space inside a word does not make all later words count as changed.
    same = sum(block.size for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks())
    total = len(before) + sum(len(tail.split()) for tail in rest)
    return 100 * (len(before) - same) / total if total else 0.0


def row_seed(seed: int, index: int) -> int:
    """Return the seed of a row's attack: the `random_seed` that TextAttack's Attacker gets for this row alone."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def _reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@contextmanager
def _own_randomness() -> Iterator[None]:
    # The caller's generators keep their state.
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)


def _masked_lm(threat: ThreatModel, classifier: Classifier) -> "MaskedLM | None":
    if "masked-lm" not in threat.sources:
        return None
    from tune_tickets.attacks.masked_words import resolved_masked_lm

    return resolved_masked_lm(classifier.model.device)


def measure(
    classifier: Classifier,
    sample: Sample,
    threat: ThreatModel,
    seed: int,
    batch_size: int,
    progress: Callable[[int, int], None],
) -> Measured:
    """Attack every row of the sample and return the metrics with all records."""
    classifier.check_texts(len(sample.columns))
    if threat.swaps != "characters":
        import_module("tune_tickets.attacks.recipes")  # starting TextAttack takes seconds that are not the attack's
    started = time.monotonic()
    attacked = attack_rows(
        Victim(classifier.model, classifier.tokenizer, classifier.max_length, batch_size),
        [AttackRow(index, row.texts, row.label) for index, row in sample.rows],
        threat,
        columns=sample.columns,
        attacked=sample.attacked,
        labels=sample.labels,
        seed=seed,
        progress=progress,
        masked_lm=_masked_lm(threat, classifier),
    )
    seconds = time.monotonic() - started
    records = attacked.records
    measured = figures(records, threat.name, threat.fingerprint, attacked.rejected, attacked.candidates, sample.digest)
    return Measured(
        Measurement(
            model=classifier.name,
            figures=measured,
            resources=dict(threat.resources),
            clean_interval=wilson(measured.rows - measured.skipped, measured.rows),
            seconds=seconds,
            queries_per_second=sum(record.queries for record in records) / seconds,
            substitutions=sample_substitutions(records, seed),
        ),
        records,
        sample,
    )
