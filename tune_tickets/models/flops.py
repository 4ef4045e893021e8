"""Forward FLOPs of an encoder's layers, counted by their shapes: what removed heads and neurons save."""

from transformers import PreTrainedModel

from tune_tickets.models.anatomy import anatomy_of, layer_parts


def relative_flops(model: PreTrainedModel, tokens: int) -> float:
    """Forward FLOPs of the layers of a pruned model in % of the whole model's, for a text of `tokens` tokens.

    Single weights set to 0 save nothing here, as on hardware without sparse kernels.
    """
    anatomy, width = anatomy_of(model), int(model.config.hidden_size)
    left = sum(
        layer_flops(width, parts.query.out_features, parts.intermediate.out_features, tokens)
        for parts in layer_parts(model)
    )
    dense = anatomy.layers * layer_flops(width, anatomy.heads * anatomy.head_size, anatomy.neurons, tokens)
    return 100.0 * left / dense


def layer_flops(width: int, attention: int, neurons: int, tokens: int) -> int:
    """Of one layer whose heads are `attention` wide together; two for each multiplication and addition."""
    projections = 4 * width * attention  # query, key, value and output
    mixing = 2 * tokens * attention  # scores, and the values they weigh
    feed_forward = 2 * width * neurons
    return 2 * tokens * (projections + mixing + feed_forward)
