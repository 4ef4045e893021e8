"""The model under attack, as TextAttack queries it: texts, or pairs of texts, in; class probabilities out."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

Text = str | tuple[str, ...]


@dataclass(frozen=True)
class Victim:
    """A sequence classifier of transformers, whole or pruned, on whatever device it is.

    Stands in for TextAttack's ModelWrapper, whose own pads every query to the longest length the model knows.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Text]) -> torch.Tensor:
        """Probabilities, one row per text, in float64 on the CPU: TextAttack checks that each row sums to 1."""
        if self.model.training:
            self.model.train(False)
        by_length = sorted(range(len(texts)), key=lambda index: len("".join(texts[index])))
        rows: dict[int, torch.Tensor] = {}
        for start in range(0, len(texts), self.batch_size):
            indices = by_length[start : start + self.batch_size]
            rows.update(zip(indices, self._probabilities([texts[index] for index in indices]), strict=True))
        return torch.stack([rows[index] for index in range(len(texts))])

    def _probabilities(self, batch: Sequence[Text]) -> torch.Tensor:
        columns = zip(*((text,) if isinstance(text, str) else text for text in batch), strict=True)
        encoded = self.tokenizer(
            *(list(column) for column in columns),
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
        ).to(self.model.device)
        logits: torch.Tensor = self.model(**encoded).logits
        return torch.softmax(logits.double().cpu(), dim=-1)
