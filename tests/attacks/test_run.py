"""Whole attacks on victims whose answers can be calculated by hand."""

import random
from collections import OrderedDict
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

from tune_tickets.attacks.run import AttackRow, attack_rows
from tune_tickets.attacks.threat import get_threat
from tune_tickets.attacks.word_rules import is_protected
from tune_tickets.errors import ConfigError, DataError, ResourceError, TicketsError

pytestmark = pytest.mark.integration

FOOLER, BUGGER = get_threat("textfooler/minilm"), get_threat("textbugger/minilm")
BOTH = pytest.mark.parametrize("threat", [FOOLER, BUGGER], ids=["textfooler", "textbugger"])
PRAISE = "It is a wonderful film that nobody in the small town will ever forget."


def attack(victim, rows, threat=FOOLER, seed=0, **options):
    return attack_rows(victim, rows, threat, ("text",), "text", ("neg", "pos"), seed, **options).records


@pytest.fixture
def leans_on_wonderful(counting_victim):
    return counting_victim({"wonderful": 1.0}, bias=-0.5)


@BOTH
def test_a_victim_that_leans_on_one_word_falls_when_the_word_is_replaced(leans_on_wonderful, threat):
    [record] = attack(leans_on_wonderful, [AttackRow(4, (PRAISE,), 1)], threat)
    assert record.status == "successful"
    assert (record.index, record.label, record.prediction, record.perturbed_prediction) == (4, 1, 1, 0)
    assert record.texts == (PRAISE,)
    before, after = PRAISE.split(), record.perturbed_texts[0].split()
    assert after[:3] == before[:3]
    assert after[-10:] == before[-10:]
    assert "wonderful" not in after
    assert record.words_changed == pytest.approx(100 / 14)  # one word of 14
    assert 0.8 < record.similarity < 1.0


@BOTH
def test_a_victim_that_leans_on_a_stop_word_stands(counting_victim, threat):
    [record] = attack(counting_victim({"it": 1.0}, bias=-0.5), [AttackRow(0, (PRAISE,), 1)], threat)
    assert record.status == "failed"
    assert record.perturbed_prediction == 1


def test_a_row_the_victim_gets_wrong_is_skipped_after_one_query(leans_on_wonderful):
    [record] = attack(leans_on_wonderful, [AttackRow(0, (PRAISE,), 0)])
    assert (record.status, record.queries, record.words_changed, record.similarity) == ("skipped", 1, 0.0, None)
    assert record.perturbed_texts == record.texts


def test_queries_are_one_for_the_text_one_per_left_out_word_and_one_per_candidate(counting_victim):
    # Two words that may be touched, neither with a neighbour: 1 + 2.
    [record] = attack(counting_victim({}, bias=1.0), [AttackRow(0, ("the zzqx of the qqvw",), 1)])
    assert (record.status, record.queries, record.perturbed_texts) == ("failed", 3, ("the zzqx of the qqvw",))


def test_a_query_budget_ends_the_attack(counting_victim):
    victim = counting_victim({"it": 1.0}, bias=-0.5)
    rows = [AttackRow(0, (PRAISE,), 1)]
    assert attack(victim, rows)[0].queries > 7
    for budget in (1, 2, 7):
        assert attack(victim, rows, query_budget=budget)[0].queries == budget
        assert attack(victim, rows, replace(FOOLER, query_budget=budget))[0].queries == budget


ROWS = [
    AttackRow(11, (PRAISE,), 1),
    AttackRow(5, ("a truly wonderful story, told with wit and a wonderful cast of actors",), 1),
    AttackRow(2, ("The director has made a wonderful, moving picture about ordinary people.",), 1),
    AttackRow(30, ("a dull film",), 0),
]


@BOTH
def test_order_and_sharding_change_nothing(leans_on_wonderful, threat):
    together = attack(leans_on_wonderful, ROWS, threat, seed=3)
    assert [record.index for record in together] == [11, 5, 2, 30]
    backwards = attack(leans_on_wonderful, ROWS[::-1], threat, seed=3)
    one_by_one = [attack(leans_on_wonderful, [row], threat, seed=3)[0] for row in ROWS]
    plain = [replace(record, similarity=None) for record in together]
    assert [replace(record, similarity=None) for record in backwards[::-1]] == plain
    assert [replace(record, similarity=None) for record in one_by_one] == plain


def test_the_seed_decides_which_bugs_are_tried(counting_victim):
    # A name has no neighbours: only bugs can hide it.
    victim = counting_victim({"hitchcock": 1.0}, bias=-0.5)
    row = AttackRow(0, ("It is the film that hitchcock would have made of it.",), 1)
    bugger = replace(BUGGER, min_similarity=-1.0)
    texts = {attack(victim, [row], bugger, seed=seed)[0].perturbed_texts for seed in range(6)}
    assert len(texts) > 1


def test_the_callers_random_numbers_go_on_as_if_nothing_had_happened(leans_on_wonderful):
    def draw():
        return random.random(), np.random.rand(), torch.rand(()).item()

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draw()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    attack(leans_on_wonderful, ROWS, BUGGER)
    assert draw() == expected


