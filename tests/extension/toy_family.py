"""A model family outside the package: an encoder of its own, registered with transformers, and the class for it.

It shares no attribute name with BERT. Query, key and value are one projection, the feed-forward part is gated, layers
normalise first, and the classifier reads the mean of all tokens.
"""

import re

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

from tune_tickets.models.families.base import Family, Projection
from tune_tickets.tickets.survival import Place


class ToyFamily(Family):
    """All that the package must know of the encoder below."""

    model_types = ("toy-encoder",)
    shape = ("model_type", "depth", "attention_heads", "width", "inner")

    def layers(self, model):
        return list(model.base_model.blocks)

    def projections(self, layer):
        return (
            Projection(layer.attn.qkv, "heads", 0, blocks=3),
            Projection(layer.attn.out, "heads", 1),
            Projection(layer.mlp.up, "neurons", 0, blocks=2),
            Projection(layer.mlp.down, "neurons", 1),
        )

    def keep_heads(self, layer, kept, head_size):
        layer.attn.heads = int(kept.sum())

    def place(self, weight):
        found = re.search(r"blocks\.(\d+)\.(attn\.qkv|attn\.out|mlp\.up|mlp\.down)\.weight$", weight)
        parts = {"attn.qkv": ("heads", 0, 3), "attn.out": ("heads", 1), "mlp.up": ("neurons", 0, 2)}
        return None if found is None else Place(int(found[1]), *parts.get(found[2], ("neurons", 1)))

    def classifier(self, model):
        return getattr(model, "answer", None)


class ToyConfig(PretrainedConfig):
    model_type = "toy-encoder"
    attribute_map = {  # noqa: RUF012 - as transformers has it
        "num_hidden_layers": "depth",
        "num_attention_heads": "attention_heads",
        "hidden_size": "width",
        "intermediate_size": "inner",
        "max_position_embeddings": "longest",
    }

    def __init__(self, vocab_size=100, width=32, depth=2, attention_heads=4, inner=48, longest=40, **others):
        self.vocab_size, self.width, self.depth, self.longest = vocab_size, width, depth, longest
        self.attention_heads, self.inner = attention_heads, inner
        self.initializer_range = 0.1
        super().__init__(**others)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.attention_heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        rows, tokens, _ = states.shape
        query, key, value = self.qkv(states).view(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = Attention(config)
        self.mlp = nn.Module()
        self.mlp.up = nn.Linear(config.width, 2 * config.inner, bias=False)
        self.mlp.down = nn.Linear(config.inner, config.width)
        self.before_attn, self.before_mlp = nn.LayerNorm(config.width), nn.LayerNorm(config.width)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        states = states + self.attn(self.before_attn(states), mask)
        value, gate = self.mlp.up(self.before_mlp(states)).chunk(2, dim=-1)
        return states + self.mlp.down(functional.gelu(gate) * value)


class ToyPreTrained(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "toy"
    _supports_sdpa = True


class ToyModel(ToyPreTrained):
    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.width)
        self.order = nn.Embedding(config.longest, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.post_init()

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **others) -> BaseModelOutput:
        states = self.words(input_ids) + self.order.weight[: input_ids.shape[1]]
        seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        for block in self.blocks:
            states = block(states, seen.bool()[:, None, None, :])
        return BaseModelOutput(last_hidden_state=states)


class ToyForSequenceClassification(ToyPreTrained):
    def __init__(self, config):
        super().__init__(config)
        self.toy = ToyModel(config)
        self.answer = nn.Linear(config.width, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **others) -> SequenceClassifierOutput:
        states = self.toy(input_ids, attention_mask=attention_mask).last_hidden_state
        seen = (torch.ones_like(input_ids) if attention_mask is None else attention_mask).unsqueeze(-1)
        return SequenceClassifierOutput(logits=self.answer((states * seen).sum(1) / seen.sum(1)))


AutoConfig.register(ToyConfig.model_type, ToyConfig)
AutoModel.register(ToyConfig, ToyModel)
AutoModelForSequenceClassification.register(ToyConfig, ToyForSequenceClassification)
