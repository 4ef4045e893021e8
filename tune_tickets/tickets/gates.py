"""Learnable importance coefficients of heads and neurons (EarlyRobust eq. 3 and 4), attached to a model by hooks."""

from collections.abc import Iterable, Sequence
from types import TracebackType

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle


class Gates(nn.Module):
    """One coefficient per head, [layers, heads], and per neuron, [layers, neurons]; float32, 1 at the start."""

    def __init__(self, layers: int, heads: int, neurons: int, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.heads = nn.Parameter(torch.ones(layers, heads, dtype=torch.float32, device=device))
        self.neurons = nn.Parameter(torch.ones(layers, neurons, dtype=torch.float32, device=device))

    def attach(self, attention_outputs: Iterable[nn.Module], outputs: Iterable[nn.Module]) -> "Attachment":
        """Scale the inputs of the two output projections of every layer until removed.

        This equals scaling head outputs and neurons, with any attention kernel.
        """
        handles = [
            *(_scale_input(module, self.heads, layer) for layer, module in enumerate(attention_outputs)),
            *(_scale_input(module, self.neurons, layer) for layer, module in enumerate(outputs)),
        ]
        return Attachment(handles)


class Attachment:
    """Gates that act on a model until `remove()`, or until the end of a `with` block."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Take the gates off the model."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def penalty(gates: Gates, lambda_heads: float, lambda_neurons: float) -> Tensor:
    """The sparsity regulariser R(c), EarlyRobust eq. 5: a weighted sum of magnitudes per kind."""
    return lambda_heads * gates.heads.abs().sum() + lambda_neurons * gates.neurons.abs().sum()


def _scale_input(module: nn.Module, coefficients: nn.Parameter, layer: int) -> RemovableHandle:
    def scale(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states, *others = inputs
        # A head's coefficient covers all of its columns, a neuron's just one.
        per_column = coefficients[layer].repeat_interleave(states.shape[-1] // coefficients.shape[1])
        return (states * per_column).to(states.dtype), *others

    return module.register_forward_pre_hook(scale)
