"""BERT and models built like it, which count positions from the left."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.models.families.base import Batch, Family, Lean, PostNormLayer, Projection
from tune_tickets.tickets.survival import Place

_MATRIX = re.compile(r"layer\.(\d+)\.(attention\.self\.(?:query|key|value)|attention\.output\.dense|.*dense)\.weight$")


class Bert(Family):
    """BERT: post-norm layers, a pooler that reads the first token."""

    uncut_types: ClassVar[tuple[str, ...]] = ("big_bird", "nystromformer")
    model_types: ClassVar[tuple[str, ...]] = (
        "bert", "electra", "ernie", "layoutlm", "mra", "rembert", "roc_bert", "tapas", "yoso", *uncut_types
    )  # fmt: skip
    lean_types: ClassVar[tuple[str, ...]] = ("bert",)
    """Types that `models.lean` computes."""
    first_token_types: ClassVar[tuple[str, ...]] = ("bert", "electra")
    """Types whose classifier reads the first token of the last layer and nothing else."""
    masked_lm_part: ClassVar[str] = "cls"

    def layers(self, model: PreTrainedModel) -> Sequence[nn.Module]:
        """The layers of the encoder."""
        base: Any = model.base_model
        return list(base.encoder.layer)

    def projections(self, layer: Any) -> tuple[Projection, ...]:  # noqa: ANN401 - families share no class
        """Query, key, value, attention output, intermediate, output."""
        attention = layer.attention.self
        return (
            *(Projection(linear, "heads", 0) for linear in (attention.query, attention.key, attention.value)),
            Projection(layer.attention.output.dense, "heads", 1),
            Projection(layer.intermediate.dense, "neurons", 0),
            Projection(layer.output.dense, "neurons", 1),
        )

    def keep_heads(self, layer: Any, kept: Tensor, head_size: int) -> None:  # noqa: ANN401 - families share no class
        """The attention module has its number of heads and their width in attributes."""
        layer.attention.self.num_attention_heads = int(kept.sum())
        layer.attention.self.all_head_size = int(kept.sum()) * head_size

    def place(self, weight: str) -> Place | None:
        """By the names that `projections` reads."""
        found = _MATRIX.search(weight)
        if found is None:
            return None
        if not found[2].startswith("attention"):
            return Place(int(found[1]), "neurons", 0)
        return Place(int(found[1]), "heads", 0 if ".self." in found[2] else 1)

    def pooler(self, model: PreTrainedModel) -> nn.Module | None:
        """BERT has one. In ELECTRA and RoBERTa the classifier does its work."""
        pooler = getattr(model.base_model, "pooler", None)
        return pooler if isinstance(pooler, nn.Module) else None

    def lean(self, model: PreTrainedModel) -> Lean | None:
        """Encoders with absolute positions, not decoders."""
        config = model.config
        base: Any = model.base_model
        absolute = getattr(config, "position_embedding_type", "absolute") == "absolute"
        if config.model_type not in self.lean_types or getattr(config, "is_decoder", False) or not absolute:
            return None
        names = ("input_ids", "token_type_ids")

        def embed(batch: Batch) -> Tensor:
            embedded: Tensor = base.embeddings(**{name: batch[name] for name in names if name in batch})
            return embedded

        return Lean(tuple(_post_norm(layer) for layer in self.layers(model)), embed, self.counts_from_left)

    counts_from_left: ClassVar[bool] = True

    def last_attention_block(self, model: PreTrainedModel) -> nn.Module | None:
        """What the last layer does with the result of its attention."""
        if model.config.model_type not in self.first_token_types or self.pooling(model.config) is not None:
            return None
        last: Any = self.layers(model)[-1]
        block: nn.Module = last.attention.output
        return block

    def masked_lm_head(self, model: PreTrainedModel) -> nn.Module:
        """The head, whose name differs between families."""
        head = getattr(model, self.masked_lm_part, None)
        return head if isinstance(head, nn.Module) else super().masked_lm_head(model)


def _post_norm(layer: Any) -> PostNormLayer:  # noqa: ANN401 - families share no class
    attention = layer.attention.self
    return PostNormLayer(
        heads=attention.num_attention_heads,
        query=attention.query,
        key=attention.key,
        value=attention.value,
        attention_output=layer.attention.output.dense,
        attention_norm=layer.attention.output.LayerNorm,
        intermediate=layer.intermediate.dense,
        activation=layer.intermediate.intermediate_act_fn,
        output=layer.output.dense,
        output_norm=layer.output.LayerNorm,
    )
