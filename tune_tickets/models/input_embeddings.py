"""Word vectors that every encoder has: its input embeddings."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tune_tickets.config.task import Model
from tune_tickets.models.anatomy import word_embeddings
from tune_tickets.models.backbone import load_backbone


def input_embeddings(model: Model, words: Sequence[str]) -> dict[str, Tensor]:
    """The mean embedding of a word's pieces, before positions and LayerNorm; words outside the vocabulary have none."""
    network, tokenizer = load_backbone(model, labels=("0", "1"), seed=0)
    table = word_embeddings(network).weight.detach()
    # The space in front: RoBERTa has other pieces for a word at the start of a text than within it.
    pieces = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    known = {word: ids for word, ids in zip(words, pieces, strict=True) if ids and tokenizer.unk_token_id not in ids}
    return {word: table[torch.tensor(ids)].mean(dim=0) for word, ids in known.items()}
