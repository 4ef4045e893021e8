"""Charmer against an independent search over all edits of tiny texts, on a model that reads characters."""

from dataclasses import replace
from random import Random
from zlib import crc32

import pytest
import torch

from tune_tickets.attacks.charmer import Charmer, edited
from tune_tickets.attacks.run import AttackRow, attack_rows
from tune_tickets.attacks.threat import get_threat, named

ALPHABET = " abc"
TEXTS = ["", "a", "ab", "b a", "cab", "a bc", "caab"]


def answer(text):
    """Three logits that differ for every text; the first class is the likeliest by far."""
    joined = "|".join(text) if isinstance(text, tuple) else text
    draws = Random(crc32(joined.encode()))
    return [draws.random() + 0.78, draws.random(), draws.random()]


def model(texts):
    return torch.tensor([answer(text) for text in texts], dtype=torch.float64)


def margin(text, label):
    logits = answer(text)
    return logits[label] - max(value for place, value in enumerate(logits) if place != label)


def one_edit(text):
    """All texts at one insertion, replacement or deletion."""
    ends = range(len(text) + 1)
    found = {text[:place] + letter + text[place:] for place in ends for letter in ALPHABET}
    found |= {text[:place] + letter + text[place + 1 :] for place in ends[:-1] for letter in (*ALPHABET, "")}
    return found - {text}


def label_of(text):
    logits = answer(text)
    return logits.index(max(logits))


def charmer(**changes):
    return replace(named("charmer/k1"), alphabet=ALPHABET, slots=1000, **changes)


def attack(threat, text, label, **options):
    return Charmer(model, threat, 0, options.get("budget")).attack({"text": text}, label, 0)


def test_one_edit_in_all_slots_is_as_strong_as_trying_every_edit():
    texts = [f"{text}{tail}" for text in TEXTS for tail in ("", "c", " a", "bb")]
    statuses = set()
    for text in texts:
        label = label_of(text)
        best = min(one_edit(text), key=lambda other: margin(other, label))
        found = attack(charmer(), text, label)
        statuses.add(found.status)
        assert (found.status == "successful") == (margin(best, label) < 0)
        if found.status == "successful":
            assert found.texts[0] in one_edit(text)
            assert label_of(found.texts[0]) == found.perturbed_prediction != label
        else:
            assert found.texts[0] == min(best, text, key=lambda other: margin(other, label))
    assert statuses == {"successful", "failed"}


def by_hand(text, label, slots, edits):
    """The published algorithm on lists: write the blanks, replace one entry, drop the blanks; no early end."""
    for _ in range(edits):
        wide = [""]
        for character in text:
            wide += [character, ""]

        def put(slot, character, wide=wide):
            return "".join([*wide[:slot], character, *wide[slot + 1 :]])

        probes = [margin(put(slot, "" if held == " " else " "), label) for slot, held in enumerate(wide)]
        best = sorted(range(len(wide)), key=lambda slot: probes[slot])[:slots]
        candidates = [text, *(put(slot, character) for slot in best for character in ("", *ALPHABET))]
        text = min(candidates, key=lambda other: margin(other, label))
        if margin(text, label) < 0:
            return text, True
    return text, False


@pytest.mark.parametrize("slots", [1, 2, 20])
@pytest.mark.parametrize("edits", [1, 2, 3])
def test_the_search_is_the_published_one(slots, edits):
    statuses = set()
    for text in TEXTS:
        label = label_of(text)
        expected, fooled = by_hand(text, label, slots, edits)
        found = attack(replace(charmer(max_edits=edits), slots=slots), text, label)
        statuses.add(fooled)
        assert (found.status == "successful") == fooled
        if not fooled:
            assert found.texts == (expected,)
    assert fooled in statuses


def test_a_slot_is_a_gap_or_a_character():
    assert [edited("ab", slot, "-") for slot in range(5)] == ["-ab", "-b", "a-b", "a-", "ab-"]
    assert [edited("ab", slot, "") for slot in range(5)] == ["ab", "b", "ab", "a", "ab"]


def test_a_row_that_is_wrong_from_the_start_is_skipped_after_one_query():
    found = attack(charmer(), "ab", (label_of("ab") + 1) % 3)
    assert (found.status, found.queries, found.texts) == ("skipped", 1, ("ab",))


