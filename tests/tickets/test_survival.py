"""The share of weights kept in heads and MLP, by hand."""

import pytest
import torch

from tune_tickets.errors import StoreError
from tune_tickets.models.families.bert import Bert
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.survival import Place, survival
from tune_tickets.tickets.unstructured import UnstructuredMask

place = Bert().place


def test_heads_and_neurons_of_a_structured_mask():
    heads = torch.tensor([[True, False], [True, True]])
    neurons = torch.tensor([[True, True, True, False], [False, False, False, True]])
    found = survival(StructuredMask(heads, neurons), place)
    assert found.heads.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert found.mlp.tolist() == [0.75, 0.25]


def unstructured():
    """One layer, 4 wide, 2 heads of 2: query has lost its first head, the attention output its last column."""
    names = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
    kept = {f"bert.encoder.layer.0.{name}.weight": torch.ones(4, 4, dtype=torch.bool) for name in names}
    kept["bert.encoder.layer.0.attention.self.query.weight"][:2] = False
    kept["bert.encoder.layer.0.attention.output.dense.weight"][:, 3] = False
    kept["bert.encoder.layer.0.intermediate.dense.weight"] = torch.ones(8, 4, dtype=torch.bool)
    kept["bert.encoder.layer.0.output.dense.weight"] = torch.zeros(4, 8, dtype=torch.bool)
    kept["bert.pooler.dense.weight"] = torch.zeros(4, 4, dtype=torch.bool)
    return kept


def test_single_weights_belong_to_rows_of_qkv_and_columns_of_the_output():
    found = survival(UnstructuredMask(unstructured()), place, heads=2)
    # Each head owns 4 x 8 weights: the first lost the 8 of its query, the second 4 of its output columns.
    assert found.heads.tolist() == [[24 / 32, 28 / 32]]
    assert found.mlp.tolist() == [0.5]


def test_without_their_number_all_heads_are_one():
    assert survival(UnstructuredMask(unstructured()), place).heads.tolist() == [[52 / 64]]


def test_names_without_layers_are_refused():
    with pytest.raises(StoreError, match="do not say which layers"):
        survival(UnstructuredMask({"a.weight": torch.ones(2, 2, dtype=torch.bool)}), place)


def test_a_fused_projection_has_the_rows_of_a_head_in_every_block():
    """Wqkv, 3 blocks of 2 heads of 2 rows: the first head has lost its query, the second half of its value."""
    fused = torch.ones(12, 4, dtype=torch.bool)
    fused[[0, 1, 11]] = False
    places = {"wqkv": Place(0, "heads", 0, blocks=3), "wi": Place(0, "neurons", 0, blocks=2)}
    kept = {"wqkv": fused, "wi": torch.ones(4, 4, dtype=torch.bool)}
    assert survival(UnstructuredMask(kept), places.get, heads=2).heads.tolist() == [[4 / 6, 5 / 6]]
