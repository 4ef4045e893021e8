"""Bias models: classifiers on features that predict the label without an understanding of the text."""

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
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors: row i of `matrix` [words, width] belongs to word i."""

    words: tuple[str, ...]
    matrix: _Array
    _rows: dict[str, int] = field(init=False, repr=False)
    _directions: _Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        object.__setattr__(self, "_rows", {word: row for row, word in enumerate(self.words)})
        object.__setattr__(self, "_directions", self.matrix / np.maximum(lengths, 1e-12))

    def best_cosines(self, words: Sequence[str], others: Sequence[str]) -> _Array:
        """Return, for each word, its cosine with the most similar of the others.

        A word without a vector has cosine 1 with itself and 0 with any other word.
        """
        best = np.array([float(word in others) for word in words])
        having = [place for place, word in enumerate(words) if word in self._rows]
        compared = [self._rows[word] for word in others if word in self._rows]
        if having and compared:
            own = self._directions[[self._rows[words[place]] for place in having]]
            best[having] = (own @ self._directions[compared].T).max(axis=1)
        return best

    def max_pooled(self, words: Iterable[str]) -> _Array:
        """Return the maximum of each coordinate over the words that have a vector, or zeros if none has one."""
        rows = [self._rows[word] for word in words if word in self._rows]
        return self.matrix[rows].max(axis=0) if rows else np.zeros(self.matrix.shape[1])


def read_vectors(path: str, wanted: Collection[str]) -> WordVectors:
    """Read the vectors of the wanted words from a text file with one word and its numbers per line.

    Raises:
        ResourceError: the file is missing or incomplete.
        DataError: the content is not word vectors, or none of the words has one.
    """
    found: dict[str, _Array] = {}
    try:
        for number, line in enumerate(_lines(Path(path).expanduser())):
            word, _, numbers = line.rstrip().partition(" ")
            if word in wanted and word not in found and " " in numbers:  # the first line may hold two counts
                found[word] = np.array(numbers.split(), dtype=np.float64)
                if len(found[word]) != len(next(iter(found.values()))):
                    raise DataError(f"{path}, line {number + 1}: {word!r} has a vector of different length; {_REMEDY}")
    except (OSError, EOFError, zlib.error) as error:
        raise ResourceError(
            f"the word vectors {path!r} cannot be read ({error}); check the path, and that the file is complete"
        ) from None
    except ValueError as error:
        raise DataError(f"{path} is not a text file of word vectors ({error}); {_REMEDY}") from None
    if not found:
        raise DataError(f"{path} has no vector for any word of the task; {_REMEDY}")
    words = tuple(sorted(found))
    return WordVectors(words, np.stack([found[word] for word in words]))


_REMEDY = "use a .vec or .vec.gz file of fastText in the language of the task"


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        yield from stream


_OVERLAP = ("all-in", "sub-sequence", "percent-in", "mean-similarity", "min-similarity")
_FURTHER = ("log-length-difference", "second-min-similarity")


def bias_features(
    settings: BiasModel, columns: tuple[str, ...], texts: Sequence[tuple[str, ...]], vectors: WordVectors | None
) -> _Array:
    """Return the features of every row, [rows, features]. `vectors` may be None only for marker features."""
    if settings.features == "marker":
        return np.array([markers_in(row, settings.markers or ()) for row in texts])
    assert vectors is not None
    place = len(columns) - 1 if settings.column is None else columns.index(settings.column)
    if settings.features == "claim":
        return np.stack([vectors.max_pooled(words_of(row[place])) for row in texts])
    width = len(_OVERLAP + _FURTHER) if settings.further else len(_OVERLAP)
    pairs = ((words_of(row[1 - place]), words_of(row[place])) for row in texts)
    return np.array([_overlap(premise, hypothesis, vectors)[:width] for premise, hypothesis in pairs])


def _overlap(premise: Sequence[str], hypothesis: Sequence[str], vectors: WordVectors) -> tuple[float, ...]:
    """Return the features `_OVERLAP` and `_FURTHER` of a pair; all are 0 if the hypothesis has no words."""
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
    """Whether `part` is a contiguous part of `whole`."""
    length = len(part)
    return any(whole[start : start + length] == part for start in range(len(whole) - length + 1))


def markers_in(texts: tuple[str, ...], markers: Sequence[str]) -> tuple[float, ...]:
    """Return, for every marker, 1.0 if it occurs in a text as a token between white space, else 0.0."""
    tokens = {token.casefold() for text in texts for token in text.split()}
    return tuple(float(marker.casefold() in tokens) for marker in markers)


_Labels = NDArray[np.int64]
_ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A bias model, and its log-probabilities [rows, labels] for the training rows."""

    regression: LogisticRegression
    log_probabilities: _Array

    def accuracy(self, features: _Array, labels: _Labels) -> float:
        """Return the percentage of rows whose label is predicted from the features alone."""
        return 100.0 * float((self.regression.predict(features) == labels).mean())


def fit_bias_model(features: _Array, labels: _Labels, names: Sequence[str], folds: int | None, seed: int) -> _Fitted:
    """Fit a logistic regression on all rows.

    With `folds`, the log-probabilities of a row come from a model that was fitted without the fold of this row.

    Raises:
        DataError: a label has too few rows.
    """
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
            f"label {names[rarest]!r} has {counts[rarest]} training rows, too few for a bias model"
            + ("" if folds is None else f" in {folds} folds; lower debiasing.bias.folds or add rows")
        )
