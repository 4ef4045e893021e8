"""Classifiers that read the first token alone: the last layer need not compute the others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.models.anatomy import last_attention_block

_READERS = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Model types whose classification head takes the first position of the last layer, and nothing else of it."""


@contextmanager
def first_token_only(model: PreTrainedModel) -> Iterator[None]:
    """Within, the last layer goes on with the first token once it has attended to all of them; logits are the same."""
    if model.config.model_type not in _READERS or not hasattr(model, "classifier"):
        yield
        return
    hook = last_attention_block(model).register_forward_pre_hook(_first)
    try:
        yield
    finally:
        hook.remove()


def _first(module: Any, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # noqa: ANN401 - families share no class
    return tuple(state[:, :1] for state in states)
