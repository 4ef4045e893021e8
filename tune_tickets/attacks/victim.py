"""The model under attack, as TextAttack queries it: texts, or pairs of texts, in; class probabilities out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.batching import Text, Tokens, batches
from tune_tickets.attacks.lockstep import Channel


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

    @torch.inference_mode()
    def _probabilities(self, texts: Sequence[Text]) -> list[torch.Tensor]:
        if self.model.training:
            self.model.train(False)
        encoded = self._tokens.encode(texts)
        rows: dict[int, torch.Tensor] = {}
        for places, batch in batches(encoded, self.tokenizer, self.model.device, self.batch_size):
            logits = self.model(**batch).logits.double().cpu()
            rows.update(zip(places, torch.softmax(logits, dim=-1), strict=True))
        return [rows[place] for place in range(len(texts))]
