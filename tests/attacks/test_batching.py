import math
import random
from itertools import combinations, pairwise

import pytest
import torch

from tune_tickets.attacks import lockstep as batching
from tune_tickets.attacks.lockstep import Tokens, batches

TEXTS = ["one two three four five", "one", "one two three", "one two"]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    monkeypatch.setattr(batching, "_encodings", {})


def price(lengths, cuts, rows, budget, overhead):
    """Padded tokens and the batches' own costs; infinite for a batch that is not allowed."""
    total = 0.0
    for start, stop in cuts:
        tokens = (stop - start) * lengths[stop - 1]
        too_much = budget is not None and tokens > budget and stop - start > 1
        total += math.inf if too_much or stop - start > rows else overhead + tokens
    return total


def test_cuts_are_the_cheapest_of_all_that_are_allowed():
    draw = random.Random(0)
    for _ in range(200):
        lengths = sorted(draw.randint(1, 12) for _ in range(draw.randint(1, 9)))
        limits = (draw.randint(1, 5), draw.choice([None, 10, 30]), draw.randint(0, 20))
        inner = range(1, len(lengths))
        ways = [[0, *some, len(lengths)] for size in range(len(lengths)) for some in combinations(inner, size)]
        cheapest = min(price(lengths, list(pairwise(way)), *limits) for way in ways)
        assert price(lengths, batching._cheapest(lengths, *limits), *limits) == cheapest


def test_batches_hold_texts_of_like_length_and_say_where_they_belong(tokenizer):
    encoded = Tokens(tokenizer, 32).encode(TEXTS)
    made = list(batches(encoded, tokenizer, CPU, 2))
    assert [places for places, _ in made] == [[2, 0], [1, 3]]
    assert [tuple(batch["input_ids"].shape) for _, batch in made] == [(2, 7), (2, 4)]  # two special tokens each


def test_a_batch_is_what_the_tokenizer_makes_of_its_texts(tokenizer):
    encoded = Tokens(tokenizer, 32).encode(TEXTS)
    [(places, batch)] = batches(encoded, tokenizer, CPU, 10)
    expected = tokenizer([TEXTS[place] for place in places], padding=True, return_tensors="pt")
    assert batch.keys() == expected.keys()
    assert all(torch.equal(batch[name], expected[name]) for name in expected)


def test_on_a_cpu_a_batch_holds_a_bounded_number_of_tokens_but_at_least_one_text(tokenizer, monkeypatch):
    monkeypatch.setattr(batching, "_CPU_TOKENS", 8)
    encoded = Tokens(tokenizer, 32).encode(TEXTS)  # 7, 3, 5 and 4 tokens
    assert [places for places, _ in batches(encoded, tokenizer, CPU, 10)] == [[0], [2], [1, 3]]


def test_a_text_is_tokenised_once_for_all_who_use_the_tokenizer(tokenizer):
    asked = []

    class Watched:
        backend_tokenizer = tokenizer.backend_tokenizer

        def __call__(self, *columns, **options):
            asked.extend(columns[0])
            return tokenizer(*columns, **options)

    first = Tokens(Watched(), 32).encode(["a film", "a dog", "a film"])
    again = Tokens(Watched(), 32).encode(["a dog", "a cat"])
    assert asked == ["a film", "a dog", "a cat"]
    assert first[1] == again[0]
    Tokens(Watched(), 8).encode(["a dog"])  # cut at another length: not the same
    assert asked[-1] == "a dog"


def test_the_memory_of_tokens_is_bounded(tokenizer, monkeypatch):
    monkeypatch.setattr(batching, "_REMEMBERED_TOKENS", 2)
    tokens = Tokens(tokenizer, 32)
    for texts in (["a", "b"], ["c", "a"], ["d", "e", "f"]):
        assert [row["input_ids"] for row in tokens.encode(texts)] == tokenizer(texts)["input_ids"]
        assert len(tokens._known) <= 3
