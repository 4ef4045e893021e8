"""What the driver puts into the store before the first trial, so that every worker sees the same.

Rows of tasks and twins, plain texts, word vectors, masks of given tickets. Report rows are left out: no stage of a
search can see them.
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

_FILE = "rows.json"


@dataclass(frozen=True)
class TaskRows:
    """What a stage may know of a task."""

    train: tuple[Example, ...]
    select: tuple[Example, ...]
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    attacked: str


def rows_stage(data: TaskData) -> Stage:
    """The rows a search sees, as a stage: their fingerprint is their identity."""
    return Rows(fingerprint=data.fingerprint, columns=list(data.columns), attacked=data.attacked)


def keep_rows(store: Store, data: TaskData) -> None:
    """Put the rows of a search into the store, unless they are there."""
    stage = rows_stage(data)
    if whole(store, stage):
        return
    attempt = store.begin(stage)
    rows = {
        "train": [[list(row.texts), row.label] for row in data.train],
        "select": [[list(row.texts), row.label] for row in data.select],
        "labels": list(data.labels),
        "columns": list(data.columns),
        "attacked": data.attacked,
    }
    attempt.put(_FILE, json.dumps(rows).encode())
    attempt.finish({"train": len(data.train), "select": len(data.select)}, seconds=0.0)


def load_rows(context: StageContext) -> TaskRows:
    """The rows a stage works on."""
    return read_rows(context.store, context.upstream("data"))


def read_rows(store: Store, kept: StageResult) -> TaskRows:
    """The rows that `keep_rows` has put into the store."""
    rows = json.loads(store.read(kept, _FILE))
    return TaskRows(
        train=_examples(rows["train"]),
        select=_examples(rows["select"]),
        labels=tuple(rows["labels"]),
        columns=tuple(rows["columns"]),
        attacked=rows["attacked"],
    )


def _examples(rows: list[tuple[list[str], int]]) -> tuple[Example, ...]:
    return tuple(Example(tuple(texts), label) for texts, label in rows)


_TWINS_FILE = "rows.json"


@dataclass(frozen=True)
class TwinRows:
    """What a stage may know of a twin; the fields are those of `TwinData`."""

    name: str
    rows: tuple[TwinExample, ...]
    labels: tuple[str, ...]
    answers: tuple[int | None, ...]
    metric: Literal["accuracy", "weighted_f1"]
    restrict: bool


def twin_stage(twin: TwinData) -> Stage:
    """The select rows of a twin as a stage, with the rules by which models answer on it."""
    return Twin(
        twin=twin.name,
        fingerprint=twin.fingerprint,
        answers=list(twin.answers),
        metric=twin.metric,
        restrict=twin.restrict,
    )


def ood_train_stage(rows: Sequence[Example]) -> Stage:
    """The rows of twins to train on as a stage: what they hold is their identity."""
    return OodTrain(fingerprint=digest_of([[list(row.texts), row.label] for row in rows]))


def keep_twins(store: Store, data: TaskData) -> None:
    """Put the rows of all twins into the store, unless they are there."""
    for twin in data.ood:
        stage = twin_stage(twin)
        rows = [[list(row.texts), row.label, row.group] for row in twin.select]
        _keep(store, stage, {**stage.inputs, "labels": list(twin.labels), "rows": rows})
    if data.ood_train:
        trained = [[list(row.texts), row.label] for row in data.ood_train]
        _keep(store, ood_train_stage(data.ood_train), {"rows": trained})


def load_twin_rows(context: StageContext) -> TwinRows:
    """The twin a stage measures on."""
    kept = json.loads(context.store.read(context.upstream("twin"), _TWINS_FILE))
    return TwinRows(
        name=kept["name"],
        rows=tuple(TwinExample(tuple(texts), label, group) for texts, label, group in kept["rows"]),
        labels=tuple(kept["labels"]),
        answers=tuple(kept["answers"]),
        metric=kept["metric"],
        restrict=kept["restrict"],
    )


def load_ood_train(context: StageContext) -> tuple[Example, ...]:
    """The rows of twins a stage trains on, under the task's labels."""
    kept = json.loads(context.store.read(context.upstream("ood_train"), _TWINS_FILE))
    return tuple(Example(tuple(texts), label) for texts, label in kept["rows"])


def _keep(store: Store, stage: Stage, content: dict[str, Any]) -> None:
    if not whole(store, stage):
        attempt = store.begin(stage)
        attempt.put(_TWINS_FILE, json.dumps(content).encode())
        attempt.finish({"rows": len(content["rows"])}, seconds=0.0)


_WORDS_FILE = "words.json"
_MATRIX_FILE = "vectors.safetensors"


def task_words(rows: Iterable[Example]) -> set[str]:
    """All words of some rows."""
    return {word for row in rows for text in row.texts for word in words_of(text)}


def task_vectors(path: str, data: TaskData) -> WordVectors:
    """What a file says of the words that a search sees."""
    return read_vectors(path, task_words((*data.train, *data.select)))


def vectors_stage(vectors: WordVectors) -> Stage:
    """The vectors as a stage: their content is their identity."""
    content = hashlib.sha256(json.dumps(vectors.words).encode() + np.ascontiguousarray(vectors.matrix).tobytes())
    return Vectors(fingerprint=content.hexdigest())


def keep_vectors(store: Store, vectors: WordVectors) -> None:
    """Put the vectors into the store, unless they are there."""
    stage = vectors_stage(vectors)
    if not whole(store, stage):
        attempt = store.begin(stage)
        attempt.put(_WORDS_FILE, json.dumps(vectors.words).encode())
        attempt.put(_MATRIX_FILE, save({"matrix": torch.from_numpy(vectors.matrix)}))
        attempt.finish({"words": len(vectors.words)}, seconds=0.0)


def load_vectors(context: StageContext) -> WordVectors:
    """The vectors a stage works with."""
    stored = context.upstream("vectors")
    words = tuple(json.loads(context.store.read(stored, _WORDS_FILE)))
    return WordVectors(words, load(context.store.read(stored, _MATRIX_FILE))["matrix"].numpy())


_CORPUS_FILE = "texts.json"


def corpus_texts(settings: Settings, train: tuple[Example, ...]) -> tuple[str, ...]:
    """The texts that `evaluation.masked_lm` asks for, those held out first."""
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
    """The texts as a stage: their content is their identity."""
    return Corpus(fingerprint=digest_of(texts))


def keep_corpus(store: Store, texts: tuple[str, ...]) -> None:
    """Put the texts into the store, unless they are there."""
    stage = corpus_stage(texts)
    if not whole(store, stage):
        attempt = store.begin(stage)
        attempt.put(_CORPUS_FILE, json.dumps(texts).encode())
        attempt.finish({"texts": len(texts)}, seconds=0.0)


def load_corpus(context: StageContext) -> list[str]:
    """The texts a stage works on."""
    texts: list[str] = json.loads(context.store.read(context.upstream("corpus"), _CORPUS_FILE))
    return texts


def mask_key(mask: Mask) -> StageKey:
    """Where a given mask lies, and its bits as its identity."""
    return StageKey("draw", _stage(mask).digest, mask.digest())


def keep_mask(store: Store, mask: Mask) -> None:
    """Put a given mask into the store, unless it is there."""
    stage = _stage(mask)
    if whole(store, stage):
        return
    attempt = store.begin(stage)
    attempt.put(MASK_FILE, mask.to_bytes())
    attempt.finish({"structured": isinstance(mask, StructuredMask)}, seconds=0.0, content=mask.digest())


def _stage(mask: Mask) -> Stage:
    return Draw(kind="given", mask=mask.digest())