@BOTH
@pytest.mark.parametrize("attacked", ["premise", "hypothesis"])
def test_the_other_column_of_a_pair_is_locked(counting_victim, threat, attacked):
    victim = counting_victim({"it": 1.0}, bias=-0.5)
    columns = ("premise", "hypothesis")
    rows = [
        AttackRow(0, (PRAISE, "A wonderful film was shown."), 1),
        AttackRow(1, ("I saw it. 这部电影很好看", "I like wonderful films."), 1),
        AttackRow(2, ("it <SPLIT> is a wonderful film", "a wonderful story <SPLIT> it is"), 1),
    ]
    records = attack_rows(victim, rows, threat, columns, attacked, ("no", "yes"), seed=0).records
    own = columns.index(attacked)
    for row, record in zip(rows, records, strict=True):
        assert record.status == "failed"
        assert record.queries > 1
        assert record.perturbed_texts[1 - own] == row.texts[1 - own]


def test_the_lock_agrees_with_the_stock_one_where_that_is_right():
    from tune_tickets.attacks.parts import AttackedText, OnlyColumn

    pre_transformation = import_module("textattack.constraints.pre_transformation")
    stock = pre_transformation.InputColumnModification(["a", "b"], {"a"})
    for first, second in [
        ("one two", "three"),
        ("", "a b"),
        ("it's 'quoted' - so", "I split, you -split-"),
        ("a a", "a a"),
    ]:
        text = AttackedText(OrderedDict(a=first, b=second))
        assert OnlyColumn(1)._get_modifiable_indices(text) == stock._get_modifiable_indices(text)


@BOTH
def test_protected_words_stay_where_they_are(counting_victim, threat):
    victim = counting_victim({"it": 1.0}, bias=-0.5)
    text = "It is NOT a dull film, it doesn't bore; never was a story less boring, without any hardly needed tricks."
    [record] = attack(victim, [AttackRow(0, (text,), 1)], replace(threat, min_similarity=-1.0))

    def protected(words):
        return [word for word in (word.strip(",.;") for word in words.split()) if is_protected(word)]

    assert record.queries > 5
    assert protected(record.perturbed_texts[0]) == protected(text)


ODD = [
    "",
    " \t\n",
    "wonderful",
    "WONDERFUL!",
    "😀😀 👍🏽",
    "\x00\x01 bad \x1f film\x85 here",
    "\ud800 broken \udfff film",
    "a <SPLIT> film, I <SPLIT> S P L I T",
    "\ue000 private \ue000 film",
    "这部电影真的很好看",
    "İstanbul İİ filmi ﬁne e\u0301tude",
    "''quoted'' -dash- _under_ *star* @at it's `×˗",
    "http://example.com/a?b=c&d=e%20 x" + "y" * 5000,
    ".... !!! ---",
    "don't can't NOT never",
]


@BOTH
@pytest.mark.parametrize("label", [0, 1])
def test_odd_texts_are_attacked_and_counted(counting_victim, threat, label):
    victim = counting_victim({"the": 0.1}, bias=0.5 if label else -0.5)
    records = attack(victim, [AttackRow(index, (text,), label) for index, text in enumerate(ODD)], threat)
    assert [record.index for record in records] == list(range(len(ODD)))
    assert all(record.status == "failed" for record in records)


@BOTH
def test_an_endless_text_is_attacked_where_the_model_looks_and_kept_whole(counting_victim, threat):
    victim = counting_victim({"wonderful": 1.0}, bias=-0.5, max_length=16)
    text = PRAISE + " And more words follow." * 5000
    [record] = attack(victim, [AttackRow(0, (text,), 1)], threat)
    assert record.status == "successful"
    assert record.texts == (text,)
    assert record.perturbed_texts[0].endswith(text[200:])
    assert record.words_changed == pytest.approx(100 / (14 + 4 * 5000))


def test_an_attack_that_breaks_names_the_row_and_gives_no_figure(leans_on_wonderful):
    def break_at_second(done, total):
        leans_on_wonderful.model.bias = float("nan")

    with pytest.raises(TicketsError, match=r"textfooler/minilm failed on row 5 .*not finite"):
        attack(leans_on_wonderful, ROWS, progress=break_at_second)


def test_progress_counts_the_rows(leans_on_wonderful):
    seen = []
    attack(leans_on_wonderful, ROWS, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_rows_that_do_not_fit_the_task_are_named(leans_on_wonderful):
    with pytest.raises(DataError, match="row 8 has 1 texts and label 2"):
        attack(leans_on_wonderful, [AttackRow(8, ("a",), 2)])
    with pytest.raises(DataError, match="row 9 has 2 texts"):
        attack(leans_on_wonderful, [AttackRow(9, ("a", "b"), 1)])
    with pytest.raises(ConfigError, match="'premise' is not one of"):
        attack_rows(leans_on_wonderful, [], FOOLER, ("text",), "premise", ("a", "b"), 0)
    with pytest.raises(TicketsError, match="the model has 2 classes, the task 3"):
        attack_rows(leans_on_wonderful, ROWS, FOOLER, ("text",), "text", ("a", "b", "c"), 0)


def test_a_threat_model_named_elsewhere_with_other_resources_is_refused(leans_on_wonderful):
    elsewhere = replace(FOOLER, resources=FOOLER.resources | {"antonyms": "sha256:other"})
    with pytest.raises(ResourceError, match=r"other resources than this process has \(antonyms\)"):
        attack(leans_on_wonderful, ROWS, elsewhere)
