"""A ticket as a plain transformers folder: full size, zeros where it was cut; needs nothing of ours to be loaded."""

from pathlib import Path

import torch

from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.export.subject import Subject, sample_texts
from tune_tickets.models.surgery import regrow
from tune_tickets.models.tokenizer import tokenizer_files


def write_tokenizer(subject: Subject, folder: Path) -> None:
    """Write them so that `truncation=True` alone gives what the ticket itself reads."""
    tokenizer = subject.tokenizer
    tokenizer.model_max_length = subject.max_length
    for name, content in tokenizer_files(tokenizer).items():
        (folder / name).write_bytes(content)


TOLERANCE = 1e-4
"""Largest difference of logits between an export and the ticket."""


def write_transformers(subject: Subject, folder: Path) -> None:
    """Write config, weights and tokenizer; refused if the model of full size answers otherwise than the small one."""
    if subject.ticket is None:
        raise ConfigError(f"{subject.name} is a transformers model already; --format onnx is what it can become")
    dense = regrow(subject.model, subject.ticket.mask)
    rows = sample_texts(subject.columns)
    inputs = subject.tokenizer(
        *map(list, zip(*rows, strict=True)),
        truncation=True,
        max_length=subject.max_length,
        padding=True,
        return_tensors="pt",
    )
    with torch.inference_mode():
        difference = float((dense(**inputs).logits - subject.model(**inputs).logits).abs().max())
    if not difference <= TOLERANCE:
        raise TicketsError(f"at full size the ticket's logits differ by {difference:.2g}: nothing is written")
    dense.config.id2label = dict(enumerate(subject.labels))
    dense.config.label2id = {label: index for index, label in enumerate(subject.labels)}
    dense.save_pretrained(folder, safe_serialization=True)
    write_tokenizer(subject, folder)
