"""Substitutes for a word: its nearest whole-word vocabulary entries that keep the polarity and fit the slot."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Protocol

import torch

from tune_tickets.attacks.antonyms import opposed
from tune_tickets.attacks.encoder import SentenceEncoder
from tune_tickets.attacks.polarity import polarity
from tune_tickets.attacks.protected import is_protected
from tune_tickets.attacks.word_forms import inflections, lemmas

_SHORTEST_WORD = 3
_CONSIDERED = 100
_AT_ONCE = 256


class Substitutes(Protocol):
    """Whoever knows what may stand in the place of a word."""

    def of(self, word: str) -> tuple[str, ...]:
        """The substitutes of a lower-case word, nearest first."""
        ...

    def prepare(self, words: Iterable[str]) -> None:
        """Be told which words will be asked for."""
        ...


class ListedNeighbours:
    """Counter-fitted neighbours from lists: antonyms were driven apart when the vectors were made."""

    def __init__(self, lists: Mapping[str, tuple[str, ...]]) -> None:
        self._lists = lists

    def of(self, word: str) -> tuple[str, ...]:
        """The listed neighbours that fit the slot of the word."""
        if is_protected(word):
            return ()
        return tuple(near for near in self._lists.get(word, ()) if near != word and fits_slot(word, near))

    def prepare(self, words: Iterable[str]) -> None:
        """Nothing: a list is at hand."""


class Neighbours:
    """Nearest words by cosine of the encoder's input embeddings, found when first asked for."""

    def __init__(self, encoder: SentenceEncoder, min_cosine: float) -> None:
        rows = {word: row for word, row in encoder.vocabulary().items() if _is_whole_word(word)}
        self._words = tuple(sorted(rows, key=rows.__getitem__))
        self._position = {word: position for position, word in enumerate(self._words)}
        # In float64 a cosine does not depend on which words are looked up together.
        self._vectors = encoder.word_vectors()[torch.tensor([rows[word] for word in self._words])].double()
        self._min_cosine = min_cosine
        self._found: dict[str, tuple[str, ...]] = {}

    def of(self, word: str) -> tuple[str, ...]:
        """The substitutes of a lower-case word, nearest first; none for a protected or unknown word."""
        if word not in self._found:
            self.prepare([word])
        return self._found[word]

    def prepare(self, words: Iterable[str]) -> None:
        """Look up many words at once, which costs little more than looking up one."""
        new = [word for word in dict.fromkeys(words) if word not in self._found]
        self._found.update(dict.fromkeys(new, ()))
        known = [word for word in new if word in self._position and not is_protected(word)]
        for start in range(0, len(known), _AT_ONCE):
            self._search(known[start : start + _AT_ONCE])

    def _search(self, words: list[str]) -> None:
        asked = self._vectors[torch.tensor([self._position[word] for word in words])]
        cosines, positions = torch.topk(asked @ self._vectors.T, min(_CONSIDERED, len(self._words)))
        for word, values, others in zip(words, cosines.tolist(), positions.tolist(), strict=True):
            near = [
                self._words[other] for value, other in zip(values, others, strict=True) if value >= self._min_cosine
            ]
            self._found[word] = tuple(other for other in near if is_substitute(word, other))


@cache
def is_substitute(word: str, candidate: str) -> bool:
    """Whether the candidate is another form of the word, or another word that fits its slot without opposing it."""
    return (
        candidate != word
        and fits_slot(word, candidate)
        and polarity(word) == polarity(candidate)
        and not opposed(word, candidate)
    )


@cache
def fits_slot(word: str, candidate: str) -> bool:
    """Whether the candidate may carry a tag that the word may carry, or is another form of it; never protected ones."""
    return not is_protected(candidate) and bool(
        inflections(word) & inflections(candidate) or lemmas(word) & lemmas(candidate)
    )


def _is_whole_word(token: str) -> bool:
    return token.isascii() and token.isalpha() and len(token) >= _SHORTEST_WORD
