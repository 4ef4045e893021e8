"""Tokenizer files beside an exported model, set to cut texts where the ticket was trained to."""

from pathlib import Path

from tune_tickets.export.subject import Subject
from tune_tickets.models.tokenizer import tokenizer_files


def write_tokenizer(subject: Subject, folder: Path) -> None:
    """Write them so that `truncation=True` alone gives what the ticket itself reads."""
    tokenizer = subject.tokenizer
    tokenizer.model_max_length = subject.max_length
    for name, content in tokenizer_files(tokenizer).items():
        (folder / name).write_bytes(content)
