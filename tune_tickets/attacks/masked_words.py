"""Substitutes by a masked language model, as BERT-Attack proposes them. Importing this module imports TextAttack."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice, product
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.lockstep import Channel, Memory, Text, Tokens, batches, spread
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resource_table import cache_folder
from tune_tickets.attacks.toolkit import import_textattack
from tune_tickets.models.families import family_of

import_textattack()

from textattack.shared.utils import check_if_subword, is_one_word  # noqa: E402
from textattack.transformations import WordSwap  # noqa: E402

_MAX_TOKENS = 512
_BATCH = 16  # the logits of a batch are large
_LETTERS_OF_A_NAME = 64


@dataclass(frozen=True)
class MaskedLM:
    """A masked language model and who it is."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    identity: str

    def best(self, texts: Sequence[str], count: int) -> list[list[list[int]]]:
        """The likeliest tokens at every position of each text, best first."""
        return [json.loads(found) for found in self._channel.ask([(text, count) for text in texts])]

    @cached_property
    def tokens(self) -> Tokens:
        """Its tokenizer, with a memory."""
        return Tokens(self.tokenizer, min(_MAX_TOKENS, family_of(self.model).positions(self.model) or _MAX_TOKENS))

    @cached_property
    def _channel(self) -> Channel[tuple[str, int], str]:
        safe = "".join(letter if letter.isalnum() else "-" for letter in self.identity)[-_LETTERS_OF_A_NAME:]
        precision = str(next(self.model.parameters()).dtype).removeprefix("torch.")
        memory: Memory[str] = Memory(cache_folder() / "attacks" / f"masked-lm-{safe}-{precision}.sqlite")

        def answer(questions: Sequence[tuple[str, int]]) -> list[str]:
            return memory.answers(
                [(text, str(count)) for text, count in questions],
                lambda places: self._compute([questions[place] for place in places]),
            )

        return Channel(answer)

    def _compute(self, questions: Sequence[tuple[str, int]]) -> list[str]:
        self.model.train(False)
        encoded = self.tokens.encode([text for text, _ in questions])
        made = list(batches(encoded, self.tokenizer, self.model.device, _BATCH))
        sizes = [[(len(encoded[place]["input_ids"]), questions[place][1]) for place in places] for places, _ in made]
        answers = spread(self._likeliest, zip(sizes, (batch for _, batch in made), strict=True), self.model.device)
        found: dict[int, str] = {}
        for (places, _), answer in zip(made, answers, strict=True):
            found.update(zip(places, answer, strict=True))
        return [found[place] for place in range(len(questions))]

    def _likeliest(self, asked: tuple[list[tuple[int, int]], dict[str, torch.Tensor]]) -> list[str]:
        """For every row of a batch, given how long it is and how many tokens are wanted."""
        sizes, batch = asked
        logits = self.model(**batch).logits
        best = (torch.topk(row[:length], count).indices for row, (length, count) in zip(logits, sizes, strict=True))
        return [json.dumps(indices.tolist()) for indices in best]


@cache
def resolved_masked_lm(device: torch.device | str) -> MaskedLM:
    """The masked language model of this machine: TUNE_TICKETS_MASKED_LM, the cache, or the hub if that is allowed."""
    found = resolve("masked lm")
    tokenizer = AutoTokenizer.from_pretrained(found.path, local_files_only=True)  # type: ignore[no-untyped-call]
    model = AutoModelForMaskedLM.from_pretrained(found.path, local_files_only=True, use_safetensors=True)
    return MaskedLM(model.to(device), tokenizer, found.identity)


class MaskedWords(WordSwap):  # type: ignore[misc]
    """BERT-Attack's substitution: the best tokens at the place of the word, which stays visible to the model.

    The same substitutes as TextAttack's WordSwapMaskedLM with method "bert-attack": of a word of several pieces it
    ranks all combinations, forgets the ranking and takes the first; here only those are formed.
    """

    def __init__(
        self, masked_lm: MaskedLM, max_candidates: int, fits: Callable[[str, str], bool] | None = None
    ) -> None:
        super().__init__()
        self._lm = masked_lm
        self._max_candidates = max_candidates
        self._fits = fits

    def _get_transformations(self, current_text: Any, indices_to_modify: Sequence[int]) -> list[Any]:  # noqa: ANN401
        [best] = self._lm.best([current_text.text], self._max_candidates)
        return [
            current_text.replace_word_at_index(index, word)
            for index in indices_to_modify
            for word in self._substitutes(current_text, index, best)
            if word != current_text.words[index]
            and (self._fits is None or self._fits(current_text.words[index].lower(), word.lower()))
        ]

    def _substitutes(self, text: Any, index: int, best: list[list[int]]) -> list[str]:  # noqa: ANN401 - AttackedText
        tokenizer = self._lm.tokenizer
        masked: Text = text.replace_word_at_index(index, tokenizer.mask_token).text
        [encoded] = self._lm.tokens.encode([masked])
        if tokenizer.mask_token_id not in encoded["input_ids"]:
            return []
        first = encoded["input_ids"].index(tokenizer.mask_token_id)
        pieces = len(tokenizer.encode(text.words[index], add_special_tokens=False))
        choices = [tokenizer.convert_ids_to_tokens(ids) for ids in best[first : first + pieces]]
        if len(choices) == 1:
            kind, begins = self._lm.model.config.model_type, index == 0
            whole = [word for word in choices[0] if is_one_word(word) and not check_if_subword(word, kind, begins)]
            return [_bare(word) for word in whole]
        joined = ("".join(tokens).replace("##", "") for tokens in product(*choices))
        return [_bare(word) for word in islice(filter(is_one_word, joined), self._max_candidates)]


def _bare(word: str) -> str:
    return word.strip("Ġ")
