"""The masked-LM objective: share of hidden tokens, loss by hand, accuracy by brute force, fitting."""

import math

import pytest
import torch
from transformers import AutoTokenizer

from tune_tickets.config.evaluation import MaskedLM
from tune_tickets.config.task import Model
from tune_tickets.config.training import Adversary
from tune_tickets.models.masked_lm import load_masked_lm_backbone
from tune_tickets.training.adversary import ascend, initial_delta
from tune_tickets.training.batches import Batches
from tune_tickets.training.masked_lm import (
    IGNORED,
    MaskedBatches,
    Masking,
    build_masked_lm_optimizer,
    encode_texts,
    masked_accuracy,
    masked_cross_entropy,
    start_from_frequencies,
)
from tune_tickets.training.trainer import Recipe, Trainer

TEXTS = ["the film was good", "the plot was bad with a dull story", "quite lovely music", "very weak scene the actor"]
MASKING = Masking(probability=0.15, mask_id=4, vocabulary=1000, special_ids=(0, 2, 3, 4))


@pytest.fixture
def backbone(tiny_backbone):
    return load_masked_lm_backbone(Model(source=str(tiny_backbone)), seed=0)


def test_15_percent_are_chosen_and_of_these_80_are_masked_10_random_and_10_kept():
    ids = torch.randint(5, 1000, (400, 500), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    chosen = MASKING.choose(ids, generator)
    hidden = MASKING.hide(ids, chosen, generator)
    assert torch.equal(hidden[~chosen], ids[~chosen])
    count = int(chosen.sum())
    # Four standard deviations of binomial counts.
    assert abs(count - 0.15 * ids.numel()) < 4 * math.sqrt(0.15 * 0.85 * ids.numel())
    masked = int((hidden[chosen] == 4).sum())
    kept = int((hidden[chosen] == ids[chosen]).sum())
    # A random token is the mask or the old one once in 1000.
    assert abs(masked - (0.8 + 0.1 / 1000) * count) < 4 * math.sqrt(0.16 * count)
    assert abs(kept - (0.1 + 0.1 / 1000) * count) < 4 * math.sqrt(0.09 * count)


def test_padding_and_the_marks_of_a_text_are_never_chosen_and_unknown_words_are(tiny_backbone):
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    masking = Masking.of(tokenizer, probability=1.0)
    rows = encode_texts(tokenizer, ["good \u7535 film", "a"], max_length=16, blocks=False)
    chosen = masking.choose(rows.input_ids.long(), torch.Generator().manual_seed(0))
    assert chosen.tolist() == [[False, True, True, True, False], [False, True, False, False, False]]
    assert rows.input_ids[0, 2] == tokenizer.unk_token_id


def test_the_masks_of_a_step_depend_on_seed_and_step_alone(tiny_backbone):
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    rows = encode_texts(tokenizer, TEXTS * 8, max_length=16, blocks=False)
    masking = Masking.of(tokenizer, 0.3)
    one, other = (MaskedBatches(rows, 4, seed=3, masking=masking) for _ in range(2))
    for step in range(5):
        one[step]
    torch.manual_seed(9)
    again, fresh = one[2], other[2]
    assert all(torch.equal(again[name], fresh[name]) for name in again)
    assert not torch.equal(one[3]["labels"] != IGNORED, fresh["labels"] != IGNORED)
    plain = Batches(rows, 4, seed=3)[2]
    restored = torch.where(fresh["labels"] == IGNORED, fresh["input_ids"], fresh["labels"])
    assert torch.equal(restored, plain["input_ids"])


def test_the_loss_is_the_mean_over_hidden_tokens_that_transformers_computes(backbone):
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    batch = MaskedBatches(rows, 4, 0, Masking.of(backbone.tokenizer, 0.4))[0]
    model = backbone.model.eval().double()
    whole = {name: tensor for name, tensor in batch.items() if name != "guessed"}
    expected = model(**whole).loss  # scores every token, ignores those of label -100
    assert (batch["labels"] != IGNORED).any()
    torch.testing.assert_close(masked_cross_entropy(model, batch), expected)


def test_a_batch_without_hidden_tokens_costs_nothing_and_can_be_differentiated(backbone):
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    batch = Batches(rows, 4, 0)[0]
    batch["labels"] = torch.full_like(batch["input_ids"], IGNORED)
    batch["guessed"] = torch.empty(0, dtype=torch.long)
    loss = masked_cross_entropy(backbone.model, batch)
    loss.backward()
    assert loss.item() == 0.0


def test_the_places_to_be_guessed_are_those_with_a_label(backbone):
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    batch = MaskedBatches(rows, 4, 0, Masking.of(backbone.tokenizer, 0.4))[0]
    labels = batch["labels"].flatten().tolist()
    assert batch["guessed"].tolist() == [place for place, label in enumerate(labels) if label != IGNORED]


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_an_adversary_that_spares_masked_tokens_moves_all_others(backbone, norm):
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    masking = Masking.of(backbone.tokenizer, 0.4)
    adversary = Adversary(steps=2, step_size=0.5, initial_magnitude=0.1, norm=norm)
    embeddings = backbone.model.base_model.embeddings.word_embeddings
    moved = {}
    for perturb_masked in (True, False):
        batch = MaskedBatches(rows, 4, 0, masking, perturb_masked=perturb_masked)[0]
        delta = initial_delta(embeddings, batch, adversary, torch.Generator().manual_seed(0))
        if norm == "l2":  # sum over a row of U(-1, 1)^2 x ε₀^2 / (tokens x width) is about ε₀^2 / 3
            assert torch.allclose(delta.pow(2).sum(dim=(1, 2)).sqrt(), torch.tensor(0.1 / 3**0.5), rtol=0.35)
        delta = ascend(delta, torch.ones_like(delta), batch, adversary)
        moved[perturb_masked] = (delta != 0).any(dim=-1)
    real, guessed = batch["attention_mask"].bool(), batch["labels"] != IGNORED
    assert guessed.any()
    assert torch.equal(moved[True], real)
    assert torch.equal(moved[False], real & ~guessed)


def test_a_row_whose_tokens_are_all_spared_has_no_perturbation(backbone):
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    batch = MaskedBatches(rows, 4, 0, Masking.of(backbone.tokenizer, 0.4), perturb_masked=False)[0]
    batch["perturbed"] = torch.zeros_like(batch["attention_mask"])
    embeddings = backbone.model.base_model.embeddings.word_embeddings
    delta = initial_delta(embeddings, batch, Adversary(), torch.Generator().manual_seed(0))
    assert torch.equal(ascend(delta, torch.ones_like(delta), batch, Adversary()), torch.zeros_like(delta))


def test_accuracy_counts_masked_tokens_that_rank_first_or_among_ten(backbone):
    tokenizer, model = backbone.tokenizer, backbone.model.eval()
    rows = encode_texts(tokenizer, TEXTS, max_length=16, blocks=False)
    measured = masked_accuracy(model, rows, Masking.of(tokenizer, probability=1.0), batch_size=4, seed=0)
    # Every ordinary token is hidden: all texts of one length look alike, and the model can be asked by hand.
    top1 = top10 = tokens = 0
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        hidden = [ids[0], *[tokenizer.mask_token_id] * (len(ids) - 2), ids[-1]]
        best = model(input_ids=torch.tensor([hidden])).logits[0].topk(10, dim=-1).indices.tolist()
        for token, ranked in list(zip(ids, best, strict=True))[1:-1]:
            tokens += 1
            top1 += ranked[0] == token
            top10 += token in ranked
    assert measured.tokens == tokens == 20
    assert measured.top1 == pytest.approx(100 * top1 / tokens)
    assert measured.top10 == pytest.approx(100 * top10 / tokens)


def test_blocks_hold_all_tokens_in_order_between_the_marks(tiny_backbone):
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    rows = encode_texts(tokenizer, TEXTS, max_length=8, blocks=True)
    real = zip(rows.input_ids, rows.lengths.tolist(), strict=True)
    words = [tokenizer.convert_ids_to_tokens(ids[:length]) for ids, length in real]
    assert all(row[0] == "[CLS]" and row[-1] == "[SEP]" for row in words)
    assert [len(row) - 2 for row in words] == [6, 6, 6, 2]
    assert " ".join(word for row in words for word in row[1:-1]) == " ".join(TEXTS)


def test_a_new_head_begins_with_the_frequencies_of_the_texts(backbone):
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    start_from_frequencies(backbone.model, rows, Masking.of(backbone.tokenizer, 0.15).special_ids)
    prior = backbone.model.get_output_embeddings().bias.detach().exp()
    size = len(backbone.tokenizer)
    the, zebra = (backbone.tokenizer.convert_tokens_to_ids(word) for word in ("the", "z"))
    total = 20 + 0.1 * size  # 20 words, and a tenth of one for every token
    assert float(prior[the]) == pytest.approx(3.1 / total, rel=1e-4)
    assert float(prior[zebra]) == pytest.approx(0.1 / total, rel=1e-4)
    assert float(prior[backbone.tokenizer.cls_token_id]) == pytest.approx(0.1 / total, rel=1e-4)


def fit(backbone, settings, steps):
    rows = encode_texts(backbone.tokenizer, TEXTS * 4, max_length=16, blocks=False)
    masking = Masking.of(backbone.tokenizer, settings.mask_probability)
    batches = MaskedBatches(rows, settings.batch_size, 0, masking)
    optimizer = build_masked_lm_optimizer(backbone.model, settings)
    recipe = Recipe(batches, masked_cross_entropy, Adversary(kind="none"), steps, 0.1, 1.0, seed=0)
    return [float(loss) for _, loss in Trainer(backbone.model, optimizer, recipe).steps()]


def test_fitting_learns_texts_that_can_be_known_by_heart(backbone):
    settings = MaskedLM(learning_rate=3e-3, head_learning_rate=3e-3, batch_size=16)
    fit(backbone, settings, steps=150)
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    masking = Masking.of(backbone.tokenizer, 0.15)
    seen = [masked_accuracy(backbone.model, rows, masking, 4, seed) for seed in range(8)]
    guessed = sum(one.top1 * one.tokens for one in seen) / sum(one.tokens for one in seen)
    assert guessed > 60.0  # of 16 different words; the most frequent one is right in 15%


def test_a_frozen_backbone_stays_as_it_was_while_the_head_moves(backbone):
    before = {name: tensor.clone() for name, tensor in backbone.model.state_dict().items()}
    fit(backbone, MaskedLM(train_backbone=False), steps=3)
    after = backbone.model.state_dict()
    moved = {name for name in after if not torch.equal(before[name], after[name])}
    assert not any(name.startswith("bert.") for name in moved)
    assert "cls.predictions.transform.dense.weight" in moved
    assert "cls.predictions.bias" in moved


def test_head_and_backbone_have_their_own_rates_and_biases_no_decay(backbone):
    settings = MaskedLM(learning_rate=1e-4, head_learning_rate=1e-2, weight_decay=0.5)
    optimizer = build_masked_lm_optimizer(backbone.model, settings)
    names = {id(parameter): name for name, parameter in backbone.model.named_parameters()}
    rates = {names[id(p)]: (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    assert set(rates) == set(names.values())
    assert rates["bert.encoder.layer.0.output.dense.weight"] == (1e-4, 0.5)
    assert rates["bert.embeddings.word_embeddings.weight"] == (1e-4, 0.5)  # the decoder is tied to it
    assert rates["cls.predictions.transform.dense.weight"] == (1e-2, 0.5)
    assert rates["cls.predictions.bias"] == (1e-2, 0.0)


def test_batches_are_made_for_the_device_of_the_model(backbone):
    rows = encode_texts(backbone.tokenizer, TEXTS, max_length=16, blocks=False)
    batch = MaskedBatches(rows, 4, 0, Masking.of(backbone.tokenizer, 0.4), "meta")[0]
    assert {tensor.device.type for tensor in batch.values()} == {"meta"}
