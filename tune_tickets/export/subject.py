"""What is exported: a ticket or a whole classifier. Also its export as a plain transformers folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.errors import ConfigError, ResourceError, TicketsError
from tune_tickets.export.mean_pooling import write_code
from tune_tickets.models.classifier import load_classifier
from tune_tickets.models.families.base import POOLING
from tune_tickets.models.loading import TICKETS, open_ticket, ticket_file
from tune_tickets.models.surgery import regrow
from tune_tickets.models.tokenizer import tokenizer_files
from tune_tickets.tickets.ticket import Ticket, read_ticket

TOLERANCE = 1e-4
"""Largest difference of logits between an export and the ticket."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained model in eval mode on the CPU, its tokenizer, and its ticket if it is one."""

    name: str
    """A short name, also for the default folder."""
    folder: Path
    """Its folder; exports are written next to it."""
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    labels: tuple[str, ...]
    max_length: int
    ticket: Ticket | None
    file: Path | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The text columns it reads. For a classifier that is not a ticket, one is assumed."""
        return self.ticket.metadata.text_columns if self.ticket is not None else ("text",)

    @property
    def reads_mean(self) -> bool:
        """Whether the classifier reads the mean of all tokens (`model.pooling: mean`)."""
        return getattr(self.model.config, POOLING, None) == "mean"

    def tokens(self, rows: Sequence[tuple[str, ...]]) -> dict[str, torch.Tensor]:
        """Return rows of texts as inputs of the model."""
        texts = map(list, zip(*rows, strict=True))
        return dict(
            self.tokenizer(*texts, truncation=True, max_length=self.max_length, padding=True, return_tensors="pt")
        )


def find_subject(source: str, task: str | None = None) -> Subject:
    """Load what is exported.

    Args:
        source: A ticket file, a results folder (its best ticket), or a transformers model.
        task: A further task: the ticket of the results folder for this task.

    Raises:
        ConfigError: There is no ticket for the task.
        ResourceError: There is no model in the folder.
    """
    path = Path(source).expanduser()
    if task is not None:
        return _ticket(_on_task(path, task))
    if path.is_file() or any((path / name).is_file() for name in TICKETS):
        return _ticket(ticket_file(path))
    return _classifier(source, path)


def _on_task(path: Path, task: str) -> Path:
    file = path / f"best_ticket.{task}.safetensors"
    if not file.is_file():
        known = sorted(found.name.split(".")[1] for found in path.glob("best_ticket.*.safetensors"))
        has = (
            f"it has {', '.join(known)}" if known else "it has none: name a results folder of a search with `transfer:`"
        )
        raise ConfigError(f"{path} has no ticket for the further task {task!r}; {has}")
    return file


def _ticket(file: Path) -> Subject:
    ticket = read_ticket(file)
    loaded = open_ticket(ticket, str(file))
    story = ticket.metadata
    folder = file.resolve().parent
    # A ticket with the default file name gets the name of its folder.
    name = folder.name if file.name == TICKETS[0] else file.name.removesuffix(".safetensors")
    place = folder.parent if file.name == TICKETS[0] else folder
    return Subject(name, place, loaded.model, loaded.tokenizer, story.labels, story.max_length, ticket, file)


def _classifier(source: str, path: Path) -> Subject:
    if path.is_dir() and not (path / "config.json").is_file():
        raise ResourceError(
            f"{source} is neither a results folder with a best ticket, nor an exported ticket, nor a transformers "
            "folder"
        )
    found = load_classifier(source)
    place = path.resolve().parent if path.is_dir() else Path.cwd()
    model = found.model.cpu()
    return Subject(path.resolve().name, place, model, found.tokenizer, found.labels, found.max_length, None)


def sample_texts(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return rows of empty, short and longer texts to compare logits on. Very long pairs would take seconds."""
    sentence = "a gripping, beautifully acted film that was never dull "
    return [(sentence * times,) * len(columns) for times in (0, 1, 3)] + [("good",) * len(columns)]


def name_labels(model: PreTrainedModel, labels: Sequence[str]) -> None:
    """Put the names of the labels into the configuration of the model."""
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: index for index, label in enumerate(labels)}


def write_tokenizer(subject: Subject, folder: Path) -> None:
    """Write the tokenizer, with the ticket's length as its limit for `truncation=True`."""
    tokenizer = subject.tokenizer
    tokenizer.model_max_length = subject.max_length
    for name, content in tokenizer_files(tokenizer).items():
        (folder / name).write_bytes(content)


def write_transformers(subject: Subject, folder: Path) -> None:
    """Write config, weights and tokenizer. The model has full size, with zeros where it was cut.

    Transformers has no class for a classifier on the mean of all tokens: its code is written next to the weights.

    Raises:
        ConfigError: It is not a ticket.
        TicketsError: The logits differ from those of the ticket; nothing is written.
    """
    if subject.ticket is None:
        raise ConfigError(f"{subject.name} is already a transformers model: use --format onnx")
    dense = regrow(subject.model, subject.ticket.mask)
    inputs = subject.tokens(sample_texts(subject.columns))
    with torch.inference_mode():
        difference = float((dense(**inputs).logits - subject.model(**inputs).logits).abs().max())
    if not difference <= TOLERANCE:
        raise TicketsError(f"the logits of the full-size model differ by {difference:.2g}: nothing was written")
    name_labels(dense, subject.labels)
    dense.save_pretrained(folder, safe_serialization=True)
    write_tokenizer(subject, folder)
    if subject.reads_mean:
        write_code(dense, folder)
