"""The gradient of the word embeddings by rows: on a CPU, filling a dense one in every pass costs a tenth of a step."""

from types import TracebackType

import torch
from torch import Tensor, nn


class RowGradients:
    """Within its `with` block passes give sparse gradients; `densify` turns their sum into the exact dense gradient.

    One dense buffer is kept and only the rows in use are cleared. Does nothing on other devices, which fill fast.
    """

    def __init__(self, embeddings: nn.Embedding) -> None:
        self._embeddings = embeddings
        self._buffer: Tensor | None = None
        self._rows = torch.empty(0, dtype=torch.long)

    def densify(self) -> None:
        """Make the gradient dense, for clipping and the optimizer."""
        weight = self._embeddings.weight
        gradient = weight.grad
        if gradient is None or not gradient.is_sparse:
            return
        if self._buffer is None:
            self._buffer = torch.zeros_like(weight, requires_grad=False)
        self._buffer[self._rows] = 0.0
        self._rows = gradient._indices()[0]
        weight.grad = self._buffer.index_add_(0, self._rows, gradient._values())

    def __enter__(self) -> "RowGradients":
        self._embeddings.sparse = self._embeddings.weight.device.type == "cpu"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._embeddings.sparse = False
