"""FLOPs of pruned layers, compared with counts by hand and by torch."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification

from tune_tickets.models.surgery import layer_flops, prune, relative_flops
from tune_tickets.tickets.mask import StructuredMask


def test_a_layer_by_hand():
    # One token, width 2, one head of 2, 3 neurons: 4 products of 2x2 and 2 of 2x3; scores and mixing 2 each.
    assert layer_flops(weights=4 * 4 + 2 * 6, attention=2, tokens=1) == 2 * (4 * 4 + 2 * 2 + 2 * 6)


def counted(model, tokens):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.bert.encoder(torch.zeros(1, tokens, 8))
    return counter.get_total_flops()


def test_the_share_is_what_torch_counts():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=4, intermediate_size=12,
        attn_implementation="eager",
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    dense = counted(model, 7)
    assert relative_flops(model, 7) == 100.0
    mask = StructuredMask.full(2, 4, 12)
    mask.heads[0, :2] = False
    mask.neurons[1, :5] = False
    prune(model, mask)
    assert relative_flops(model, 7) == pytest.approx(100.0 * counted(model, 7) / dense)
