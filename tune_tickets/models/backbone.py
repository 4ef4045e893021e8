"""Pre-trained encoders with a new classifier: load one, look at one without its weights, read its word vectors."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from logging import ERROR
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
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
from tune_tickets.models.families import KEY, family_of
from tune_tickets.models.families.base import MEAN_POOLED, POOLING, Anatomy, Family
from tune_tickets.models.seeding import derived_seed
from tune_tickets.models.source import backbone_folder, resolved_pooling
from tune_tickets.models.tokenizer import open_tokenizer


def load_backbone(model: Model, labels: Sequence[str], seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the network that every search and every retraining starts from.

    Args:
        model: The `model:` section.
        labels: The label names in class order.
        seed: Parts that the checkpoint lacks, such as the classifier, depend on it alone: equal seeds, equal bits.

    Returns:
        The network (float32, eval mode) and its tokenizer.

    Raises:
        ConfigError: `model.layers` is more than there are.
        ResourceError: The files cannot be read, are incomplete, or no family serves the model.
    """
    folder = backbone_folder(model)
    with quiet_transformers():
        tokenizer = open_tokenizer(folder, f"model.source {model.source!r}")
        network, missing = _load_network(folder, model, load_config(folder, model, labels))
    family = family_of(network)
    _check_complete(family.encoder_weights(network) & missing, model)
    initialise(network, missing, seed)
    family.attach_pooling(network)
    return network, tokenizer


def initialise(network: PreTrainedModel, names: Iterable[str], seed: int) -> None:
    """Set parameters as transformers sets new ones, each from its own seed (seed, name)."""
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
    """Silence warnings of transformers: here a new classifier is expected."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def load_config(folder: Path, model: Model, labels: Sequence[str]) -> PretrainedConfig:
    """The configuration of the network to build: that of the backbone, cut to `model.layers`, for these labels.

    It keeps `model.family` and the pooling, so that they are found in the model and in every copy on disk.
    """
    try:
        family_of(read_document(folder) | _named_family(model))  # its module may register the model with transformers
        config = read_config(folder)
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(model, "configuration", error) from error
    config.update(_named_family(model))
    if (pooling := resolved_pooling(model)) == "mean":
        config.update({POOLING: pooling})
    elif hasattr(config, POOLING):
        delattr(config, POOLING)
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


def read_document(folder: Path) -> dict[str, Any]:
    """The content of config.json; for an exported ticket with mean pooling with the model type that it derives from."""
    document: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind = str(document.get("model_type"))
    if kind.startswith(MEAN_POOLED):
        document["model_type"] = kind.removeprefix(MEAN_POOLED)
        document.pop("auto_map", None)
    return document


def read_config(folder: Path) -> PretrainedConfig:
    """The configuration of the model in a folder. Code in the folder is never run."""
    document = read_document(folder)
    if document.get(POOLING) == "mean":
        return AutoConfig.for_model(document.pop("model_type"), **document)
    config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return config


def _named_family(model: Model) -> dict[str, str]:
    return {} if model.family is None else {KEY: model.family}


def _load_network(folder: Path, model: Model, config: PretrainedConfig) -> tuple[PreTrainedModel, set[str]]:
    """The network and the parameters that the checkpoint lacks, or has for another number of labels."""
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


def _check_complete(lacking: set[str], model: Model) -> None:
    if lacking:
        raise ResourceError(
            f"model.source {model.source!r} lacks {len(lacking)} weights of the encoder, such as {min(lacking)}: its "
            "configuration and weights do not belong together; take another copy"
        )


def _unreadable(model: Model, part: str, error: Exception) -> ResourceError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ResourceError(
        f"model.source {model.source!r}: its {part} cannot be read ({reason}); "
        "check that the folder holds a complete transformers text encoder"
    )


def inspect_backbone(model: Model, max_length: int, setting: str = "task.max_length") -> Anatomy:
    """Look at a backbone without its weights, before a search.

    Args:
        model: The `model:` section.
        max_length: The longest text in tokens that will be read.
        setting: The key of the YAML that sets `max_length`, for errors.

    Returns:
        The sizes of the encoder.

    Raises:
        ConfigError: The encoder has fewer layers or positions.
        ResourceError: The files cannot be read, or no family serves the model.
    """
    network, family = empty_network(model)
    positions = family.positions(network)
    if positions is not None and max_length > positions:
        raise ConfigError(
            f"{setting} is {max_length}, but the model has positions for {positions} tokens; "
            f"lower it to {positions} or less"
        )
    return family.anatomy(network)


def empty_network(model: Model, labels: Sequence[str] = ("0", "1")) -> tuple[PreTrainedModel, Family]:
    """The network without values, on the meta device, and its family."""
    config = load_config(backbone_folder(model), model, labels)
    with torch.device("meta"):
        network: PreTrainedModel = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    family = family_of(network)
    family.attach_pooling(network)
    return network, family


def unreadable_markers(model: Model, markers: Sequence[str]) -> tuple[str, ...]:
    """The markers that the tokenizer does not read as a token of their own: unknown, in pieces, or equal to another."""
    tokenizer = open_tokenizer(backbone_folder(model), f"model.source {model.source!r}")
    # As in a text: byte-pair vocabularies have other tokens at the start of a text than after a space.
    found = {marker: tuple(tokenizer(f"{marker} a", add_special_tokens=False)["input_ids"]) for marker in markers}
    rest = tuple(tokenizer("a", add_special_tokens=False)["input_ids"])
    return tuple(
        marker
        for marker, tokens in found.items()
        if len(tokens) != len(rest) + 1 or tokens[0] == tokenizer.unk_token_id or list(found.values()).count(tokens) > 1
    )


def input_embeddings(model: Model, words: Sequence[str]) -> dict[str, Tensor]:
    """The mean input embedding of a word's pieces, before positions and norm. Unknown words have none."""
    network, tokenizer = load_backbone(model, labels=("0", "1"), seed=0)
    table = family_of(network).word_embeddings(network).weight.detach()
    # The space in front: RoBERTa has other pieces for a word at the start of a text than within it.
    pieces = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    known = {word: ids for word, ids in zip(words, pieces, strict=True) if ids and tokenizer.unk_token_id not in ids}
    return {word: table[torch.tensor(ids)].mean(dim=0) for word, ids in known.items()}
