"""Bias models: features that give the label away without understanding the text, and a classifier on them."""

import gzip
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from tune_tickets.config.training import BiasModel
from tune_tickets.errors import DataError, ResourceError

_Array = NDArray[np.float64]
_WORD = re.compile(r"\w+(?:['’]\w+)*")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; punctuation is no word."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each of some words: `matrix` is [words, width]."""

    words: tuple[str, ...]
    matrix: _Array
    _rows: dict[str, int] = field(init=False, repr=False)
    _directions: _Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        object.__setattr__(self, "_rows", {word: row for row, word in enumerate(self.words)})
        object.__setattr__(self, "_directions", self.matrix / np.maximum(lengths, 1e-12))

    def best_cosines(self, words: Sequence[str], others: Sequence[str]) -> _Array:
        """Of each word the cosine with the most similar of the others.

        A word is like itself even without a vector; a word without a vector is like no other word (0).
        """
        best = np.array([float(word in others) for word in words])
        having = [place for place, word in enumerate(words) if word in self._rows]
        compared = [self._rows[word] for word in others if word in self._rows]
        if having and compared:
            own = self._directions[[self._rows[words[place]] for place in having]]
            best[having] = (own @ self._directions[compared].T).max(axis=1)
        return best

    def max_pooled(self, words: Iterable[str]) -> _Array:
        """The greatest value of each coordinate over the words that have a vector; zeros if none has."""
        rows = [self._rows[word] for word in words if word in self._rows]
        return self.matrix[rows].max(axis=0) if rows else np.zeros(self.matrix.shape[1])


def read_vectors(path: str, wanted: Collection[str]) -> WordVectors:
    """The vectors of the wanted words, out of a text file with a word and its numbers on each line."""
    found: dict[str, _Array] = {}
    try:
        for number, line in enumerate(_lines(Path(path).expanduser())):
            word, _, numbers = line.rstrip().partition(" ")
            if word in wanted and word not in found and " " in numbers:  # the first line may be two counts
                found[word] = np.array(numbers.split(), dtype=np.float64)
                if len(found[word]) != len(next(iter(found.values()))):
                    raise DataError(f"{path}, line {number + 1}: {word!r} has a vector of another length; {_REMEDY}")
    except (OSError, EOFError, zlib.error) as error:
        raise ResourceError(
            f"the word vectors {path!r} cannot be read ({error}); check the path, and that the file is whole"
        ) from None
    except ValueError as error:
        raise DataError(f"{path} is no text file of word vectors ({error}); {_REMEDY}") from None
    if not found:
        raise DataError(f"{path} has a vector for none of the task's words; {_REMEDY}")
    words = tuple(sorted(found))
    return WordVectors(words, np.stack([found[word] for word in words]))


_REMEDY = "take a .vec file of fastText, plain or .gz, in the language of the task"


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        yield from stream


_OVERLAP = ("all-in", "sub-sequence", "percent-in", "mean-similarity", "min-similarity")
_FURTHER = ("log-length-difference", "second-min-similarity")


def bias_features(
    settings: BiasModel, columns: tuple[str, ...], texts: Sequence[tuple[str, ...]], vectors: WordVectors | None
) -> _Array:
    """The features of every row, [rows, features]."""
    if settings.features == "marker":
        return np.array([markers_in(row, settings.markers or ()) for row in texts])
    assert vectors is not None
    place = len(columns) - 1 if settings.column is None else columns.index(settings.column)
    if settings.features == "claim":
        return np.stack([vectors.max_pooled(words_of(row[place])) for row in texts])
    width = len(_OVERLAP + _FURTHER) if settings.further else len(_OVERLAP)
    pairs = ((words_of(row[1 - place]), words_of(row[place])) for row in texts)
    return np.array([overlap(premise, hypothesis, vectors)[:width] for premise, hypothesis in pairs])


def overlap(premise: Sequence[str], hypothesis: Sequence[str], vectors: WordVectors) -> tuple[float, ...]:
    """The features `_OVERLAP` and `_FURTHER` of a pair; all 0 for a hypothesis without words."""
    if not hypothesis:
        return (0.0,) * len(_OVERLAP + _FURTHER)
    there = set(premise)
    shared = sum(word in there for word in hypothesis)
    similarities = np.sort(vectors.best_cosines(hypothesis, premise))
    return (
        float(shared == len(hypothesis)),
        float(is_subsequence(hypothesis, premise)),
        shared / len(hypothesis),
        float(similarities.mean()),
        float(similarities[0]),
        float(np.log(max(len(premise) - len(hypothesis), 1))),
        float(similarities[1]) if len(similarities) > 1 else 0.0,
    )


def is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether the words of `part` stand in `whole` one right after the other."""
    length = len(part)
    return any(whole[start : start + length] == part for start in range(len(whole) - length + 1))


def markers_in(texts: tuple[str, ...], markers: Sequence[str]) -> tuple[float, ...]:
    """For every marker 1.0 if it stands in one of the texts, between white space, else 0.0."""
    tokens = {token.casefold() for text in texts for token in text.split()}
    return tuple(float(marker.casefold() in tokens) for marker in markers)


_Labels = NDArray[np.int64]
_ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A bias model, and its log-probabilities [rows, labels] of the rows it was fitted on."""

    regression: LogisticRegression
    log_probabilities: _Array

    def accuracy(self, features: _Array, labels: _Labels) -> float:
        """Percent of the rows whose label the features give away."""
        return 100.0 * float((self.regression.predict(features) == labels).mean())


def fit_bias_model(features: _Array, labels: _Labels, names: Sequence[str], folds: int | None, seed: int) -> _Fitted:
    """Fit on all rows. With `folds`, the prediction for a row is that of a model fitted without its fold."""
    _check(labels, names, folds)
    regression = _fit(features, labels)
    if folds is None:
        return _Fitted(regression, regression.predict_log_proba(features))
    log_probabilities = np.empty((len(labels), len(names)))
    for rest, fold in StratifiedKFold(folds, shuffle=True, random_state=seed).split(features, labels):
        log_probabilities[fold] = _fit(features[rest], labels[rest]).predict_log_proba(features[fold])
    return _Fitted(regression, log_probabilities)


def _fit(features: _Array, labels: _Labels) -> LogisticRegression:
    return LogisticRegression(max_iter=_ITERATIONS).fit(features, labels)


def _check(labels: _Labels, names: Sequence[str], folds: int | None) -> None:
    counts = np.bincount(labels, minlength=len(names))
    rarest = int(counts.argmin())
    if counts[rarest] < (folds or 1):
        raise DataError(
            f"label {names[rarest]!r} has {counts[rarest]} training rows, which is too few for a bias model"
            + ("" if folds is None else f" in {folds} folds; lower debiasing.bias.folds or bring more rows")
        )
