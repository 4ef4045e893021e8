"""Regrowth, surgery undone: a pruned model at its full size again, with zeros where heads and neurons were cut."""

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from tune_tickets.models.anatomy import anatomy_of, layer_parts
from tune_tickets.models.backbone import quiet_transformers
from tune_tickets.tickets.mask import StructuredMask


def regrow(model: PreTrainedModel, mask: StructuredMask) -> PreTrainedModel:
    """The model of dense shape that answers as the pruned one does; software that knows no pruned layers can load it.

    Of what was cut everything is zero, biases too: a cut head mixes values that are all 0, and the columns of the
    output projections that read cut heads and neurons are 0 besides, whatever the activation makes of 0.
    """
    size = anatomy_of(model).head_size
    # Building draws random weights, which are overwritten; the caller's random numbers stay untouched.
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        dense: PreTrainedModel = AutoModelForSequenceClassification.from_config(model.config)  # type: ignore[no-untyped-call]
    full, small = dense.state_dict(), model.state_dict()
    dense.load_state_dict(full | {name: part for name, part in small.items() if part.shape == full[name].shape})
    for layer, (wide, narrow) in enumerate(zip(layer_parts(dense), layer_parts(model), strict=True)):
        columns = mask.heads[layer].repeat_interleave(size).nonzero().flatten()
        neurons = mask.neurons[layer].nonzero().flatten()
        for name in ("query", "key", "value"):
            _place_rows(getattr(wide, name), getattr(narrow, name), columns)
        _place_columns(wide.attention_output, narrow.attention_output, columns)
        _place_rows(wide.intermediate, narrow.intermediate, neurons)
        _place_columns(wide.output, narrow.output, neurons)
    return dense.eval()  # type: ignore[no-untyped-call, no-any-return]


@torch.no_grad()
def _place_rows(wide: nn.Linear, narrow: nn.Linear, rows: Tensor) -> None:
    wide.weight.zero_()[rows] = narrow.weight.cpu()
    if narrow.bias is not None:
        wide.bias.zero_()[rows] = narrow.bias.cpu()


@torch.no_grad()
def _place_columns(wide: nn.Linear, narrow: nn.Linear, columns: Tensor) -> None:
    wide.weight.zero_()[:, columns] = narrow.weight.cpu()
