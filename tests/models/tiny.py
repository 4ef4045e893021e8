"""Tiny random models and tokenizers of both families, shared by the tests of models, tickets and training."""

import json
from pathlib import Path
from types import SimpleNamespace

import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertTokenizerFast,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaConfig,
    RobertaTokenizerFast,
)

from tune_tickets.models.families import family_of
from tune_tickets.tickets.gates import Attachment, Gates

FAMILIES = ("bert", "roberta")
KERNELS = ("sdpa", "eager")
LAYERS, HEADS, NEURONS, WIDTH = 2, 4, 24, 32
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["a", "bad", "dull", "film", "fine", "good", "plot", "the", "was", "with", "##s"]


def tiny_config(family: str, dropout: float = 0.0) -> PretrainedConfig:
    sizes = {
        "vocab_size": 300,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": NEURONS,
        "max_position_embeddings": 40,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        # Large enough for logits that differ.
        "initializer_range": 0.3,
    }
    return BertConfig(**sizes) if family == "bert" else RobertaConfig(**sizes, type_vocab_size=1)


def tiny_model(family: str = "bert", kernel: str = "sdpa", dropout: float = 0.0, seed: int = 0) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_config(tiny_config(family, dropout), attn_implementation=kernel)
        for parameter in model.parameters():
            # Biases and LayerNorm too, so that nothing cancels by being 0 or 1.
            if parameter.ndim == 1:
                parameter.data.add_(torch.randn(parameter.shape) * 0.1)
    return model.eval()


def tiny_batch(family: str = "bert", rows: int = 6, tokens: int = 9, seed: int = 0) -> dict[str, torch.Tensor]:
    """Rows of different lengths; BERT's are pairs."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, tokens + 1, (rows,), generator=generator)
    lengths[0] = tokens
    mask = torch.arange(tokens) < lengths.unsqueeze(1)
    pad = 0 if family == "bert" else 1
    ids = torch.randint(5, 300, (rows, tokens), generator=generator).where(mask, pad)
    batch = {
        "input_ids": ids,
        "attention_mask": mask.long(),
        "labels": torch.randint(0, 2, (rows,), generator=generator),
    }
    if family == "bert":
        batch["token_type_ids"] = ((torch.arange(tokens) >= 3) & mask).long()
    return batch


def without_labels(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in batch.items() if name != "labels"}


def gates_for(model: PreTrainedModel) -> tuple[Gates, Attachment]:
    anatomy = family_of(model).anatomy(model)
    heads, neurons = family_of(model).output_projections(model)
    gates = Gates(anatomy.layers, anatomy.heads, anatomy.neurons, model.device)
    return gates, gates.attach(heads.values(), neurons.values())


def layer_parts(model: PreTrainedModel) -> list[SimpleNamespace]:
    """The linear modules of every layer of a BERT or RoBERTa."""
    return [
        SimpleNamespace(
            attention=layer.attention.self,
            query=layer.attention.self.query,
            key=layer.attention.self.key,
            value=layer.attention.self.value,
            attention_output=layer.attention.output.dense,
            intermediate=layer.intermediate.dense,
            output=layer.output.dense,
        )
        for layer in model.base_model.encoder.layer
    ]


def tiny_tokenizer(family: str, folder: Path) -> PreTrainedTokenizerBase:
    if family == "bert":
        (folder / "vocab.txt").write_text("\n".join(SPECIAL + WORDS))
        return BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=40)
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())]
    (folder / "vocab.json").write_text(json.dumps({token: index for index, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return RobertaTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=38)


def save_checkpoint(family: str, folder: Path) -> PreTrainedModel:
    """A pre-trained encoder as found on the hub: without a classifier. Gives back the model it was cut from."""
    folder.mkdir(parents=True, exist_ok=True)
    model = tiny_model(family)
    model.base_model.save_pretrained(folder)
    tiny_tokenizer(family, folder).save_pretrained(folder)
    return model
