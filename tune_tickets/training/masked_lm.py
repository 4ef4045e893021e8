"""The masked-LM objective (BERT, section 3.1): random tokens are hidden and predicted from the rest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.evaluation import Fitting
from tune_tickets.models.families import family_of
from tune_tickets.models.seeding import derived_seed
from tune_tickets.training.batches import PERTURBED, Batch, Batches, EncodedRows, encode, in_order, model_inputs

IGNORED = -100
"""The label of tokens that are not predicted."""
_MASKED, _RANDOM = 0.8, 0.1  # shares of the chosen tokens; the rest is not changed


@dataclass(frozen=True)
class Masking:
    """How tokens are hidden."""

    probability: float
    mask_id: int
    vocabulary: int
    special_ids: tuple[int, ...]
    """Never chosen: padding and the tokens that frame a text."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, probability: float) -> "Masking":
        """The masking for a tokenizer."""
        special = tuple(sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}))
        return cls(probability, int(tokenizer.mask_token_id), len(tokenizer), special)

    def choose(self, input_ids: Tensor, generator: torch.Generator) -> Tensor:
        """Choose the tokens to predict: each one independently, with the probability."""
        ordinary = ~torch.isin(input_ids, torch.tensor(self.special_ids))
        return ordinary & (torch.rand(input_ids.shape, generator=generator) < self.probability)

    def hide(self, input_ids: Tensor, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """The input with 80% of the chosen tokens masked, 10% replaced by a random token and 10% unchanged."""
        fate = torch.rand(input_ids.shape, generator=generator)
        anything = torch.randint(self.vocabulary, input_ids.shape, generator=generator)
        hidden = torch.where(chosen & (fate < _MASKED), self.mask_id, input_ids)
        return torch.where(chosen & (fate >= 1 - _RANDOM), anything, hidden)


class MaskedBatches(Batches):
    """Shuffled batches for masked-LM training. The hidden tokens are a pure function of (seed, step).

    Tokens are hidden on the CPU, where every machine draws the same random numbers.
    """

    def __init__(
        self,
        rows: EncodedRows,
        batch_size: int,
        seed: int,
        masking: Masking,
        device: torch.device | str = "cpu",
        perturb_masked: bool = True,
    ) -> None:
        super().__init__(rows, batch_size, seed)
        self._masking = masking
        self._perturb_masked = perturb_masked
        self._masking_seed = seed
        self._target = torch.device(device)

    def __getitem__(self, step: int) -> Batch:
        batch = super().__getitem__(step)
        generator = torch.Generator().manual_seed(derived_seed(self._masking_seed, "masking", step))
        ids = batch["input_ids"]
        chosen = self._masking.choose(ids, generator)
        batch["input_ids"] = self._masking.hide(ids, chosen, generator)
        batch["labels"] = torch.where(chosen, ids, IGNORED)
        # As positions, not as a mask: on the meta device the size of a masked selection is unknown.
        batch["guessed"] = chosen.flatten().nonzero().squeeze(1)
        if not self._perturb_masked:
            batch[PERTURBED] = batch["attention_mask"] * ~chosen
        return {name: tensor.to(self._target) for name, tensor in batch.items()}


def masked_cross_entropy(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Mean cross entropy over the hidden tokens; 0 for a batch without any."""
    places = batch["guessed"]
    scores = masked_logits(model, batch, places)
    loss = functional.cross_entropy(scores, batch["labels"].flatten()[places], reduction="sum")
    return loss / max(1, len(places))


def masked_logits(model: PreTrainedModel, batch: Batch, places: Tensor) -> Tensor:
    """Scores [tokens, vocabulary] at these places of the flattened batch only, since the decoder is expensive."""
    hidden: Tensor = model.base_model(**model_inputs(batch)).last_hidden_state
    scores: Tensor = family_of(model).masked_lm_head(model)(hidden.flatten(0, 1)[places])
    return scores


@dataclass(frozen=True)
class MaskedAccuracy:
    """How often masked tokens of unseen texts are predicted, in percent."""

    top1: float
    top10: float
    tokens: int


@torch.inference_mode()
def masked_accuracy(
    model: PreTrainedModel, rows: EncodedRows, masking: Masking, batch_size: int, seed: int
) -> MaskedAccuracy:
    """Predict tokens that are all replaced by the mask token. Which ones depends on the seed only."""
    was_training = model.training
    model.train(False)
    ranks = [
        _ranks(model, batch, masking, torch.Generator().manual_seed(derived_seed(seed, "held out", number)))
        for number, batch in enumerate(in_order(rows, batch_size))
    ]
    model.train(was_training)
    rank = torch.cat(ranks)
    if not len(rank):
        return MaskedAccuracy(0.0, 0.0, 0)
    return MaskedAccuracy(_percent(rank < 1), _percent(rank < 10), len(rank))


def _ranks(model: PreTrainedModel, batch: Batch, masking: Masking, generator: torch.Generator) -> Tensor:
    """How many tokens of the vocabulary have a higher score than the true one, for each masked token."""
    ids = batch["input_ids"]
    chosen = masking.choose(ids, generator)
    batch = batch | {"input_ids": torch.where(chosen, masking.mask_id, ids)}
    places = chosen.flatten().nonzero().squeeze(1).to(model.device)
    scores = masked_logits(model, {name: tensor.to(model.device) for name, tensor in batch.items()}, places).cpu()
    return (scores > scores.gather(1, ids[chosen].unsqueeze(1))).sum(dim=1)


def _percent(hits: Tensor) -> float:
    return 100.0 * float(hits.double().mean())


def encode_texts(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int, blocks: bool
) -> EncodedRows:
    """Texts as rows of tokens: each truncated to `max_length`, or joined and split into blocks of that length."""
    if not blocks:
        return encode(tokenizer, [(text,) for text in texts], [0] * len(texts), max_length)
    joined = [token for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"] for token in ids]
    size = max_length - tokenizer.num_special_tokens_to_add()
    pieces = [joined[start : start + size] for start in range(0, len(joined), size)]
    rows = [torch.tensor(tokenizer.build_inputs_with_special_tokens(piece), dtype=torch.int32) for piece in pieces]
    return EncodedRows(
        input_ids=torch.nn.utils.rnn.pad_sequence(rows, True, float(tokenizer.pad_token_id)),
        token_type_ids=None,
        lengths=torch.tensor([len(row) for row in rows]),
        labels=torch.zeros(len(rows), dtype=torch.long),
    )


def start_from_frequencies(model: PreTrainedModel, rows: EncodedRows, special_ids: Iterable[int]) -> None:
    """Initialise the bias of a new head with the frequency of each token, which needs no context."""
    bias = family_of(model).decoder_bias(model)
    ids = rows.input_ids[torch.arange(rows.input_ids.shape[1]) < rows.lengths.unsqueeze(1)].long()
    counts = torch.bincount(ids, minlength=len(bias)).double()
    counts[list(special_ids)] = 0.0
    with torch.no_grad():
        bias.copy_(((counts + 0.1) / (counts + 0.1).sum()).log().to(bias))


def build_masked_lm_optimizer(model: PreTrainedModel, settings: Fitting) -> torch.optim.AdamW:
    """AdamW with one rate for the head and one for the backbone, which is frozen unless it trains too."""
    model.base_model.requires_grad_(settings.train_backbone)
    rates = {id(parameter): settings.learning_rate for parameter in model.base_model.parameters()}
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            rate = rates.get(id(parameter), settings.head_learning_rate)
            decay = settings.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
    fused = model.device.type in ("cpu", "cuda")  # the meta device has no such kernel
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": rate, "full_lr": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ],
        fused=fused,
    )
