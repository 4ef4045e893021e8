"""What is exported: the ticket behind a path, or a whole classifier that was never pruned."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.models.classifier import load_classifier
from tune_tickets.models.loading import TICKETS, open_ticket, ticket_file
from tune_tickets.tickets.ticket import Ticket, read_ticket


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained model in eval mode on the CPU, its tokenizer, and the ticket it comes from, if it is one."""

    name: str
    """Short, for people and for the default folder."""
    folder: Path
    """Where it lies; exports go beside it."""
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    labels: tuple[str, ...]
    max_length: int
    ticket: Ticket | None
    file: Path | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The texts it reads; of a foreign classifier only its author knows, one is assumed."""
        return self.ticket.metadata.text_columns if self.ticket is not None else ("text",)


def find_subject(source: str, task: str | None = None) -> Subject:
    """Read a ticket file, the best ticket of a results folder (on a further `task`), or a transformers model."""
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
    # A ticket named as all are takes the name of its folder.
    name = folder.name if file.name == TICKETS[0] else file.name.removesuffix(".safetensors")
    place = folder.parent if file.name == TICKETS[0] else folder
    return Subject(name, place, loaded.model, loaded.tokenizer, story.labels, story.max_length, ticket, file)


def _classifier(source: str, path: Path) -> Subject:
    if path.is_dir() and not (path / "config.json").is_file():
        raise ResourceError(
            f"{source} is no results folder with a best ticket, no exported ticket and no transformers folder"
        )
    found = load_classifier(source)
    place = path.resolve().parent if path.is_dir() else Path.cwd()
    model = found.model.cpu()
    return Subject(path.resolve().name, place, model, found.tokenizer, found.labels, found.max_length, None)


def sample_texts(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Texts from none to some words, as many in a row as the model reads. Cutting long pairs takes seconds."""
    sentence = "a gripping, beautifully acted film that was never dull "
    return [(sentence * times,) * len(columns) for times in (0, 1, 3)] + [("good",) * len(columns)]
