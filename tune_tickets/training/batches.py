"""Tokenised rows and their batches. A batch is a pure function of (seed, step), so a training can resume."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from tune_tickets.models.seeding import derived_seed

Batch = dict[str, Tensor]
"""input_ids, attention_mask, token_type_ids for pairs (where the model has them), labels, and columns for the loss."""

MODEL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

PERTURBED = "perturbed"
"""The tokens, [rows, tokens], that an adversary may move. Without this entry it may move all of them."""

ROW = "row"
"""The number of each row of the batch among all training rows, for adversaries that rewrite their texts."""

WINDOW = 8
"""How many batches are sorted by length together: enough to save most padding, few enough to stay random."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows as token ids, padded to the longest. `input_ids` and `token_type_ids`, if any, are int32 [rows, tokens]."""

    input_ids: Tensor
    token_type_ids: Tensor | None
    lengths: Tensor
    labels: Tensor
    columns: dict[str, Tensor] = field(default_factory=dict)
    """What a loss needs to know about every row in addition to its label, by name. The first dimension is rows."""
    texts: "RowTexts | None" = None
    """The texts behind the tokens, if an adversary rewrites them."""

    def __len__(self) -> int:
        return len(self.labels)

    def with_columns(self, columns: dict[str, Tensor]) -> "EncodedRows":
        """The same rows with further columns in their batches. Models do not see them."""
        return replace(self, columns={**self.columns, **columns})

    def with_texts(self, texts: "RowTexts") -> "EncodedRows":
        """The same rows with their texts. Batches then say which rows they hold."""
        return replace(self.with_columns({ROW: torch.arange(len(self))}), texts=texts)

    def batch(self, rows: Tensor, device: torch.device) -> Batch:
        """The named rows, padded to the longest of them."""
        lengths = self.lengths[rows]
        longest = int(lengths.max())
        batch = {
            "input_ids": self.input_ids[rows, :longest].long(),
            "attention_mask": (torch.arange(longest) < lengths.unsqueeze(1)).long(),
            "labels": self.labels[rows],
            **{name: column[rows] for name, column in self.columns.items()},
        }
        if self.token_type_ids is not None:
            batch["token_type_ids"] = self.token_type_ids[rows, :longest].long()
        return {name: tensor.to(device) for name, tensor in batch.items()}


@dataclass(frozen=True, eq=False)
class RowTexts:
    """What an adversary needs to rewrite rows."""

    texts: Sequence[tuple[str, ...]]
    """The texts of every row."""
    column: int
    """Which text of a row may change: the one that attacks change."""
    substitutes: Mapping[str, Sequence[str]]
    """Lower-case word -> its substitutes."""
    encode: Callable[[Sequence[tuple[str, ...]]], EncodedRows]
    """Turns rewritten texts into tokens, as the rows were."""


def model_inputs(batch: Batch) -> Batch:
    """The entries of a batch that the model reads."""
    return {name: batch[name] for name in MODEL_INPUTS if name in batch}


def encode(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[tuple[str, ...]], labels: Sequence[int], max_length: int
) -> EncodedRows:
    """Tokenise texts or pairs of texts, truncated to `max_length` tokens."""
    columns = [list(column) for column in zip(*texts, strict=True)]
    encoded = tokenizer(*columns, truncation=True, max_length=max_length)
    types = encoded.get("token_type_ids") if len(columns) == 2 else None
    return EncodedRows(
        input_ids=_padded(encoded["input_ids"], tokenizer.pad_token_id),
        token_type_ids=None if types is None else _padded(types, 0),
        lengths=torch.tensor([len(ids) for ids in encoded["input_ids"]]),
        labels=torch.tensor(labels, dtype=torch.long),
    )


class Batches:
    """The endless sequence of shuffled training batches, indexed by step from 0."""

    def __init__(self, rows: EncodedRows, batch_size: int, seed: int, device: torch.device | str = "cpu") -> None:
        self._rows = rows
        self._batch_size = batch_size
        self._seed = seed
        self._device = torch.device(device)
        self._epoch: tuple[int, list[Tensor]] = (-1, [])
        self.row_count = len(rows)
        self.texts = rows.texts
        self.steps_per_epoch = -(-len(rows) // batch_size)

    def __getitem__(self, step: int) -> Batch:
        epoch, position = divmod(step, self.steps_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = epoch, epoch_order(self._rows.lengths, self._batch_size, self._seed, epoch)
        return self._rows.batch(self._epoch[1][position], self._device)


def epoch_order(lengths: Tensor, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """The rows of each batch of an epoch: shuffled, sorted by length within windows, batches shuffled again."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "order", epoch))
    shuffled = torch.randperm(len(lengths), generator=generator)
    windows = torch.split(shuffled, batch_size * WINDOW)
    grouped = torch.cat([window[lengths[window].argsort(stable=True)] for window in windows])
    batches = torch.split(grouped, batch_size)
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


def in_order(rows: EncodedRows, batch_size: int, device: torch.device | str = "cpu") -> Iterator[Batch]:
    """All rows once, in their own order, for evaluation."""
    for part in torch.split(torch.arange(len(rows)), batch_size):
        yield rows.batch(part, torch.device(device))


def _padded(sequences: Sequence[Sequence[int]], value: int) -> Tensor:
    return pad_sequence([torch.tensor(ids, dtype=torch.int32) for ids in sequences], True, float(value))
