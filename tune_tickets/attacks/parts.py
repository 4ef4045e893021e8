"""Our parts of an attack, as TextAttack wants them. Importing this module imports TextAttack."""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from tune_tickets.attacks.neighbours import SentenceEncoder, Substitutes
from tune_tickets.attacks.resources import import_textattack, is_protected, stop_words
from tune_tickets.attacks.spans import window_around, word_spans
from tune_tickets.attacks.visible import SEPARATOR

import_textattack()

from textattack.constraints import Constraint, PreTransformationConstraint  # noqa: E402
from textattack.constraints.pre_transformation import StopwordModification  # noqa: E402
from textattack.shared import AttackedText  # noqa: E402
from textattack.transformations import CompositeTransformation, WordSwap  # noqa: E402
from textattack.transformations.word_swaps.word_swap_embedding import recover_word_case  # noqa: E402

# The stock "<SPLIT>" may stand in a text, which would then be cut there.
AttackedText.SPLIT_TOKEN = SEPARATOR

_LATIN = "aceijopsxydhqwvlgbkmABCEHIJKMOPSTXY"
_LOOKALIKE = "асеіјорѕхуԁһԛԝѵӏɡЬкмАВСЕНІЈКМОРЅТХУ"
LOOKALIKES = dict(zip(_LATIN, _LOOKALIKE, strict=True))


class NeighbourSwap(WordSwap):  # type: ignore[misc]
    """Replaces a word with its nearest substitutes (TextBugger's Sub-W; all that TextFooler does)."""

    def __init__(self, neighbours: Substitutes, max_candidates: int) -> None:
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


class Bugs(CompositeTransformation):  # type: ignore[misc]
    """Several swaps at once, drawn by row and word: every victim meets the same bugs, whatever it ranks first."""

    row_seed = 0

    def __call__(self, current_text: Any, *args: Any, **options: Any) -> list[Any]:  # noqa: ANN401 - AttackedText
        places = options.get("indices_to_modify") or ()
        place = " ".join(f"{index} {current_text.words[index]}" for index in places)
        np.random.seed(crc32(f"{self.row_seed} {place}".encode()))
        return list(super().__call__(current_text, *args, **options))


class ProtectedWords(StopwordModification):  # type: ignore[misc]
    """Leaves stop words and negations alone, in any case."""

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
        spans = word_spans(current_text.words, column_texts(current_text))
        return {index for index, span in enumerate(spans) if span.column == self._column}


class SentenceSimilarity(Constraint):  # type: ignore[misc]
    """Keeps changes whose surroundings still mean what they meant in the original text."""

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
            return column_texts(reference)[self._column], column_texts(changed)[self._column]
        size = self._window
        return self._window_at(reference, int(origin[0]), size), self._window_at(changed, min(new), size)

    def _window_at(self, text: Any, index: int, size: int) -> str:  # noqa: ANN401 - AttackedText
        texts = column_texts(text)
        spans = word_spans(text.words, texts)
        first = next(number for number, span in enumerate(spans) if span.column == self._column)
        own = [span for span in spans if span.column == self._column]
        return window_around(texts[self._column], own, index - first, size)


def column_texts(text: Any) -> tuple[str, ...]:  # noqa: ANN401 - AttackedText
    """The columns of an attacked text."""
    columns = text.tokenizer_input
    return (columns,) if isinstance(columns, str) else tuple(columns)
