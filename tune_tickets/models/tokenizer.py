"""Tokenizers from a folder, and as files inside a ticket."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tune_tickets.errors import ResourceError, StoreError


def open_tokenizer(folder: Path, where: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer in a folder; errors call its origin `where`."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(  # type: ignore[no-untyped-call]
            folder, trust_remote_code=False
        )
    except Exception as error:  # the Rust tokenizers raise plain Exceptions
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ResourceError(f"{where}: its tokenizer cannot be read ({reason}); take a complete copy") from error
    return tokenizer


def tokenizer_files(tokenizer: PreTrainedTokenizerBase) -> dict[str, bytes]:
    """The files of a tokenizer by name."""
    if tokenizer.is_fast:
        # Otherwise the files would hold the padding and truncation of the last call.
        tokenizer.backend_tokenizer.no_padding()
        tokenizer.backend_tokenizer.no_truncation()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def tokenizer_from_files(files: Mapping[str, bytes], where: str) -> PreTrainedTokenizerBase:
    """The tokenizer that `tokenizer_files` wrote."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            if Path(name).name != name:
                raise StoreError(f"{where} has a tokenizer file with the unexpected name {name!r}; it is not read")
            (Path(folder) / name).write_bytes(content)
        return open_tokenizer(Path(folder), where)


def framing_tokens(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids of tokens that frame texts, such as [CLS], [SEP] and padding. Unknown words are words."""
    frame = ("cls", "sep", "pad", "bos", "eos")
    ids = (getattr(tokenizer, f"{name}_token_id") for name in frame)
    return frozenset(index for index in ids if index is not None)
