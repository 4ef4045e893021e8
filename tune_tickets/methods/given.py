"""What the driver puts into the store before the first trial, so that every worker reads the same data.

These are the rows of tasks and twins, plain texts, word vectors, and the masks of given tickets. Report rows are left
out: no stage of a search can see them.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load, save

from tune_tickets.config import Settings
from tune_tickets.config.task import TASK
from tune_tickets.data.bias import WordVectors, read_vectors, words_of
from tune_tickets.data.corpus import read_corpus, sample_texts
from tune_tickets.data.ood import TwinData, TwinExample
from tune_tickets.data.task import Example, TaskData
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.quarantine import whole
from tune_tickets.engine.stage import Stage, StageKey, StageResult, digest_of
from tune_tickets.engine.store import Store
from tune_tickets.errors import DataError
from tune_tickets.methods.stages import MASK_FILE, Corpus, Draw, OodTrain, Rows, Twin, Vectors
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import Mask

_ROWS_FILE, _TEXTS_FILE = "rows.json", "texts.json"
_WORDS_FILE, _MATRIX_FILE = "words.json", "vectors.safetensors"


@dataclass(frozen=True)
class TaskRows:
    """What a stage may know about a task."""

    train: tuple[Example, ...]
    select: tuple[Example, ...]
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    attacked: str


@dataclass(frozen=True)
class TwinRows:
    """What a stage may know about a twin. The fields are those of `TwinData`."""

    name: str
    rows: tuple[TwinExample, ...]
    labels: tuple[str, ...]
    answers: tuple[int | None, ...]
    metric: Literal["accuracy", "weighted_f1"]
    restrict: bool


def rows_stage(data: TaskData) -> Stage:
    """The rows of a search as a stage, identified by their fingerprint."""
    return Rows(fingerprint=data.fingerprint, columns=list(data.columns), attacked=data.attacked)


def keep_rows(store: Store, data: TaskData) -> None:
    """Put the rows of a search into the store, unless they are there."""
    rows = {
        "train": _listed(data.train),
        "select": _listed(data.select),
        "labels": list(data.labels),
        "columns": list(data.columns),
        "attacked": data.attacked,
    }
    _put(store, rows_stage(data), {"train": len(data.train), "select": len(data.select)}, {_ROWS_FILE: rows})


def load_rows(context: StageContext) -> TaskRows:
    """The rows of the task of a stage."""
    return read_rows(context.store, context.upstream("data"))


def read_rows(store: Store, kept: StageResult) -> TaskRows:
    """The rows that `keep_rows` has put into the store."""
    rows = json.loads(store.read(kept, _ROWS_FILE))
    return TaskRows(
        train=_examples(rows["train"]),
        select=_examples(rows["select"]),
        labels=tuple(rows["labels"]),
        columns=tuple(rows["columns"]),
        attacked=rows["attacked"],
    )


def twin_stage(twin: TwinData) -> Stage:
    """The select rows of a twin as a stage, with the rules for answers on it."""
    return Twin(
        twin=twin.name,
        fingerprint=twin.fingerprint,
        answers=list(twin.answers),
        metric=twin.metric,
        restrict=twin.restrict,
    )


def ood_train_stage(rows: Sequence[Example]) -> Stage:
    """The rows of twins to train on as a stage, identified by their content."""
    return OodTrain(fingerprint=digest_of(_listed(rows)))


def keep_twins(store: Store, data: TaskData) -> None:
    """Put the rows of all twins into the store, unless they are there."""
    for twin in data.ood:
        stage = twin_stage(twin)
        rows = [[list(row.texts), row.label, row.group] for row in twin.select]
        content = {**stage.inputs, "labels": list(twin.labels), "rows": rows}
        _put(store, stage, {"rows": len(rows)}, {_ROWS_FILE: content})
    if data.ood_train:
        rows = _listed(data.ood_train)
        _put(store, ood_train_stage(data.ood_train), {"rows": len(rows)}, {_ROWS_FILE: {"rows": rows}})


def load_twin_rows(context: StageContext) -> TwinRows:
    """The twin that a stage measures on."""
    kept = json.loads(context.store.read(context.upstream("twin"), _ROWS_FILE))
    return TwinRows(
        name=kept["name"],
        rows=tuple(TwinExample(tuple(texts), label, group) for texts, label, group in kept["rows"]),
        labels=tuple(kept["labels"]),
        answers=tuple(kept["answers"]),
        metric=kept["metric"],
        restrict=kept["restrict"],
    )


def load_ood_train(context: StageContext) -> tuple[Example, ...]:
    """The rows of twins that a stage trains on, with the labels of the task."""
    return _examples(json.loads(context.store.read(context.upstream("ood_train"), _ROWS_FILE))["rows"])


def task_words(rows: Iterable[Example]) -> set[str]:
    """All words of some rows."""
    return {word for row in rows for text in row.texts for word in words_of(text)}


def task_vectors(path: str, data: TaskData) -> WordVectors:
    """The vectors that a file has for the words of a search."""
    return read_vectors(path, task_words((*data.train, *data.select)))


def vectors_stage(vectors: WordVectors) -> Stage:
    """The vectors as a stage, identified by their content."""
    content = hashlib.sha256(json.dumps(vectors.words).encode() + np.ascontiguousarray(vectors.matrix).tobytes())
    return Vectors(fingerprint=content.hexdigest())


def keep_vectors(store: Store, vectors: WordVectors) -> None:
    """Put the vectors into the store, unless they are there."""
    matrix = save({"matrix": torch.from_numpy(vectors.matrix)})
    files = {_WORDS_FILE: vectors.words, _MATRIX_FILE: matrix}
    _put(store, vectors_stage(vectors), {"words": len(vectors.words)}, files)


def load_vectors(context: StageContext) -> WordVectors:
    """The vectors of a stage."""
    stored = context.upstream("vectors")
    words = tuple(json.loads(context.store.read(stored, _WORDS_FILE)))
    return WordVectors(words, load(context.store.read(stored, _MATRIX_FILE))["matrix"].numpy())


def corpus_texts(settings: Settings, train: tuple[Example, ...]) -> tuple[str, ...]:
    """The texts for `evaluation.masked_lm`. Those held out come first.

    Raises:
        DataError: there are not more texts than are held out.
    """
    wanted = settings.evaluation.masked_lm
    source = (text for row in train for text in row.texts) if wanted.corpus == TASK else read_corpus(wanted.corpus)
    texts = sample_texts(source, wanted.rows + wanted.held_out, settings.seed)
    if len(texts) <= wanted.held_out:
        raise DataError(
            f"evaluation.masked_lm: the corpus {wanted.corpus!r} has {len(texts)} different texts, and "
            f"{wanted.held_out} are held out to measure on. Lower evaluation.masked_lm.held_out or bring more texts."
        )
    return texts


def corpus_stage(texts: tuple[str, ...]) -> Stage:
    """The texts as a stage, identified by their content."""
    return Corpus(fingerprint=digest_of(texts))


def keep_corpus(store: Store, texts: tuple[str, ...]) -> None:
    """Put the texts into the store, unless they are there."""
    _put(store, corpus_stage(texts), {"texts": len(texts)}, {_TEXTS_FILE: texts})


def load_corpus(context: StageContext) -> list[str]:
    """The texts of a stage."""
    texts: list[str] = json.loads(context.store.read(context.upstream("corpus"), _TEXTS_FILE))
    return texts


def mask_key(mask: Mask) -> StageKey:
    """The key of a given mask, identified by its bits."""
    return StageKey("draw", _mask_stage(mask).digest, mask.digest())


def keep_mask(store: Store, mask: Mask) -> None:
    """Put a given mask into the store, unless it is there."""
    record = {"structured": isinstance(mask, StructuredMask)}
    _put(store, _mask_stage(mask), record, {MASK_FILE: mask.to_bytes()}, mask.digest())


def _mask_stage(mask: Mask) -> Stage:
    return Draw(kind="given", mask=mask.digest())


def _put(store: Store, stage: Stage, record: dict[str, Any], files: dict[str, Any], content: str | None = None) -> None:
    """Write a stage with its files, which hold bytes or anything that JSON can hold, unless it is there."""
    if not whole(store, stage):
        attempt = store.begin(stage)
        for file, value in files.items():
            attempt.put(file, value if isinstance(value, bytes) else json.dumps(value).encode())
        attempt.finish(record, seconds=0.0, content=content)


def _listed(rows: Iterable[Example]) -> list[list[Any]]:
    return [[list(row.texts), row.label] for row in rows]


def _examples(rows: list[tuple[list[str], int]]) -> tuple[Example, ...]:
    return tuple(Example(tuple(texts), label) for texts, label in rows)
