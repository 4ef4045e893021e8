"""Substitutes for a word: its nearest whole-word vocabulary entries that keep the polarity and fit the slot."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.lockstep import Channel, Memory, Tokens, batches, spread
from tune_tickets.attacks.resource_table import cache_folder
from tune_tickets.attacks.word_rules import inflections, is_protected, lemmas, opposed, polarity
from tune_tickets.models.families.base import Batch
from tune_tickets.models.lean import lean_states
from tune_tickets.models.source import WEIGHTS_SHA256, bundled_encoder_path

_MAX_TOKENS = 256  # as published for all-MiniLM-L6-v2
_BATCH = 64


@cache
def load_encoder(device: torch.device, dtype: torch.dtype = torch.float32) -> "SentenceEncoder":
    """Return the encoder of this process on that device. Attacks on the same rows share its embeddings."""
    path = bundled_encoder_path()
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)  # type: ignore[no-untyped-call]
    model = AutoModel.from_pretrained(path, local_files_only=True).to(device=device, dtype=dtype)
    name = f"embeddings-{WEIGHTS_SHA256[:12]}-{str(dtype).removeprefix('torch.')}.sqlite"
    return SentenceEncoder(model, tokenizer, Memory(cache_folder() / "attacks" / name))


class SentenceEncoder:
    """Mean-pooled, normalised sentence embeddings; each is kept on disk, where every attack of the machine finds it."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, memory: Memory[bytes]) -> None:
        self._model = model.train(False)
        self._states = lean_states(model) or (lambda batch: model(**batch).last_hidden_state)
        self._tokens = Tokens(tokenizer, _MAX_TOKENS)
        self._memory = memory
        self._channel: Channel[tuple[str, str], float] = Channel(self._similarities)

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of the embeddings of each pair of texts."""
        return list(self._channel.ask(pairs))

    def embed(self, texts: Sequence[str]) -> torch.Tensor:
        """One unit vector per text, on the CPU."""
        kept = self._memory.answers(
            [(text,) for text in texts], lambda places: self._compute([texts[place] for place in places])
        )
        vectors = np.frombuffer(b"".join(kept), dtype=str(self._model.dtype).removeprefix("torch."))
        return torch.from_numpy(vectors.reshape(len(texts), -1).copy())

    def vocabulary(self) -> dict[str, int]:
        """The tokens and their rows in `word_vectors`."""
        return dict(self._tokens.tokenizer.get_vocab())

    def word_vectors(self) -> torch.Tensor:
        """The input word embeddings, normalised, on the CPU."""
        weight = self._model.get_input_embeddings().weight
        return torch.nn.functional.normalize(weight.detach().float().cpu(), dim=1)

    def _similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        vectors = self.embed([text for pair in pairs for text in pair])
        cosines: list[float] = (vectors[0::2] * vectors[1::2]).sum(dim=1).tolist()
        return cosines

    def _compute(self, texts: Sequence[str]) -> list[bytes]:
        device = self._model.device
        made = list(batches(self._tokens.encode(texts), self._tokens.tokenizer, device, _BATCH))
        computed: dict[int, bytes] = {}
        for (places, _), pooled in zip(made, spread(self._pooled, (batch for _, batch in made), device), strict=True):
            computed.update((place, vector.tobytes()) for place, vector in zip(places, pooled.numpy(), strict=True))
        return [computed[place] for place in range(len(texts))]

    def _pooled(self, batch: Batch) -> torch.Tensor:
        hidden = self._states(batch)
        mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * mask).sum(dim=1) / mask.sum(dim=1), dim=1).cpu()


_SHORTEST_WORD = 3
_CONSIDERED = 100
"""Nearest words that are looked at, before those that do not fit are dropped."""
_AT_ONCE = 256


class Substitutes(Protocol):
    """A source of substitutes for a word."""

    def of(self, word: str) -> tuple[str, ...]:
        """The substitutes of a lower-case word, nearest first."""
        ...

    def prepare(self, words: Iterable[str]) -> None:
        """Look up words that will be asked for."""
        ...


class ListedNeighbours:
    """Counter-fitted neighbours from lists: antonyms were driven apart when the vectors were made."""

    def __init__(self, lists: Mapping[str, tuple[str, ...]]) -> None:
        self._lists = lists

    def of(self, word: str) -> tuple[str, ...]:
        """The listed neighbours that fit the slot of the word."""
        if is_protected(word):
            return ()
        return tuple(near for near in self._lists.get(word, ()) if near != word and _fits_slot(word, near))

    def prepare(self, words: Iterable[str]) -> None:
        """Nothing has to be looked up."""


class Neighbours:
    """Nearest words by cosine of the encoder's input embeddings, found when first asked for."""

    def __init__(self, encoder: SentenceEncoder, min_cosine: float, considered: int = _CONSIDERED) -> None:
        rows = {word: row for word, row in encoder.vocabulary().items() if _is_whole_word(word)}
        self._words = tuple(sorted(rows, key=rows.__getitem__))
        self._position = {word: position for position, word in enumerate(self._words)}
        # In float64 a cosine does not depend on which words are looked up together.
        self._vectors = encoder.word_vectors()[torch.tensor([rows[word] for word in self._words])].double()
        self._min_cosine = min_cosine
        self._considered = min(considered, len(self._words))
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
        cosines, positions = torch.topk(asked @ self._vectors.T, self._considered)
        for word, values, others in zip(words, cosines.tolist(), positions.tolist(), strict=True):
            near = [
                self._words[other] for value, other in zip(values, others, strict=True) if value >= self._min_cosine
            ]
            self._found[word] = tuple(other for other in near if is_substitute(word, other))


class Union:
    """The nearest words, then those of other sources that fit the slot and do not oppose the word."""

    def __init__(self, near: Substitutes, count: int, others: Sequence[Callable[[str], Iterable[str]]]) -> None:
        self._near = near
        self._count = count
        self._others = others

    def of(self, word: str) -> tuple[str, ...]:
        """Return the substitutes of a lower-case word: `count` neighbours, then all of the other sources."""
        if is_protected(word):
            return ()
        more = (other.lower() for source in self._others for other in source(word))
        found = [*self._near.of(word)[: self._count], *(other for other in more if is_substitute(word, other))]
        return tuple(dict.fromkeys(found))

    def prepare(self, words: Iterable[str]) -> None:
        """Look up the neighbours of many words at once."""
        self._near.prepare(words)


@cache
def is_substitute(word: str, candidate: str) -> bool:
    """Whether the candidate is another form of the word, or another word that fits its slot without opposing it."""
    return (
        candidate != word
        and _fits_slot(word, candidate)
        and polarity(word) == polarity(candidate)
        and not opposed(word, candidate)
    )


@cache
def _fits_slot(word: str, candidate: str) -> bool:
    """Whether the candidate may carry a tag that the word may carry, or is another form of it; never protected ones."""
    return not is_protected(candidate) and bool(
        inflections(word) & inflections(candidate) or lemmas(word) & lemmas(candidate)
    )


def _is_whole_word(token: str) -> bool:
    return token.isascii() and token.isalpha() and len(token) >= _SHORTEST_WORD
