"""A backbone with a masked-LM head: its own if the checkpoint has one, else a new one tied to the input embeddings."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.task import Model
from tune_tickets.errors import ResourceError, StoreError
from tune_tickets.models.backbone import initialise, load_config, quiet_transformers
from tune_tickets.models.source import backbone_folder
from tune_tickets.models.tokenizer import open_tokenizer, tokenizer_files


@dataclass(frozen=True, eq=False)
class MaskedLMBackbone:
    """A masked language model as loaded from its checkpoint."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    has_head: bool
    """Whether the checkpoint has a head that fits these layers. Otherwise it must be fitted."""


def load_masked_lm_backbone(model: Model, seed: int) -> MaskedLMBackbone:
    """Load the backbone with a masked-LM head (float32). A new head depends on the seed alone.

    Raises:
        ResourceError: The files cannot be read, or there is no mask token.
    """
    folder = backbone_folder(model)
    config = load_config(folder, model, labels=("0", "1"))
    with quiet_transformers():
        tokenizer = open_tokenizer(folder, f"model.source {model.source!r}")
        network, missing = _load(folder, model, config)
    if tokenizer.mask_token_id is None:
        raise ResourceError(
            f"model.source {model.source!r}: its tokenizer has no mask token, so no token can be masked"
        )
    cut = model.layers is not None and model.layers < load_config(folder, _whole(model), ("0", "1")).num_hidden_layers
    initialise(network, sorted(missing), seed)
    network.tie_weights()  # type: ignore[no-untyped-call]
    return MaskedLMBackbone(network, tokenizer, has_head=not missing and not cut)


def masked_lm_files(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, bytes]:
    """The model as the files of a transformers folder, weights as safetensors."""
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        model.save_pretrained(folder, safe_serialization=True)
        files = {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}
    return files | tokenizer_files(tokenizer)


def masked_lm_from_files(files: Mapping[str, bytes], where: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model that `masked_lm_files` wrote, in eval mode."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            if Path(name).name != name:
                raise StoreError(f"{where} has a file with the unexpected name {name!r}; it is not read")
            (Path(folder) / name).write_bytes(content)
        return open_masked_lm(Path(folder), where)


def open_masked_lm(folder: Path, where: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the masked language model in a folder, in eval mode. A model without a trained head is refused."""
    model = Model(source=str(folder))
    with quiet_transformers():
        network, missing = _load(folder, model, load_config(folder, model, labels=("0", "1")))
        tokenizer = open_tokenizer(folder, where)
    if missing:
        raise ResourceError(
            f"{where}: the checkpoint has no masked-LM head ({sorted(missing)[0]} is missing). Name a masked language "
            "model, or have one fitted (evaluation.masked_lm)"
        )
    return network.eval(), tokenizer  # type: ignore[no-untyped-call]


def _load(folder: Path, model: Model, config: object) -> tuple[PreTrainedModel, set[str]]:
    try:
        network, info = AutoModelForMaskedLM.from_pretrained(
            folder,
            config=config,
            attn_implementation=model.attention,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:  # safetensors, transformers and torch each have their own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ResourceError(f"{folder}: cannot be read as a masked language model ({reason})") from error
    return network, set(info["missing_keys"])


def _whole(model: Model) -> Model:
    return model.model_copy(update={"layers": None})
