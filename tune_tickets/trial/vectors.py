"""The word vectors of a file in the store, those of the task's words only: no worker has to have the file."""

import hashlib
import json
from collections.abc import Iterable

import numpy as np
import torch
from safetensors.torch import load, save

from tune_tickets.data.bias import WordVectors, read_vectors, words_of
from tune_tickets.data.task import Example, TaskData
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.quarantine import whole
from tune_tickets.engine.stage import Stage
from tune_tickets.engine.store import Store

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
    return Stage("vectors", {"fingerprint": content.hexdigest()})


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