def test_queries_are_distinct_texts_and_end_with_the_budget():
    asked = []

    def counting(texts):
        asked.extend(texts)
        return torch.tensor([[1.0, 0.0]] * len(texts))

    found = Charmer(counting, charmer(max_edits=2), 0, None).attack({"text": "a bc"}, 0, 0)
    assert found.status == "failed"
    assert found.queries == len(asked) == len(set(asked)) == len(one_edit("a bc") | {"a bc"})
    asked.clear()
    found = Charmer(counting, charmer(max_edits=2), 0, 7).attack({"text": "a bc"}, 0, 0)
    assert found.queries == len(asked) == 7


def test_only_the_attacked_column_changes():
    pair = {"premise": "ab c", "hypothesis": "ca b"}
    label = label_of(("ab c", "ca b"))
    found = Charmer(model, charmer(max_edits=3), 1, None).attack(pair, label, 0)
    assert found.texts[0] == "ab c"
    assert found.texts[1] != "ca b"


def toward(words):
    """A model that likes every edit of these words: each adds to the margin of the wrong class, never enough."""

    def logits(texts):
        return torch.tensor([[float(sum(word in text.split() for word in words)) + 1.0, 0.0] for text in texts])

    return logits


def test_spared_words_keep_their_ends_and_change_once():
    text = "the actors never save it"
    threat = replace(named("charmer/k1", spare=True), max_edits=10)
    found = Charmer(toward(text.split()), threat, 0, None).attack({"text": text}, 0, 0)
    changed = found.texts[0].split()
    assert len(changed) == 5
    assert (changed[0], changed[4]) == ("the", "it")
    for old, new in zip(text.split()[1:4], changed[1:4], strict=True):
        assert old != new
        assert (old[0], old[-1]) == (new[0], new[-1])
        assert new in {old[:at] + letter + old[at + cut :] for at in range(1, len(old)) for cut in (0, 1)
                       for letter in ("", *"abcdefghijklmnopqrstuvwxyz")}  # fmt: skip


def test_a_focus_edits_the_words_whose_deletion_hurts_most():
    asked = []

    def logits(texts):
        asked.extend(texts)
        return torch.tensor([[2.0 if "fine" in text.split() else 1.0, 0.0] for text in texts])

    threat = replace(named("charmer-focus/k1"), focus=1)
    found = Charmer(logits, threat, 0, None).attack({"text": "some fine work"}, 0, 0)
    assert found.status == "failed"
    assert "fine" not in found.texts[0].split()
    words = ["some  work", " fine work", "some fine "]
    assert set(words) <= set(asked)
    others = [text for text in asked if text not in (*words, "some fine work")]
    assert all(text.startswith("some") and text.endswith("work") for text in others)


def test_a_focus_leaves_negations_alone():
    def logits(texts):
        return torch.tensor([[2.0 if "not" in text.split() else 1.0, 0.0] for text in texts])

    found = Charmer(logits, replace(named("charmer-focus/k1"), focus=9), 0, None).attack({"text": "not fine"}, 0, 0)
    assert found.texts == ("not fine",)


def test_names_say_how_many_edits_and_slots():
    published, fast = named("charmer"), named("charmer-fast/k2")
    assert (published.slots, published.max_edits, fast.slots, fast.max_edits) == (20, 10, 1, 2)
    assert named("charmer/k1", slots=5, spare=True).name == "charmer/k1:slots:5:spare:1"
    assert named("charmer/k1").fingerprint != replace(named("charmer/k1"), alphabet="abc").fingerprint


def test_real_rows_are_attacked_through_the_executor(counting_victim):
    victim = counting_victim({"good": 4.0, "bad": -4.0}, bias=-1.0)
    rows = [AttackRow(0, ("a good film",), 1), AttackRow(1, ("a bad film",), 0), AttackRow(2, ("a good film",), 0)]
    found = attack_rows(victim, rows, get_threat("charmer-fast/k1"), ("text",), "text", ("neg", "pos"), 0)
    assert [record.status for record in found.records] == ["successful", "failed", "skipped"]
    assert "good" not in found.records[0].perturbed_texts[0].split()
    assert found.candidates > 0
