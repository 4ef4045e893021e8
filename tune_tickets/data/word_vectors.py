"""Words of a text, and their vectors: from a fastText text file, or put together elsewhere."""

import gzip
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tune_tickets.errors import DataError, ResourceError

Array = NDArray[np.float64]
_WORD = re.compile(r"\w+(?:['’]\w+)*")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; punctuation is no word."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each of some words: `matrix` is [words, width]."""

    words: tuple[str, ...]
    matrix: Array
    _rows: dict[str, int] = field(init=False, repr=False)
    _directions: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        object.__setattr__(self, "_rows", {word: row for row, word in enumerate(self.words)})
        object.__setattr__(self, "_directions", self.matrix / np.maximum(lengths, 1e-12))

    def best_cosines(self, words: Sequence[str], others: Sequence[str]) -> Array:
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

    def max_pooled(self, words: Iterable[str]) -> Array:
        """The greatest value of each coordinate over the words that have a vector; zeros if none has."""
        rows = [self._rows[word] for word in words if word in self._rows]
        return self.matrix[rows].max(axis=0) if rows else np.zeros(self.matrix.shape[1])


def read_vectors(path: str, wanted: Collection[str]) -> WordVectors:
    """The vectors of the wanted words, out of a text file with a word and its numbers on each line."""
    found: dict[str, Array] = {}
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
