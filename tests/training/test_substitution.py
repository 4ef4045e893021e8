"""The adversary that trains on the worst of some corruptions of each row."""

from random import Random

import pytest
import torch
from torch.nn.functional import cross_entropy as per_row

from tests.models.tiny import tiny_model, tiny_tokenizer
from tune_tickets.config.training import Adversary
from tune_tickets.errors import ConfigError
from tune_tickets.models.seeding import derived_seed
from tune_tickets.training.adversary import adversary_of
from tune_tickets.training.batches import ROW, RowTexts, encode, model_inputs
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.rewriting import corrupted

TABLE = {"good": ["fine", "bad", "dull"], "film": ["plot", "good"], "dull": ["bad", "fine"], "plot": ["film"]}
TEXTS = ["the film was good", "a dull plot", "the plot was dull with good film", "good", "film with the dull dull plot"]
LABELS = [1, 0, 0, 1, 0]
SEED = 123


@pytest.fixture
def tokenizer(tmp_path):
    return tiny_tokenizer("bert", tmp_path)


@pytest.fixture
def make(tokenizer):
    """An adversary and the batch of all rows."""

    def build(pairs: bool = False, **settings: object):
        texts = [("a plot", text) if pairs else (text,) for text in TEXTS]
        rows = encode(tokenizer, texts, LABELS, 24)
        kept = RowTexts(texts, 1 if pairs else 0, TABLE, lambda found: encode(tokenizer, found, [0] * len(found), 24))
        adversary = Adversary(kind="substitution", **settings)
        batch = rows.with_texts(kept).batch(torch.tensor([3, 0, 4, 2, 1]), torch.device("cpu"))
        return adversary_of(adversary, kept), batch

    return build


def tokens(batch, tokenizer):
    return tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True)


def loss_of(model, tokenizer, texts, label):
    encoded = tokenizer(*texts, return_tensors="pt", truncation=True, max_length=24)
    with torch.no_grad():
        return float(per_row(model(**encoded).logits, torch.tensor([label])))


@pytest.mark.parametrize("pairs", [False, True])
def test_the_worst_of_all_tries_is_chosen_as_brute_force_does(make, tokenizer, pairs):
    adversary, batch = make(pairs, tries=7, word_share=0.5, slip_share=0.3)
    model = tiny_model(dropout=0.3)
    found = adversary.worst(model.train(), batch, SEED)
    assert model.training
    model.eval()
    changed = 0
    for place, row in enumerate(batch[ROW].tolist()):
        numbers = Random(derived_seed(SEED, "row", row))
        wanted = TEXTS[row]
        if numbers.random() >= 0.2:
            tries = [corrupted(TEXTS[row], TABLE, adversary.settings, numbers) for _ in range(7)]
            losses = [loss_of(model, tokenizer, ("a plot", text) if pairs else (text,), LABELS[row]) for text in tries]
            wanted = tries[losses.index(max(losses))]
            changed += wanted != TEXTS[row]
        expected = tokenizer("a plot", wanted) if pairs else tokenizer(wanted)
        length = int(found["attention_mask"][place].sum())
        assert found["input_ids"][place, :length].tolist() == expected["input_ids"]
        if pairs:
            assert found["token_type_ids"][place, :length].tolist() == expected["token_type_ids"]
    assert changed >= 2


def test_a_step_trains_on_the_worst_texts_and_keeps_labels_and_columns(make):
    adversary, batch = make(tries=3)
    model, twin = tiny_model(), tiny_model()
    seen = []

    def loss(model, batch):
        seen.append(batch)
        return cross_entropy(model, batch)

    generator = torch.Generator().manual_seed(SEED)
    found = adversary.backward(model.train(), {**batch, "bias": torch.ones(5, 2)}, loss, generator)
    [trained] = seen
    assert trained["labels"] is batch["labels"]
    assert "bias" in trained
    expected = cross_entropy(twin, {**model_inputs(trained), "labels": batch["labels"]})
    expected.backward()
    assert found == expected.detach()
    for name, parameter in twin.named_parameters():
        assert torch.equal(parameter.grad, dict(model.named_parameters())[name].grad), name


def test_corruptions_depend_on_seed_and_row_only(make, tokenizer):
    adversary, batch = make()
    model = tiny_model()
    first = tokens(adversary.worst(model, batch, SEED), tokenizer)
    assert tokens(adversary.worst(model, batch, SEED), tokenizer) == first
    order = torch.tensor([4, 2, 0, 1, 3])
    turned = tokens(adversary.worst(model, {name: part[order] for name, part in batch.items()}, SEED), tokenizer)
    assert turned == [first[place] for place in order.tolist()]
    others = [tokens(adversary.worst(model, batch, seed), tokenizer) for seed in range(5)]
    assert len(set(map(tuple, others))) > 1


def test_random_numbers_of_the_process_are_not_used(make):
    adversary, batch = make()
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    adversary.worst(tiny_model(), batch, SEED)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_share_of_rows_stays_clean(make, tokenizer):
    adversary, batch = make(clean_share=0.4, tries=1, word_share=0.0, slip_share=1.0)
    model, clean = tiny_model(), 0
    texts = [TEXTS[row] for row in batch[ROW].tolist()]
    for seed in range(300):
        found = tokens(adversary.worst(model, batch, seed), tokenizer)
        clean += sum(one == other for one, other in zip(found, texts, strict=True))
    assert clean / 1500 == pytest.approx(0.4, abs=0.05)


def test_it_says_that_it_needs_texts():
    with pytest.raises(ConfigError, match="needs the texts of labelled rows"):
        adversary_of(Adversary(kind="substitution")).backward(
            tiny_model(), {ROW: torch.tensor([0])}, cross_entropy, torch.Generator()
        )
