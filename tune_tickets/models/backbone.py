"""Loading a pre-trained encoder with a classifier on top: the network every search and every retraining starts from."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from logging import ERROR
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from tune_tickets.config.task import Model
from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.models.anatomy import layer_parts
from tune_tickets.models.seeding import derived_seed
from tune_tickets.models.source import backbone_folder
from tune_tickets.models.tokenizer import open_tokenizer


def load_backbone(model: Model, labels: Sequence[str], seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The network (float32, eval mode) and its tokenizer.

    Parts the checkpoint lacks, such as the classifier, depend on the seed alone: search and retraining start from the
    same bits.
    """
    folder = backbone_folder(model)
    with quiet_transformers():
        tokenizer = open_tokenizer(folder, f"model.source {model.source!r}")
        network, missing = _load_network(folder, model, load_config(folder, model, labels))
    layer_parts(network)
    _check_complete(network, missing, model)
    initialise(network, missing, seed)
    return network, tokenizer


def initialise(network: PreTrainedModel, names: Iterable[str], seed: int) -> None:
    """Set parameters as transformers does for new ones, each from its own seed (seed, name)."""
    deviation = float(network.config.initializer_range)
    with torch.no_grad():
        for name in names:
            parameter = network.get_parameter(name)
            if parameter.ndim > 1:
                generator = torch.Generator().manual_seed(derived_seed(seed, name))
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' warnings for a while: that a classifier is new is no news here."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def load_config(folder: Path, model: Model, labels: Sequence[str]) -> PretrainedConfig:
    """The configuration of the network to be built: the backbone's, cut to `model.layers`, for these labels."""
    try:
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise _unreadable(model, "configuration", error) from error
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}
    if model.layers is not None:
        if model.layers > config.num_hidden_layers:
            raise ConfigError(
                f"model.layers is {model.layers}, but {model.source!r} has {config.num_hidden_layers} layers; "
                f"set model.layers to {config.num_hidden_layers} or less, or to null for all"
            )
        config.num_hidden_layers = model.layers
    return config


def _load_network(folder: Path, model: Model, config: PretrainedConfig) -> tuple[PreTrainedModel, set[str]]:
    """The network and the names of parameters that the checkpoint lacks or has for another number of labels."""
    try:
        network, info = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            attn_implementation=model.attention,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except Exception as error:  # safetensors, transformers and torch each have their own
        raise _unreadable(model, "weights", error) from error
    return network, {*info["missing_keys"], *info["mismatched_keys"]}


def _check_complete(network: PreTrainedModel, missing: Iterable[str], model: Model) -> None:
    prefix = network.base_model_prefix
    encoder = (f"{prefix}.encoder.", f"{prefix}.embeddings.")
    lacking = sorted(name for name in missing if name.startswith(encoder))
    if lacking:
        raise ResourceError(
            f"model.source {model.source!r} lacks {len(lacking)} weights of the encoder, such as {lacking[0]}: its "
            "configuration and weights do not belong together; take another copy"
        )


def _unreadable(model: Model, part: str, error: Exception) -> ResourceError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ResourceError(
        f"model.source {model.source!r}: its {part} cannot be read ({reason}); "
        "check that the folder holds a complete transformers text encoder"
    )
