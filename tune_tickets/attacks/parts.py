"""Parts of an attack for TextAttack: our own, then those of the stock recipes on resolved resources.

Importing this module imports TextAttack.
"""

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch

from tune_tickets.attacks.lockstep import Channel
from tune_tickets.attacks.neighbours import SentenceEncoder, Substitutes
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.toolkit import import_textattack
from tune_tickets.attacks.victim import SEPARATOR
from tune_tickets.attacks.word_resources import counter_fitted, pos_tags, wordnet
from tune_tickets.attacks.word_rules import is_protected, stop_words
from tune_tickets.errors import ResourceError

import_textattack()

from textattack.constraints import Constraint, PreTransformationConstraint  # noqa: E402
from textattack.constraints.grammaticality import PartOfSpeech  # noqa: E402
from textattack.constraints.pre_transformation import StopwordModification  # noqa: E402
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder as StockEncoder  # noqa: E402
from textattack.shared import AttackedText, WordEmbedding  # noqa: E402
from textattack.shared.utils import is_one_word  # noqa: E402
from textattack.transformations import (  # noqa: E402
    CompositeTransformation,
    WordSwap,
    WordSwapDeletions,
    WordSwapInvisibleCharacters,
    WordSwapReorderings,
)
from textattack.transformations.word_swaps.word_swap_embedding import recover_word_case  # noqa: E402

# The stock "<SPLIT>" may stand in a text, which would then be cut there.
AttackedText.SPLIT_TOKEN = SEPARATOR

_LATIN = "aceijopsxydhqwvlgbkmABCEHIJKMOPSTXY"
_LOOKALIKE = "асеіјорѕхуԁһԛԝѵӏɡЬкмАВСЕНІЈКМОРЅТХУ"
LOOKALIKES = dict(zip(_LATIN, _LOOKALIKE, strict=True))


class NeighbourSwap(WordSwap):  # type: ignore[misc]
    """Replaces a word with its nearest substitutes (TextBugger's Sub-W; all that TextFooler does)."""

    def __init__(self, neighbours: Substitutes, max_candidates: int | None = None) -> None:
        super().__init__()
        self._neighbours = neighbours
        self._max_candidates = max_candidates

    def prepare(self, texts: Iterable[str]) -> None:
        """Look up the words of texts that are about to be attacked."""
        self._neighbours.prepare(word.lower() for text in texts for word in AttackedText(text).words)

    def _get_replacement_words(self, word: str) -> list[str]:
        found = self._neighbours.of(word.lower())[: self._max_candidates]
        return [recover_word_case(neighbour, word) for neighbour in found]


class LookalikeSwap(WordSwap):  # type: ignore[misc]
    """Replaces one random letter with a Cyrillic one that looks the same (Sub-C; the stock part lacks a file)."""

    deterministic = False

    def _get_replacement_words(self, word: str) -> list[str]:
        places = [place for place, letter in enumerate(word) if letter in LOOKALIKES]
        if not places:
            return []
        place = places[np.random.randint(len(places))]
        return [word[:place] + LOOKALIKES[word[place]] + word[place + 1 :]]


class HomoglyphSwap(WordSwap):  # type: ignore[misc]
    """Replaces each letter in turn with one that looks the same (the stock part lacks a file)."""

    def _get_replacement_words(self, word: str) -> list[str]:
        return [
            word[:place] + LOOKALIKES[letter] + word[place + 1 :]
            for place, letter in enumerate(word)
            if letter in LOOKALIKES
        ]


