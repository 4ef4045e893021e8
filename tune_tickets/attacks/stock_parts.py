"""Parts of the stock recipes on resources that were resolved beforehand: nothing here looks for a download.

Importing this module imports TextAttack.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch

from tune_tickets.attacks.lockstep import Channel
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resources import import_textattack
from tune_tickets.attacks.word_resources import counter_fitted, pos_tags
from tune_tickets.attacks.word_rules import wordnet
from tune_tickets.errors import ResourceError

import_textattack()

from textattack.attack_recipes import TextFoolerJin2019  # noqa: E402
from textattack.constraints.grammaticality import PartOfSpeech  # noqa: E402
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder  # noqa: E402
from textattack.shared import WordEmbedding  # noqa: E402
from textattack.shared.utils import is_one_word  # noqa: E402
from textattack.transformations import WordSwap  # noqa: E402

Embed = Callable[[Sequence[str]], Iterable[torch.Tensor]]


class CounterFitted(WordEmbedding):  # type: ignore[misc]
    """Counter-fitted vectors without the table of neighbours that the stock class downloads beside them."""

    def nearest_neighbours(self, index: int, topn: int) -> list[int]:
        """The nearest words by Euclidean distance, without the word itself."""
        distances = np.linalg.norm(self.embedding_matrix - self.embedding_matrix[index], axis=1)
        distances[index] = np.inf
        nearest = np.argpartition(distances, topn)[:topn]
        return [int(other) for other in nearest[np.argsort(distances[nearest], kind="stable")]]


@cache
def counter_fitted_embedding() -> CounterFitted:
    """The counter-fitted vectors of this machine."""
    words, vectors = counter_fitted()
    return CounterFitted(vectors, {word: row for row, word in enumerate(words)}, dict(enumerate(words)))


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


class EncoderSimilarity(SentenceEncoder):  # type: ignore[misc]
    """The stock constraint: every text is encoded once, and none whose similarity would not be looked at."""

    def __init__(self, embed: Embed, **options: Any) -> None:  # noqa: ANN401 - those of the stock constraint
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
def universal_encoder() -> Embed:
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


def textfooler_stop_words() -> frozenset[str]:
    """The list that the stock recipe holds in its code."""
    constants: list[tuple[str, ...]] = [
        each for each in TextFoolerJin2019.build.__code__.co_consts if isinstance(each, tuple)
    ]
    longest: tuple[str, ...] = max(constants, key=len)
    return frozenset(longest)


@lru_cache(maxsize=2**16)
def _tags(words: tuple[str, ...]) -> list[str]:
    return pos_tags(words)


def _once(embed: Embed) -> Callable[[Sequence[str]], list[torch.Tensor]]:
    known: dict[str, torch.Tensor] = {}

    def remembered(texts: Sequence[str]) -> list[torch.Tensor]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, embed(new), strict=True))
        return [known[text] for text in texts]

    return remembered
