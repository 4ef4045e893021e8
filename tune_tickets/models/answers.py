"""What a trained classifier answers: the probabilities of its classes, for texts or pairs of texts."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase


@torch.inference_mode()
def probabilities(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[tuple[str, ...]],
    max_length: int,
    batch_size: int,
) -> Tensor:
    """One row of class probabilities per text or pair, in float64 on the CPU; longer texts are cut."""
    found = [torch.empty(0, model.config.num_labels, dtype=torch.float64)]
    for start in range(0, len(rows), batch_size):
        columns = zip(*rows[start : start + batch_size], strict=True)
        inputs = tokenizer(
            *([_readable(text) for text in column] for column in columns),
            truncation=True,
            max_length=max_length,
            padding=True,
            return_tensors="pt",
        ).to(model.device)
        found.append(model(**inputs).logits.double().softmax(dim=-1).cpu())
    return torch.cat(found)


def _readable(text: str) -> str:
    # Half a character (a lone surrogate) stops every tokenizer.
    return text.encode("utf-8", "replace").decode("utf-8")
