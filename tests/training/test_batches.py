import pytest
import torch

from tests.models.tiny import FAMILIES, tiny_tokenizer
from tune_tickets.training.batches import Batches, EncodedRows, encode, epoch_order, in_order

SENTENCES = ["the film was good", "a bad plot with bad films", "fine", "dull film", "good good good good good"]


def rows_of_lengths(lengths: list[int], labels: list[int] | None = None) -> EncodedRows:
    """Row i consists of the token i + 1."""
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.int32)
    for row, length in enumerate(lengths):
        ids[row, :length] = row + 1
    return EncodedRows(ids, None, torch.tensor(lengths), torch.tensor(labels or [0] * len(lengths)))


def random_lengths(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(5, 60, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_is_what_the_tokenizer_would_give_padded(family, tmp_path):
    tokenizer = tiny_tokenizer(family, tmp_path)
    rows = encode(tokenizer, [(text,) for text in SENTENCES], [0, 1, 0, 1, 0], max_length=6)
    batch = rows.batch(torch.tensor([3, 2]), torch.device("cpu"))
    expected = tokenizer([SENTENCES[3], SENTENCES[2]], truncation=True, max_length=6, padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert torch.equal(batch["attention_mask"], expected["attention_mask"])
    assert batch["labels"].tolist() == [1, 0]
    assert batch["input_ids"].dtype == batch["labels"].dtype == torch.long


def test_pairs_keep_their_token_types(tmp_path):
    tokenizer = tiny_tokenizer("bert", tmp_path)
    pairs = [("good film", "bad plot"), ("fine", "the plot was dull")]
    rows = encode(tokenizer, pairs, [0, 1], max_length=20)
    batch = rows.batch(torch.tensor([0, 1]), torch.device("cpu"))
    expected = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt")
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor)
    assert batch["token_type_ids"].sum() > 0


def test_models_without_token_types_get_none(tmp_path):
    pairs = [("good film", "bad plot"), ("fine", "dull")]
    rows = encode(tiny_tokenizer("roberta", tmp_path), pairs, [0, 1], max_length=30)
    assert set(rows.batch(torch.tensor([0]), torch.device("cpu"))) == {"input_ids", "attention_mask", "labels"}


def test_every_epoch_holds_each_row_once_in_another_order():
    lengths = random_lengths(101)
    epochs = [torch.cat(epoch_order(lengths, 8, seed=3, epoch=epoch)).tolist() for epoch in range(3)]
    assert all(sorted(epoch) == list(range(101)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert torch.cat(epoch_order(lengths, 8, seed=3, epoch=1)).tolist() == epochs[1]
    assert torch.cat(epoch_order(lengths, 8, seed=4, epoch=1)).tolist() != epochs[1]


def test_the_batch_of_a_step_does_not_depend_on_how_one_got_there():
    rows = rows_of_lengths(random_lengths(53).tolist())
    straight = Batches(rows, 8, seed=1)
    assert straight.steps_per_epoch == 7
    seen = [straight[step]["input_ids"] for step in range(20)]
    torch.manual_seed(99)
    for step in (19, 0, 8, 7, 13):
        assert torch.equal(Batches(rows, 8, seed=1)[step]["input_ids"], seen[step])


def test_grouping_by_length_saves_padding_but_does_not_sort_the_epoch():
    lengths = random_lengths(1000)
    batches = epoch_order(lengths, 16, seed=0, epoch=0)
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    plain = torch.split(torch.randperm(1000, generator=torch.Generator().manual_seed(0)), 16)
    unsorted = sum(int(lengths[batch].max()) * len(batch) for batch in plain)
    assert padded - int(lengths.sum()) < 0.4 * (unsorted - int(lengths.sum()))
    longest = torch.tensor([int(lengths[batch].max()) for batch in batches]).double()
    positions = torch.arange(len(batches)).double()
    assert torch.corrcoef(torch.stack([longest, positions]))[0, 1].abs() < 0.3


def test_labels_are_mixed_even_if_the_rows_are_sorted_by_label():
    labels = torch.tensor([0] * 500 + [1] * 500)
    shares = [labels[batch].double().mean().item() for batch in epoch_order(random_lengths(1000), 20, 0, 0)]
    assert all(0.1 <= share <= 0.9 for share in shares)


def test_in_order_gives_all_rows_once_in_their_order():
    rows = rows_of_lengths([3, 1, 4, 1, 5], [0, 1, 0, 1, 1])
    batches = list(in_order(rows, 2))
    assert torch.cat([batch["labels"] for batch in batches]).tolist() == [0, 1, 0, 1, 1]
    assert [tuple(batch["input_ids"].shape) for batch in batches] == [(2, 3), (2, 4), (1, 5)]
    assert batches[0]["input_ids"].tolist() == [[1, 1, 1], [2, 0, 0]]
    assert batches[0]["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
