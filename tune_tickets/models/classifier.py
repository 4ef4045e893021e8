"""Trained classifiers from a ticket file, a transformers folder or the hub."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.task import Model
from tune_tickets.errors import ConfigError, DataError, ResourceError
from tune_tickets.models.backbone import quiet_transformers, read_config, read_document
from tune_tickets.models.families import find_family
from tune_tickets.models.loading import TICKETS, LoadedTicket, load_ticket, probabilities
from tune_tickets.models.source import backbone_folder
from tune_tickets.models.tokenizer import open_tokenizer


@dataclass(frozen=True, eq=False)
class Classifier:
    """A trained model in eval mode. `columns` are the texts it reads; None if only its author knows."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    labels: tuple[str, ...]
    columns: tuple[str, ...] | None
    max_length: int

    def probabilities(self, rows: Sequence[tuple[str, ...]], batch_size: int = 32) -> Tensor:
        """The probability of every label for each text, or for each pair of texts."""
        for row in rows:
            self.check_texts(len(row))
        return probabilities(self.model, self.tokenizer, rows, self.max_length, batch_size)

    def check_texts(self, count: int) -> None:
        """Refuse rows of more or fewer texts than the model reads."""
        if self.columns is not None and count != len(self.columns):
            wanted = "one text" if len(self.columns) == 1 else f"a pair of texts ({' and '.join(self.columns)})"
            raise DataError(f"{self.name} reads {wanted}, but {count} were given")


def load_classifier(source: str) -> Classifier:
    """The classifier behind a ticket file or folder, a transformers folder or a hub id; on a GPU if there is one."""
    path = Path(source).expanduser()
    file = next((path / name for name in TICKETS if (path / name).is_file()), path)
    classifier = ticket_classifier(load_ticket(file), source) if file.is_file() else _from_folder(source)
    classifier.model.to("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[arg-type]
    return classifier


def ticket_classifier(ticket: LoadedTicket, name: str) -> Classifier:
    """A ticket that was loaded already; reports and errors call it `name`."""
    story = ticket.metadata
    return Classifier(name, ticket.model, ticket.tokenizer, story.labels, story.text_columns, story.max_length)


def _from_folder(source: str) -> Classifier:
    try:
        folder = backbone_folder(Model(source=source))
    except ResourceError as error:
        raise ResourceError(f"{source!r} is no ticket file, nor a model that can be used: {error}") from None
    with quiet_transformers():
        tokenizer = open_tokenizer(folder, source)
        model = _network(source, folder)
    names = model.config.id2label or {}
    labels = tuple(str(names[index]) for index in sorted(names))
    if len(labels) < 2:
        raise ConfigError(f"{source} has {len(labels)} label: it is no classifier")
    return Classifier(source, model.eval(), tokenizer, labels, None, _max_length(model, tokenizer))  # type: ignore[no-untyped-call]


def _network(source: str, folder: Path) -> PreTrainedModel:
    try:
        # The module of a family may register its model with transformers.
        family = find_family(read_document(folder))
        model, info = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=read_config(folder),
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except ResourceError:
        raise
    except Exception as error:  # safetensors, transformers and torch each have their own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ResourceError(
            f"{source}: cannot be read as a text classifier ({reason}); take a complete copy"
        ) from error
    network: PreTrainedModel = model
    if family is not None:
        family.attach_pooling(network)  # a mean-pooled model has no pooler
    if missing := sorted({*info["missing_keys"]} & {name for name, _ in network.named_parameters()}):
        raise ResourceError(
            f"{source} is no trained classifier: {len(missing)} weights such as {missing[0]} are not in it. "
            "Fine-tune it first, or name a model that was saved with its classifier"
        )
    return network


def _max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    family = find_family(model)
    # Models without a family can be attacked, though not pruned.
    room = getattr(model.config, "max_position_embeddings", None) if family is None else family.positions(model)
    return min(int(room or tokenizer.model_max_length), int(tokenizer.model_max_length))
