"""The executor: one attack after the other, each seeded by its row, so that order and sharding change nothing."""

import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import torch

from tune_tickets.attacks.encoder import load_encoder
from tune_tickets.attacks.rows import AttackRecord, AttackRow, Status
from tune_tickets.attacks.threat import ThreatModel, local_resources
from tune_tickets.attacks.victim import Victim
from tune_tickets.attacks.visible import clean, split_visible
from tune_tickets.errors import ConfigError, DataError, ResourceError, TicketsError

__all__ = ["AttackRecord", "AttackRow", "attack_rows"]

_STATUS: dict[str, Status] = {
    "FailedAttackResult": "failed",
    "SuccessfulAttackResult": "successful",
    "SkippedAttackResult": "skipped",
}


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
) -> list[AttackRecord]:
    """Attack every row and return one record per row, in order; if one attack breaks, the whole call does."""
    from tune_tickets.attacks.recipes import begin_row, build_attack  # imports TextAttack, which takes seconds

    _check(rows, threat, columns, attacked, labels)
    column = columns.index(attacked)
    attack = build_attack(victim, threat, column, query_budget or threat.query_budget)
    records = []
    with _own_randomness():
        for row in rows:
            begin_row(attack, _reseed(seed, row.index))
            try:
                records.append(_attack_row(attack, victim, row, columns, column, len(labels)))
            except Exception as error:
                raise TicketsError(
                    f"attack {threat.name} broke on row {row.index} ({type(error).__name__}: {error}); "
                    "no figure is given, since it would leave this row out"
                ) from error
            if progress is not None:
                progress(len(records), len(rows))
    return records


def _check(
    rows: Sequence[AttackRow], threat: ThreatModel, columns: tuple[str, ...], attacked: str, labels: tuple[str, ...]
) -> None:
    if attacked not in columns:
        raise ConfigError(f"the attacked column {attacked!r} is not one of the text columns {columns}")
    for row in rows:
        if len(row.texts) != len(columns) or not 0 <= row.label < len(labels):
            raise DataError(
                f"row {row.index} has {len(row.texts)} texts and label {row.label}; expected are "
                f"{len(columns)} texts and a label from 0 to {len(labels) - 1}"
            )
    here = local_resources()
    if here != threat.resources:
        changed = sorted(name for name in here if here[name] != threat.resources.get(name))
        raise ResourceError(
            f"threat model {threat.name} was named with other resources than this process has ({', '.join(changed)}): "
            "install the same packages and set the same environment variables on every node"
        )


def _attack_row(
    attack: Any,  # noqa: ANN401 - textattack.Attack
    victim: Victim,
    row: AttackRow,
    columns: tuple[str, ...],
    column: int,
    classes: int,
) -> AttackRecord:
    texts = tuple(clean(text) for text in row.texts)
    visible, rest = zip(*(split_visible(text, victim.max_length) for text in texts), strict=True)
    result = attack.attack(OrderedDict(zip(columns, visible, strict=True)), int(row.label))
    before, after = result.original_result, result.perturbed_result
    if len(before.raw_output) != classes:
        raise ConfigError(f"the model has {len(before.raw_output)} classes, the task {classes}")
    changed = after.attacked_text.tokenizer_input
    changed = (changed,) if isinstance(changed, str) else changed
    perturbed = tuple(head + tail for head, tail in zip(changed, rest, strict=True))
    status = _STATUS[type(result).__name__]
    similarity = None
    if status != "skipped":
        [similarity] = load_encoder(victim.model.device).similarity(texts[column], [perturbed[column]])
    return AttackRecord(
        index=row.index,
        texts=texts,
        perturbed_texts=perturbed,
        label=int(row.label),
        prediction=int(before.output),
        perturbed_prediction=int(after.output),
        status=status,
        queries=int(result.num_queries),
        words_changed=_words_changed(before.attacked_text.words, after.attacked_text.words, rest),
        similarity=similarity,
    )


def _words_changed(before: list[str], after: list[str], rest: tuple[str, ...]) -> float:
    # As TextAttack's metric, but aligned: a space put into a word does not make all later words count as changed.
    same = sum(block.size for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks())
    total = len(before) + sum(len(tail.split()) for tail in rest)
    return 100 * (len(before) - same) / total if total else 0.0


def _reseed(seed: int, index: int) -> int:
    """Seed all generators from (seed, index); the number returned is for the attack itself."""
    for_random, for_numpy, for_torch, for_attack = np.random.SeedSequence([seed, index]).generate_state(4).tolist()
    random.seed(for_random)
    np.random.seed(for_numpy)
    torch.manual_seed(for_torch)
    return int(for_attack)


@contextmanager
def _own_randomness() -> Iterator[None]:
    # The caller's generators go on where they were.
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
