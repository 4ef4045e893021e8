"""From a trained model to a ticket file and back: what an exported ticket needs to be used anywhere."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from tune_tickets.errors import DataError, ResourceError, StoreError
from tune_tickets.models.answers import probabilities
from tune_tickets.models.backbone import quiet_transformers
from tune_tickets.models.surgery import prune
from tune_tickets.models.tokenizer import tokenizer_from_files
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket, TicketMetadata, read_ticket

TICKETS = ("ticket.safetensors", "best_ticket.safetensors")
"""The ticket of an exported folder, and the winner in a results folder."""


@dataclass(frozen=True, eq=False)
class LoadedTicket:
    """A ticket ready to use; the model is pruned, trained and in eval mode."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    mask: StructuredMask
    metadata: TicketMetadata

    @property
    def labels(self) -> tuple[str, ...]:
        """The label names in class order."""
        return self.metadata.labels

    def predict(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], batch_size: int = 32
    ) -> list[tuple[str, float]]:
        """The label and its probability for each text, or for each pair of texts of a pair task."""
        if isinstance(texts, str):  # a sequence of letters to Python, which would all be answered
            raise DataError(f"predict takes a list of texts: write predict([{texts!r}])")
        rows = [_parts(index, row, self.metadata.text_columns) for index, row in enumerate(texts)]
        best = probabilities(self.model, self.tokenizer, rows, self.metadata.max_length, batch_size).max(dim=-1)
        return [
            (self.labels[index], probability)
            for index, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def _parts(index: int, row: object, columns: tuple[str, ...]) -> tuple[str, ...]:
    """One row as texts; tables of others have holes, which are no texts."""
    parts = tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,)
    if len(parts) != len(columns):
        raise DataError(f"text {index} has {len(parts)} parts, this ticket reads {len(columns)}: {columns}")
    for part in parts:
        if not isinstance(part, str):
            raise DataError(f"text {index} is {part!r}, which is no text: leave such rows out, or write ''")
    return parts


def load_ticket(path: str | Path) -> LoadedTicket:
    """Load a ticket as a model. The file holds everything: no hub and no backbone is needed.

    Args:
        path: A ticket file, a results folder, or a folder written by `tune-tickets export --format pruned`.

    Returns:
        The model with its tokenizer, labels, mask and metadata.

    Raises:
        ResourceError: There is no ticket at `path`.
        StoreError: The file is damaged.

    >>> load_ticket("results/reviews").predict(["a gripping, beautifully acted film"])
    [('positive', 0.98)]
    """
    file = ticket_file(Path(path).expanduser())
    return open_ticket(read_ticket(file), str(file))


def ticket_file(path: Path) -> Path:
    """The ticket in a folder; any other path as it is."""
    if not path.is_dir():
        return path
    found = next((path / name for name in TICKETS if (path / name).is_file()), None)
    if found is None:
        raise ResourceError(
            f"{path} holds no {' or '.join(TICKETS)}: name a results folder, a folder written by "
            "`tune-tickets export --format pruned`, or a ticket file"
        )
    return found


def open_ticket(ticket: Ticket, where: str) -> LoadedTicket:
    """Build the model and tokenizer of a ticket that was read; `where` names it in errors."""
    settings = dict(ticket.metadata.config)
    # Building draws random weights, which are overwritten; the caller's random numbers stay untouched.
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        try:
            config = AutoConfig.for_model(settings.pop("model_type"), **settings)
            model: PreTrainedModel = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
            prune(model, ticket.mask)
            model.load_state_dict(ticket.weights)
        except (KeyError, ValueError, RuntimeError) as error:
            raise StoreError(f"{where}: weights and configuration do not belong together ({error})") from error
        tokenizer = tokenizer_from_files(ticket.tokenizer_files, where)
    model.eval()  # type: ignore[no-untyped-call]
    return LoadedTicket(model, tokenizer, ticket.mask, ticket.metadata)


def config_document(model: PreTrainedModel) -> dict[str, object]:
    """The model's configuration for `TicketMetadata.config`, without the path it was loaded from."""
    document: dict[str, object] = json.loads(model.config.to_json_string(use_diff=False))
    document.pop("_name_or_path", None)
    return document
