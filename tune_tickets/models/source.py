"""Where a backbone's files are (bundled, local folder, hub), and the fingerprint of their content. No torch here."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tune_tickets.config.task import Model
from tune_tickets.errors import ResourceError, Unreachable
from tune_tickets.models.bundled import bundled_encoder_path

BUNDLED = "bundled"
# safetensors only: a pickle could run code when it is read.
WEIGHTS = ("model*.safetensors", "model.safetensors.index.json")
TOKENIZER = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
)


def backbone_folder(model: Model) -> Path:
    """The local folder with all files of a backbone, fetched from the hub first if need be."""
    folder = _local_folder(model) or _snapshot(model, (*WEIGHTS, *TOKENIZER))
    if not (folder / "config.json").is_file():
        raise ResourceError(f"model.source {model.source!r}: {folder} has no config.json; name a transformers model")
    if not any(folder.glob(WEIGHTS[0])):
        raise ResourceError(
            f"model.source {model.source!r}: {folder} has no model.safetensors, and pickled weights are not read; "
            "load it once with transformers and write it with save_pretrained(folder, safe_serialization=True)"
        )
    return folder


def backbone_fingerprint(model: Model) -> str:
    """sha256 that changes with the weights or the tokenizer of a backbone; the weights are not loaded.

    Local weights count with their content, those of the hub with their commit.
    """
    local = _local_folder(model)
    folder = local or _snapshot(model, TOKENIZER)
    content = hashlib.sha256()
    if local is None:
        content.update(f"{model.source}@{folder.name}\n".encode())
    for file in _matching(folder, TOKENIZER if local is None else (*WEIGHTS, *TOKENIZER)):
        state = file.stat()
        content.update(f"{file.name} {_file_sha256(file, state.st_mtime_ns, state.st_size)}\n".encode())
    return content.hexdigest()


def _local_folder(model: Model) -> Path | None:
    if model.source == BUNDLED:
        return bundled_encoder_path()
    folder = Path(model.source).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if folder.is_absolute() or model.source.startswith((".", "~")) or model.source.count("/") > 1:
        raise ResourceError(f"model.source {model.source!r} is no folder; check the path")
    return None


def _snapshot(model: Model, patterns: Iterable[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        # Nested folders hold other formats of the same weights.
        path = snapshot_download(
            model.source, revision=model.revision, allow_patterns=list(patterns), ignore_patterns=["*/*"]
        )
    except (OSError, ValueError) as error:
        at = f" at revision {model.revision!r}" if model.revision else ""
        reason = str(error).strip().splitlines()[0]
        # Neither in the cache nor refused by the hub: nobody could be asked.
        kind = Unreachable if isinstance(error, LocalEntryNotFoundError) else ResourceError
        raise kind(
            f"model.source {model.source!r}{at} is neither a folder here nor a hub model that can be fetched "
            f"({reason}). Check the spelling, the network and access rights, name a local copy, or take 'bundled'"
        ) from None
    return Path(path)


def _matching(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted({file for pattern in patterns for file in folder.glob(pattern)})


@cache
def _file_sha256(file: Path, modified: int, size: int) -> str:
    # Time and size are part of the key, so that a file that was replaced is read again.
    del modified, size
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
