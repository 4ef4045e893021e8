"""The model under attack, as TextAttack queries it: texts, or pairs of texts, in; class probabilities out."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.lockstep import Channel, Text, Tokens, batches, spread
from tune_tickets.models.first_token import first_token_only
from tune_tickets.models.lean import Batch, lean_logits


@dataclass(frozen=True)
class Victim:
    """A sequence classifier of transformers, whole or pruned, on whatever device it is.

    Stands in for TextAttack's ModelWrapper, whose own pads every query to the longest length the model knows.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int

    def __call__(self, texts: Sequence[Text]) -> torch.Tensor:
        """Probabilities, one row per text, in float64 on the CPU: TextAttack checks that each row sums to 1."""
        return torch.stack(list(self._channel.ask(texts)))

    @property
    def exact(self) -> torch.dtype:
        """The precision that the models beside the victim work in: float64 if the victim does, else float32."""
        return torch.float64 if next(self.model.parameters()).dtype == torch.float64 else torch.float32

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens(self.tokenizer, self.max_length)

    @cached_property
    def _channel(self) -> Channel[Text, torch.Tensor]:
        return Channel(self._probabilities)

    @cached_property
    def _lean(self) -> Callable[[Batch], torch.Tensor] | None:
        return lean_logits(self.model)

    def _probabilities(self, texts: Sequence[Text]) -> list[torch.Tensor]:
        if self.model.training:
            self.model.train(False)
        lean = self._lean is not None  # asked here, before anything is hooked into the model
        made = list(batches(self._tokens.encode(texts), self.tokenizer, self.model.device, self.batch_size))
        rows: dict[int, torch.Tensor] = {}
        with nullcontext() if lean else first_token_only(self.model):
            answers = spread(self._forward, (batch for _, batch in made), self.model.device)
            for (places, _), found in zip(made, answers, strict=True):
                rows.update(zip(places, found, strict=True))
        return [rows[place] for place in range(len(texts))]

    def _forward(self, batch: Batch) -> torch.Tensor:
        logits = self._lean(batch) if self._lean is not None else self.model(**batch).logits
        return torch.softmax(logits.double().cpu(), dim=-1)