class DeletionSwap(WordSwapDeletions):  # type: ignore[misc]
    """A letter and a backspace before each letter and at the end: a screen shows the word as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.ins_chr_min = self.ins_chr_max = "x"  # stock tries 94 characters in every place


UNSEEN: dict[str, Callable[[], Any]] = {
    "homoglyphs": HomoglyphSwap,
    "invisible": WordSwapInvisibleCharacters,
    "deletions": DeletionSwap,
    "reorderings": WordSwapReorderings,
}
"""The parts of Bad Characters (Boucher et al. 2022): a reader sees the same text."""


class Bugs(CompositeTransformation):  # type: ignore[misc]
    """Several swaps at once, drawn by row and word: every victim gets the same bugs, whatever it ranks first."""

    row_seed = 0

    def __call__(self, current_text: Any, *args: Any, **options: Any) -> list[Any]:  # noqa: ANN401 - AttackedText
        places = options.get("indices_to_modify") or ()
        place = " ".join(f"{index} {current_text.words[index]}" for index in places)
        np.random.seed(crc32(f"{self.row_seed} {place}".encode()))
        return list(super().__call__(current_text, *args, **options))


class ProtectedWords(StopwordModification):  # type: ignore[misc]
    """Keeps stop words and negations, whatever their case."""

    def __init__(self) -> None:
        super().__init__(stopwords=stop_words())

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:  # noqa: ANN401 - AttackedText
        return {index for index, word in enumerate(current_text.words) if not is_protected(word)}


class OnlyColumn(PreTransformationConstraint):  # type: ignore[misc]
    """Locks every column but one. The stock part counts words per column, which can differ from the joint count."""

    def __init__(self, column: int) -> None:
        self._column = column

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:  # noqa: ANN401 - AttackedText
        if len(current_text.column_labels) == 1:
            return set(range(len(current_text.words)))
        spans = word_spans(current_text.words, _column_texts(current_text))
        return {index for index, span in enumerate(spans) if span.column == self._column}


class MaxSwaps(Constraint):  # type: ignore[misc]
    """Lets at most so many words change. The stock part counts a word that a control character cuts as two."""

    def __init__(self, most: int) -> None:
        super().__init__(compare_against_original=True)
        self._most = most

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:  # noqa: ANN401
        swaps, text = 0, transformed_text
        while "previous_attacked_text" in text.attack_attrs:
            swaps, text = swaps + 1, text.attack_attrs["previous_attacked_text"]
        return swaps <= self._most


class SentenceSimilarity(Constraint):  # type: ignore[misc]
    """Keeps changes after which the words around them still mean what they meant in the original text."""

    def __init__(self, encoder: SentenceEncoder, column: int, min_similarity: float, window: int | None) -> None:
        super().__init__(compare_against_original=True)
        self._encoder = encoder
        self._column = column
        self._min_similarity = min_similarity
        self._window = window

    def _check_constraint_many(self, transformed_texts: Sequence[Any], reference_text: Any) -> list[Any]:  # noqa: ANN401
        similarities = self._encoder.similarities([self._windows(reference_text, text) for text in transformed_texts])
        for text, similarity in zip(transformed_texts, similarities, strict=True):
            text.attack_attrs["similarity_score"] = similarity  # the search prefers the most similar success
        kept = zip(transformed_texts, similarities, strict=True)
        return [text for text, similarity in kept if similarity >= self._min_similarity]

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:  # noqa: ANN401
        return bool(self._check_constraint_many([transformed_text], reference_text))

    def _windows(self, reference: Any, changed: Any) -> tuple[str, str]:  # noqa: ANN401 - AttackedText
        new = changed.attack_attrs["newly_modified_indices"]
        # Which word of the original the change belongs to; a space put into a word shifts all that follow.
        origin = np.flatnonzero(np.isin(changed.attack_attrs["original_index_map"], list(new)))
        if self._window is None or not new or not origin.size:
            return _column_texts(reference)[self._column], _column_texts(changed)[self._column]
        size = self._window
        return self._window_at(reference, int(origin[0]), size), self._window_at(changed, min(new), size)

    def _window_at(self, text: Any, index: int, size: int) -> str:  # noqa: ANN401 - AttackedText
        texts = _column_texts(text)
        spans = word_spans(text.words, texts)
        first = next(number for number, span in enumerate(spans) if span.column == self._column)
        own = [span for span in spans if span.column == self._column]
        return window_around(texts[self._column], own, index - first, size)


def _column_texts(text: Any) -> tuple[str, ...]:  # noqa: ANN401 - AttackedText
    """The columns of an attacked text."""
    columns = text.tokenizer_input
    return (columns,) if isinstance(columns, str) else tuple(columns)


class Span(NamedTuple):
    """One word: the number of its column, and its place in that column's text."""

    column: int
    start: int
    end: int


def word_spans(words: Sequence[str], texts: Sequence[str]) -> list[Span]:
    """Find the words, given in order, in the columns' texts: the search that TextAttack does when it replaces one."""
    spans = []
    column = position = 0
    for word in words:
        while (start := texts[column].find(word, position)) < 0:
            column, position = column + 1, 0
        position = start + len(word)
        spans.append(Span(column, start, position))
    return spans


