import pytest
import torch
from torch import nn

from tune_tickets.training.row_gradients import RowGradients

BATCHES = [torch.tensor([[1, 2, 2, 0]]), torch.tensor([[5, 1, 0, 0]]), torch.tensor([[3, 3, 3, 3]])]


def twins() -> tuple[nn.Embedding, nn.Embedding]:
    first = nn.Embedding(8, 4, padding_idx=0, dtype=torch.float64)
    second = nn.Embedding(8, 4, padding_idx=0, dtype=torch.float64)
    second.load_state_dict(first.state_dict())
    return first, second


def passes(embedding: nn.Embedding, ids: torch.Tensor, count: int) -> None:
    for number in range(1, count + 1):
        (embedding(ids) ** 2 * number).sum().backward()


@pytest.mark.parametrize("count", [1, 3])
def test_the_gradient_is_the_dense_one_step_after_step(count):
    dense, rows = twins()
    row_gradients = RowGradients(rows)
    for ids in BATCHES:
        passes(dense, ids, count)
        with row_gradients:
            passes(rows, ids, count)
            assert rows.weight.grad.is_sparse
        row_gradients.densify()
        assert not rows.weight.grad.is_sparse
        torch.testing.assert_close(rows.weight.grad, dense.weight.grad)
        for embedding in (dense, rows):
            # In place, as clipping does, to show that nothing of it stays in the buffer.
            embedding.weight.grad.mul_(0.5)
            embedding.zero_grad()


def test_embeddings_are_left_as_they_were():
    _, rows = twins()
    with RowGradients(rows):
        assert rows.sparse
    assert not rows.sparse


def test_frozen_embeddings_have_no_gradient():
    _, rows = twins()
    rows.weight.requires_grad_(False)
    row_gradients = RowGradients(rows)
    with row_gradients:
        rows(BATCHES[0])
    row_gradients.densify()
    assert rows.weight.grad is None


def test_other_devices_keep_dense_gradients():
    embedding = nn.Embedding(8, 4, device="meta")
    row_gradients = RowGradients(embedding)
    with row_gradients:
        embedding(BATCHES[0].to("meta")).sum().backward()
    row_gradients.densify()
    assert not embedding.weight.grad.is_sparse
