"""Exports a ticket into a folder, which is written under another name, checked and then moved to its place."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from tune_tickets.errors import ConfigError
from tune_tickets.export.card import FILE, MARK, background_of, card
from tune_tickets.export.onnx_model import check_installed, write_onnx
from tune_tickets.export.subject import Subject, find_subject, write_transformers
from tune_tickets.files import put_in_place
from tune_tickets.models.loading import TICKETS
from tune_tickets.tickets.ticket import save_ticket

Form = Literal["hf", "pruned", "onnx"]
FORMATS: tuple[str, ...] = get_args(Form)


def export_ticket(
    source: str,
    form: str,
    output: Path | None = None,
    force: bool = False,
    task: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Export a ticket or a classifier. If anything fails, nothing is left behind.

    Args:
        source: A ticket file, a results folder, or a transformers model.
        form: 'hf', 'pruned' or 'onnx'.
        output: The folder to write; None: next to the source.
        force: Whether to replace an earlier export.
        task: The further task whose ticket is exported, with a results folder.
        say: Called with a line about each step.

    Returns:
        The folder.

    Raises:
        ConfigError: An argument does not fit, or the folder exists.
        ResourceError: A package or the model is missing.
        TicketsError: The export gives other logits than the ticket.
    """
    if form not in FORMATS:
        raise ConfigError(f"--format {form!r} is unknown; use one of {', '.join(FORMATS)}")
    if form == "onnx":
        check_installed()
    if output is not None:
        _check_place(output, force)
    say(f"reading {source}")
    subject = find_subject(source, task)
    target = output or subject.folder / f"{subject.name}-{form}"
    _check_place(target, force)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        folder = Path(scratch) / target.name
        folder.mkdir()
        _write(subject, form, folder, say)
        (folder / FILE).write_text(card(subject, form, background_of(subject)), encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)  # exports are shared, but safetensors lets only the owner read
        if target.exists():
            target.replace(Path(scratch) / "before")
        put_in_place(folder, target)
    return target


def _write(subject: Subject, form: str, folder: Path, say: Callable[[str], None]) -> None:
    if form == "onnx":
        difference = write_onnx(subject, folder, say)
        say(f"the logits differ by at most {difference:.1e}")
    elif form == "hf":
        say("restoring the full size")
        write_transformers(subject, folder)
    elif subject.ticket is None:
        raise ConfigError(f"{subject.name} is not a ticket, nothing was cut: use --format onnx")
    else:
        save_ticket(subject.ticket, folder / TICKETS[0])


def _check_place(target: Path, force: bool) -> None:
    """Raise ConfigError unless the folder is free, or an earlier export that may be replaced."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir() or not _is_export(target):
        raise ConfigError(f"{target} exists and is not an export of a ticket: choose another --output")
    if not force:
        raise ConfigError(f"{target} exists already: replace it with --force, or choose another --output")


def _is_export(folder: Path) -> bool:
    card_file = folder / FILE
    return card_file.is_file() and f"- {MARK}\n" in card_file.read_text(encoding="utf-8", errors="replace")