def window_around(text: str, spans: Sequence[Span], index: int, size: int) -> str:
    """The part of the text with `size` words around the word `index`; the whole text if it has no more words."""
    if len(spans) <= size:
        return text
    first = min(max(index - size // 2, 0), len(spans) - size)
    return text[spans[first].start : spans[first + size - 1].end]


_Embed = Callable[[Sequence[str]], Iterable[torch.Tensor]]


class _CounterFitted(WordEmbedding):  # type: ignore[misc]
    """Counter-fitted vectors without the table of neighbours that the stock class downloads as well."""

    def nearest_neighbours(self, index: int, topn: int) -> list[int]:
        """The nearest words by Euclidean distance, without the word itself."""
        distances = np.linalg.norm(self.embedding_matrix - self.embedding_matrix[index], axis=1)
        distances[index] = np.inf
        nearest = np.argpartition(distances, topn)[:topn]
        return [int(other) for other in nearest[np.argsort(distances[nearest], kind="stable")]]


@cache
def counter_fitted_embedding() -> _CounterFitted:
    """The counter-fitted vectors of this machine."""
    words, vectors = counter_fitted()
    return _CounterFitted(vectors, {word: row for row, word in enumerate(words)}, dict(enumerate(words)))


class WordNetSwap(WordSwap):  # type: ignore[misc]
    """WordNet's synonyms. The stock part asks for a download whenever it is built."""

    def __init__(self) -> None:
        super().__init__()
        self._wordnet = wordnet()

    def _get_replacement_words(self, word: str) -> list[str]:
        lemmas = {lemma for synset in self._wordnet.synsets(word) for lemma in synset.lemma_names()}
        return sorted(lemma for lemma in lemmas if lemma != word and "_" not in lemma and is_one_word(lemma))


class TaggedPartOfSpeech(PartOfSpeech):  # type: ignore[misc]
    """The stock constraint on the tagger that was resolved; what it tagged is kept from example to example."""

    def _get_pos(self, before_ctx: list[str], word: str, after_ctx: list[str]) -> str:
        context = (*before_ctx, word, *after_ctx)
        return _tags(context)[context.index(word)]


class EncoderSimilarity(StockEncoder):  # type: ignore[misc]
    """The stock constraint: every text is encoded once, and none whose similarity would not be looked at."""

    def __init__(self, embed: _Embed, **options: Any) -> None:  # noqa: ANN401 - those of the stock constraint
        super().__init__(**options)
        self._channel: Channel[str, torch.Tensor] = Channel(_once(embed))

    def encode(self, sentences: Sequence[str]) -> torch.Tensor:
        """One vector per sentence."""
        return torch.stack(list(self._channel.ask(sentences)))

    def _check_constraint_many(self, transformed_texts: list[Any], reference_text: Any) -> list[Any]:  # noqa: ANN401
        short = [self.skip_text_shorter_than_window and len(t.words) < self.window_size for t in transformed_texts]
        compared = [text for text, passes in zip(transformed_texts, short, strict=True) if not passes]
        kept = {id(text) for text in super()._check_constraint_many(compared, reference_text)}
        for text, passes in zip(transformed_texts, short, strict=True):
            if passes:
                text.attack_attrs["similarity_score"] = 1.0
                kept.add(id(text))
        return [text for text in transformed_texts if id(text) in kept]


@cache
def universal_encoder() -> _Embed:
    """The Universal Sentence Encoder of this machine, which takes TensorFlow."""
    folder = resolve("universal sentence encoder").path
    try:
        import tensorflow_hub
    except ImportError:
        raise ResourceError(
            "the universal sentence encoder is a TensorFlow model: pip install tensorflow-hub tensorflow"
        ) from None
    model = tensorflow_hub.load(str(folder))

    def embed(texts: Sequence[str]) -> torch.Tensor:
        encoded = model(list(texts))
        return torch.tensor((encoded["outputs"] if isinstance(encoded, dict) else encoded).numpy())

    return embed


@lru_cache(maxsize=2**16)
def _tags(words: tuple[str, ...]) -> list[str]:
    return pos_tags(words)


def _once(embed: _Embed) -> Callable[[Sequence[str]], list[torch.Tensor]]:
    known: dict[str, torch.Tensor] = {}

    def remembered(texts: Sequence[str]) -> list[torch.Tensor]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, embed(new), strict=True))
        return [known[text] for text in texts]

    return remembered


_attacked_text = importlib.import_module("textattack.shared.attacked_text")
_words_from_text: Any = _attacked_text.words_from_text
_CHINESE = re.compile("[\u4e00-\u9fff]")

_piece = lru_cache(maxsize=2**16)(lambda piece: tuple(_words_from_text(piece)))


def words_from_text(text: str) -> list[str]:
    """As TextAttack's: it looks at each piece between spaces on its own, except in Chinese, which it cuts first."""
    if _CHINESE.search(text):
        return list(_piece(text))
    return [word for piece in text.split() for word in _piece(piece)]


@contextmanager
def quick_words() -> Iterator[None]:
    """Let TextAttack use `words_from_text` inside the context."""
    _attacked_text.words_from_text = words_from_text  # type: ignore[attr-defined]
    try:
        yield
    finally:
        _attacked_text.words_from_text = _words_from_text  # type: ignore[attr-defined]
