"""Substitutes for a word: its nearest whole-word vocabulary entries that keep the polarity and fit the slot."""

from collections.abc import Mapping
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


class Substitutes(Protocol):
    """Whoever knows what may stand in the place of a word."""

    def of(self, word: str) -> tuple[str, ...]:
        """The substitutes of a lower-case word, nearest first."""
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


class Neighbours:
    """Nearest words by cosine of the encoder's input embeddings, found when first asked for."""

    def __init__(self, encoder: SentenceEncoder, min_cosine: float) -> None:
        rows = {word: row for word, row in encoder.vocabulary().items() if _is_whole_word(word)}
        self._words = tuple(sorted(rows, key=rows.__getitem__))
        self._position = {word: position for position, word in enumerate(self._words)}
        self._vectors = encoder.word_vectors()[torch.tensor([rows[word] for word in self._words])]
        self._min_cosine = min_cosine
        self._found: dict[str, tuple[str, ...]] = {}

    def of(self, word: str) -> tuple[str, ...]:
        """The substitutes of a lower-case word, nearest first; none for a protected or unknown word."""
        if word not in self._found:
            self._found[word] = self._search(word)
        return self._found[word]

    def _search(self, word: str) -> tuple[str, ...]:
        position = self._position.get(word)
        if position is None or is_protected(word):
            return ()
        cosines, positions = torch.topk(self._vectors @ self._vectors[position], _CONSIDERED)
        near = positions[cosines >= self._min_cosine].tolist()
        return tuple(self._words[other] for other in near if is_substitute(word, self._words[other]))


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
