"""Which weight matrices an unstructured mask covers: RobustT's list (73 in a 12-layer BERT), and that of SRNets."""

from torch import nn
from transformers import PreTrainedModel

from tune_tickets.models.anatomy import layer_parts


def weight_matrices(model: PreTrainedModel) -> dict[str, nn.Linear]:
    """The maskable linears by the name of their weight in the state dict, first layer first, the pooler last.

    Q, K, V, attention output, intermediate and output of every layer, and the pooler's dense where the encoder has one.
    RoBERTa and ELECTRA have none: the dense of their classification head does its work, but is new for every task, and
    a ticket is a part of what was pre-trained. So it is left alone like every classifier.
    """
    pooler = getattr(model.base_model, "pooler", None)
    return _by_name(model, [*_of_layers(model), *([] if pooler is None else [pooler.dense])])


def matrices_with_classifier(model: PreTrainedModel, pooler: bool) -> dict[str, nn.Linear]:
    """The linears that SRNets mask: those of every layer and the classifier, by the name of their weight.

    With `pooler` also the dense layer between them: BERT's pooler, or that of RoBERTa's classification head.
    """
    heads = (getattr(model.base_model, "pooler", None), model.classifier)
    parts = [part for head in heads if isinstance(head, nn.Module) for part in head.modules()]
    *between, classifier = [part for part in parts if isinstance(part, nn.Linear)]
    return _by_name(model, [*_of_layers(model), *(between if pooler else []), classifier])


def _of_layers(model: PreTrainedModel) -> list[nn.Linear]:
    return [
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


def _by_name(model: PreTrainedModel, linears: list[nn.Linear]) -> dict[str, nn.Linear]:
    names = {module: f"{name}.weight" for name, module in model.named_modules()}
    return {names[linear]: linear for linear in linears}


def output_projections(model: PreTrainedModel) -> tuple[dict[str, nn.Linear], dict[str, nn.Linear]]:
    """The projections whose input columns are heads (attention output) and neurons (output), by layer."""
    names = {module: f"{name}.weight" for name, module in model.named_modules()}
    parts = layer_parts(model)
    return (
        {names[part.attention_output]: part.attention_output for part in parts},
        {names[part.output]: part.output for part in parts},
    )
