"""The model under attack, as attacks query it: texts, or pairs of texts, in; logits out."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.lockstep import Channel, Text, Tokens, batches, spread
from tune_tickets.models.families.base import Batch
from tune_tickets.models.lean import first_token_only, lean_logits

SEPARATOR = "\ue000"
"""A private character that TextAttack puts between columns; no text may hold it."""

_SPARE_WORDS = 8
_CHINESE = "\u4e00-\u9fff"
# Chinese is written without spaces: each character counts. Every match is at least one token of any tokenizer.
_WORD = re.compile(rf"[{_CHINESE}]|[^\s{_CHINESE}]*[^\W{_CHINESE}][^\s{_CHINESE}]*")


def clean(text: str) -> str:
    """Return the text without lone surrogates, which no tokenizer or file accepts, and without our separator."""
    return text.encode("utf-8", "replace").decode("utf-8").replace(SEPARATOR, " ")


def split_visible(text: str, max_length: int) -> tuple[str, str]:
    """Cut the text in two: what a model that reads `max_length` tokens may see, however words change; and the rest."""
    last = next(islice(_WORD.finditer(text), max_length + _SPARE_WORDS - 1, None), None)
    end = len(text) if last is None else last.end()
    return text[:end], text[end:]


def margins(logits: torch.Tensor, label: int) -> torch.Tensor:
    """Return the logit of the label minus the best other logit, per row. Negative: another class wins."""
    others = logits.clone()
    others[:, label] = -torch.inf
    return logits[:, label] - others.max(dim=1).values


@dataclass(frozen=True)
class Victim:
    """A sequence classifier of transformers, whole or pruned, on any device.

    It replaces TextAttack's ModelWrapper, which pads every query to the longest length the model knows.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int

    def __call__(self, texts: Sequence[Text]) -> torch.Tensor:
        """Return the logits, one row per text, in float64 on the CPU.

        Raises:
            ValueError: A logit is infinite or not a number, so that no attack could compare answers.
        """
        logits = torch.stack(list(self._channel.ask(texts)))
        if not logits.isfinite().all():
            raise ValueError("the model answers with logits that are not finite numbers")
        return logits

    @property
    def exact(self) -> torch.dtype:
        """The precision of the other models of an attack: float64 if the victim has it, else float32."""
        return torch.float64 if next(self.model.parameters()).dtype == torch.float64 else torch.float32

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens(self.tokenizer, self.max_length)

    @cached_property
    def _channel(self) -> Channel[Text, torch.Tensor]:
        return Channel(self._logits)

    @cached_property
    def _lean(self) -> Callable[[Batch], torch.Tensor] | None:
        return lean_logits(self.model)

    def _logits(self, texts: Sequence[Text]) -> list[torch.Tensor]:
        if self.model.training:
            self.model.train(False)
        lean = self._lean is not None  # looked up here, before a hook is put on the model
        made = list(batches(self._tokens.encode(texts), self.tokenizer, self.model.device, self.batch_size))
        rows: dict[int, torch.Tensor] = {}
        with nullcontext() if lean else first_token_only(self.model):
            answers = spread(self._forward, (batch for _, batch in made), self.model.device)
            for (places, _), found in zip(made, answers, strict=True):
                rows.update(zip(places, found, strict=True))
        return [rows[place] for place in range(len(texts))]

    def _forward(self, batch: Batch) -> torch.Tensor:
        logits = self._lean(batch) if self._lean is not None else self.model(**batch).logits
        return logits.double().cpu()
