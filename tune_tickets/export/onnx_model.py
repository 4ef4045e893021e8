"""Exports the small model of a ticket as ONNX, for any batch and length, and checks it in onnxruntime."""

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.errors import ResourceError, TicketsError
from tune_tickets.export.subject import TOLERANCE, Subject, name_labels, sample_texts, write_tokenizer

FILE = "model.onnx"
_NEEDED = ("onnx", "onnxruntime", "onnxscript")
_BATCHES = (1, 3, 32)


class _Logits(nn.Module):
    """The model with positional inputs and only the logits as output."""

    def __init__(self, model: PreTrainedModel, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.model(**dict(zip(self.names, inputs, strict=True))).logits
        return logits


def check_installed() -> None:
    """Raise ResourceError if a package for the export is missing."""
    if lacking := [name for name in _NEEDED if find_spec(name) is None]:
        raise ResourceError(
            f"an ONNX export needs {', '.join(lacking)}, which is not installed: pip install 'tune_tickets[onnx]', "
            "or from a source tree pip install -e '.[onnx]'"
        )


def write_onnx(subject: Subject, folder: Path, say: Callable[[str], None]) -> float:
    """Write model, configuration and tokenizer. Returns the largest difference of logits in the check."""
    check_installed()
    given = subject.tokens(sample_texts(subject.columns)[:1])
    names = tuple(name for name in ("input_ids", "attention_mask", "token_type_ids") if name in given)
    say("tracing the model")
    to_onnx(subject.model, names, folder / FILE, _story(subject))
    name_labels(subject.model, subject.labels)
    subject.model.config.save_pretrained(folder)
    write_tokenizer(subject, folder)
    say("comparing the logits of onnxruntime and torch")
    difference = largest_difference(subject, names, folder / FILE)
    if not difference <= TOLERANCE:
        raise TicketsError(
            f"the logits of onnxruntime and torch differ by {difference:.2g}, more than {TOLERANCE:g}: nothing was "
            "written. Try other releases of torch, onnxscript and onnxruntime"
        )
    return difference


def to_onnx(model: PreTrainedModel, names: tuple[str, ...], path: Path, story: Mapping[str, str]) -> None:
    """Export a model in eval mode, pruned or not, as one file."""
    example = tuple(
        torch.ones(2, 7, dtype=torch.long) if name != "token_type_ids" else torch.zeros(2, 7, dtype=torch.long)
        for name in names
    )
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    try:
        with _silence():
            program = torch.onnx.export(
                _Logits(model, names),
                example,
                input_names=list(names),
                output_names=["logits"],
                dynamic_shapes=(({0: batch, 1: length},) * len(names),),  # one entry, for all of *inputs
                dynamo=True,  # the older exporter loses the attention mask
                verbose=False,
            )
    except Exception as error:  # torch.export, torch.onnx and onnxscript have different error types
        raise TicketsError(
            f"torch {torch.__version__} cannot export this model to ONNX ({type(error).__name__}: {error}); try "
            "another release of torch and onnxscript"
        ) from error
    assert program is not None
    program.model.metadata_props.update(story)
    program.save(path, external_data=False)


def session(path: Path, threads: int | None = None) -> Any:  # noqa: ANN401 - onnxruntime has no types
    """Open the model on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def largest_difference(subject: Subject, names: tuple[str, ...], path: Path) -> float:
    """Return the largest difference between the logits of onnxruntime and torch, over several lengths and batches."""
    opened = session(path)
    worst = 0.0
    for inputs in _batches(subject, names):
        found = torch.from_numpy(opened.run(["logits"], {name: inputs[name].numpy() for name in names})[0])
        with torch.inference_mode():
            expected = subject.model(**inputs).logits
        difference = float((found - expected).abs().max())
        worst = difference if difference != difference else max(worst, difference)  # NaN stays
    return worst


def _batches(subject: Subject, names: tuple[str, ...]) -> Iterator[dict[str, Tensor]]:
    texts = sample_texts(subject.columns)
    for rows in (texts, *([text] for text in texts)):
        yield subject.tokens(rows)
    generator = torch.Generator().manual_seed(0)
    words = len(subject.tokenizer)
    for batch in _BATCHES:
        for length in sorted({min(length, subject.max_length) for length in (1, 2, 17, subject.max_length)}):
            ids = torch.randint(0, words, (batch, length), generator=generator)
            sizes = torch.randint(1, length + 1, (batch, 1), generator=generator)
            mask = (torch.arange(length) < sizes).long()
            padding = subject.tokenizer.pad_token_id or 0
            zeros = torch.zeros_like(ids)
            known = {"input_ids": ids.where(mask.bool(), padding), "attention_mask": mask, "token_type_ids": zeros}
            yield {name: known[name] for name in names}


def _story(subject: Subject) -> dict[str, str]:
    """Return what a program needs to know if it does not read the card."""
    return {
        "labels": json.dumps(subject.labels),
        "text_columns": json.dumps(subject.columns),
        "max_length": str(subject.max_length),
    }


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the messages of the exporter."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
