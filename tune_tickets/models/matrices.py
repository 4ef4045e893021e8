"""Which weight matrices an unstructured mask covers: the list of RobustT, 73 tensors in a 12-layer BERT."""

from torch import nn
from transformers import PreTrainedModel

from tune_tickets.models.anatomy import layer_parts


def weight_matrices(model: PreTrainedModel) -> dict[str, nn.Linear]:
    """The maskable linears by the name of their weight in the state dict, first layer first, the pooler last.

    Q, K, V, attention output, intermediate and output of every layer, and the pooler's dense where the encoder has one.
    RoBERTa and ELECTRA have none: the dense of their classification head does its work, but is new for every task, and
    a ticket is a part of what was pre-trained. So it is left alone like every classifier.
    """
    names = {module: f"{name}.weight" for name, module in model.named_modules()}
    linears = [
        linear
        for parts in layer_parts(model)
        for linear in (
            parts.query,
            parts.key,
            parts.value,
            parts.attention_output,
            parts.intermediate,
            parts.output,
        )
    ]
    pooler = getattr(model.base_model, "pooler", None)
    if pooler is not None:
        linears.append(pooler.dense)
    return {names[linear]: linear for linear in linears}


def output_projections(model: PreTrainedModel) -> tuple[dict[str, nn.Linear], dict[str, nn.Linear]]:
    """The projections whose input columns are heads (attention output) and neurons (output), by layer."""
    names = {module: f"{name}.weight" for name, module in model.named_modules()}
    parts = layer_parts(model)
    return (
        {names[part.attention_output]: part.attention_output for part in parts},
        {names[part.output]: part.output for part in parts},
    )
