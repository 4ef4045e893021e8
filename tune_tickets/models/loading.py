"""Ticket files as models: load one, predict with it, read its mask, describe the configuration of a new one."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from tune_tickets.config.task import Model
from tune_tickets.errors import ConfigError, DataError, ResourceError, StoreError
from tune_tickets.models.backbone import empty_network, quiet_transformers
from tune_tickets.models.families import family_of
from tune_tickets.models.surgery import prune
from tune_tickets.models.tokenizer import tokenizer_from_files
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket, TicketMetadata, read_ticket
from tune_tickets.tickets.unstructured import UnstructuredMask

TICKETS = ("ticket.safetensors", "best_ticket.safetensors")
"""The ticket of an exported folder, and the best one of a results folder."""


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
        if isinstance(texts, str):  # for Python a sequence of letters
            raise DataError(f"predict takes a list of texts: write predict([{texts!r}])")
        rows = [_parts(index, row, self.metadata.text_columns) for index, row in enumerate(texts)]
        best = probabilities(self.model, self.tokenizer, rows, self.metadata.max_length, batch_size).max(dim=-1)
        return [
            (self.labels[index], probability)
            for index, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def _parts(index: int, row: object, columns: tuple[str, ...]) -> tuple[str, ...]:
    """One row as texts. Tables may have empty cells, which are no texts."""
    parts = tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,)
    if len(parts) != len(columns):
        raise DataError(f"text {index} has {len(parts)} parts, this ticket reads {len(columns)}: {columns}")
    for part in parts:
        if not isinstance(part, str):
            raise DataError(f"text {index} is {part!r}, which is no text: leave such rows out, or write ''")
    return parts


def load_ticket(path: str | Path) -> LoadedTicket:
    """Load a ticket as a model. The file holds everything: neither a hub nor the backbone is needed.

    A ticket of a model family outside this package (`model.family`) imports the module of that family.

    Args:
        path: A ticket file, a results folder, or a folder written by `tune-tickets export --format pruned`.

    Returns:
        The model with its tokenizer, labels, mask and metadata.

    Raises:
        ResourceError: There is no ticket at `path`, or its model family is not installed.
        StoreError: The file is damaged.

    >>> load_ticket("results/reviews").predict(["a gripping, beautifully acted film"])
    [('positive', 0.98)]
    """
    file = ticket_file(Path(path).expanduser())
    return open_ticket(read_ticket(file), str(file))


def ticket_file(path: Path) -> Path:
    """The ticket in a folder. Any other path is returned unchanged."""
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
    """Build the model and tokenizer of a ticket that was read; errors call it `where`."""
    settings = dict(ticket.metadata.config)
    family = family_of(settings)
    # Building draws random weights, which are overwritten. The caller's random numbers stay untouched.
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        try:
            config = AutoConfig.for_model(settings.pop("model_type"), **settings)
            model: PreTrainedModel = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
            family.attach_pooling(model)
            prune(model, ticket.mask)
            model.load_state_dict(ticket.weights)
        except (KeyError, ValueError, RuntimeError) as error:
            raise StoreError(f"{where}: weights and configuration do not fit together ({error})") from error
        tokenizer = tokenizer_from_files(ticket.tokenizer_files, where)
    model.eval()  # type: ignore[no-untyped-call]
    return LoadedTicket(model, tokenizer, ticket.mask, ticket.metadata)


def config_document(model: PreTrainedModel) -> dict[str, object]:
    """The model's configuration for `TicketMetadata.config`, without the path it was loaded from."""
    document: dict[str, object] = json.loads(model.config.to_json_string(use_diff=False))
    document.pop("_name_or_path", None)
    return document


def given_mask(path: str, model: Model) -> StructuredMask | UnstructuredMask:
    """Read the mask of a finished ticket, so that other tickets can be made like it.

    A ticket file lists heads and neurons that were cut. Single weights that were cut are exactly zero in it.

    Args:
        path: The ticket file.
        model: The `model:` section of the experiment.

    Returns:
        The mask.

    Raises:
        ConfigError: The ticket has another backbone than `model`, or nothing was cut.
    """
    ticket = read_ticket(Path(path).expanduser())
    network, family = empty_network(model, ticket.metadata.labels)
    for key in family.shape:
        theirs, ours = ticket.metadata.config.get(key), getattr(network.config, key)
        if theirs != ours:
            raise ConfigError(
                f"the ticket {path} has {key} {theirs}, but model.source {model.source!r} has {ours}: name a ticket "
                "found in the same backbone (and set the same model.layers)"
            )
    if not (ticket.mask.heads.all() and ticket.mask.neurons.all()):
        return ticket.mask
    matrices = family.weight_matrices(network)
    if lacking := sorted(matrices.keys() - ticket.weights.keys()):
        raise ConfigError(
            f"the ticket {path} has no {lacking[0]}: it reads the mean of tokens, this experiment the first one; "
            "set model.pooling: mean, or name another ticket"
        )
    kept = {name: ticket.weights[name] != 0 for name in matrices}
    if all(bool(matrix.all()) for matrix in kept.values()):
        raise ConfigError(f"the ticket {path} is a whole model, nothing was cut from it; name a ticket that is sparse")
    return UnstructuredMask(kept)


@torch.inference_mode()
def probabilities(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[tuple[str, ...]],
    max_length: int,
    batch_size: int,
) -> Tensor:
    """The probability of every class for each text or pair of texts, in float64 on the CPU; longer texts are cut."""
    found = [torch.empty(0, model.config.num_labels, dtype=torch.float64)]
    for start in range(0, len(rows), batch_size):
        columns = zip(*rows[start : start + batch_size], strict=True)
        inputs = tokenizer(
            *([_without_surrogates(text) for text in column] for column in columns),
            truncation=True,
            max_length=max_length,
            padding=True,
            return_tensors="pt",
        ).to(model.device)
        found.append(model(**inputs).logits.double().softmax(dim=-1).cpu())
    return torch.cat(found)


def _without_surrogates(text: str) -> str:
    # Half a character (a lone surrogate) stops every tokenizer.
    return text.encode("utf-8", "replace").decode("utf-8")
