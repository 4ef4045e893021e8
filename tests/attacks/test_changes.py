"""Which words an attack changed, with expected values by hand."""

import time

import pytest

from tune_tickets.attacks.records import AttackRecord, Piece, pieces, sample_substitutions
from tune_tickets.results.records import Substitution


def record(index, before, after, status="successful", similarity=0.9):
    return AttackRecord(index, status, 5, 10.0, similarity, before, after, 1, 1, 0)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("It is a wonderful film.", "It is a terrific film.", [("wonderful", "terrific")]),
        ("a good, good film", "a good, great movie", [("good", "great"), ("film", "movie")]),
        ("a wonderful film", "a wond erful film", [("wonderful", "wond erful")]),  # TextBugger puts a space in
        ("the wonderful old film", "the wond erful new film", [("wonderful old", "wond erful new")]),
        ("bad film", "baԁ film", [("bad", "baԁ")]),  # a Cyrillic letter
        ("it's the director's best-known work", "it's the maker's best-known work", [("director's", "maker's")]),
        ("not a film", "a film", [("not", "")]),
        ("a film", "a dull film", [("", "dull")]),
        ("good", "bad", [("good", "bad")]),
        ("", "", []),
        ("same  text\n here", "same  text\n here", []),
        ("👍 fine", "👍 good", [("fine", "good")]),
    ],
)
def test_the_changed_words_are_found_where_they_stand(before, after, changed):
    found = pieces(before, after)
    assert [piece for piece in found if piece.old != piece.new] == [Piece(*pair) for pair in changed]
    assert "".join(piece.new for piece in found) == after
    assert "".join("".join(piece.old for piece in found).split()) == "".join(before.split())


def test_a_text_of_many_words_is_aligned_at_once():
    before = "the film was dull and the cast was dull " * 5000
    after = before.replace("dull", "boring", 2)
    began = time.process_time()
    changed = [piece for piece in pieces(before, after) if piece.old != piece.new]
    assert changed == [Piece("dull", "boring")] * 2
    assert time.process_time() - began < 10.0  # aligning all 45,000 words takes minutes


def test_a_substitution_is_shown_with_the_words_around_it_and_its_outcome():
    before = ("Nobody in the small town will ever forget this wonderful film about a boy and his dog.", "a side")
    after = ("Nobody in the small town will ever forget this terrific film about a boy and his dog.", "a side")
    [found] = sample_substitutions([record(7, before, after, "failed", 0.93)], seed=0)
    assert found == Substitution(
        row=7,
        left="small town will ever forget this ",
        old="wonderful",
        new="terrific",
        right=" film about a boy and his",
        similarity=0.93,
        successful=False,
    )


def test_the_sample_is_seeded_in_the_order_of_the_rows_and_leaves_skipped_rows_out():
    records = [record(index, (f"good film number{index}",), (f"fine movie number{index}",)) for index in range(30)]
    records.append(record(30, ("good film",), ("good film",), "skipped", None))
    sample = sample_substitutions(records, seed=0)
    assert len(sample) == 20
    assert [one.row for one in sample] == sorted(one.row for one in sample)
    assert {(one.old, one.new) for one in sample} == {("good", "fine"), ("film", "movie")}
    assert sample == sample_substitutions(records, seed=0)
    assert sample != sample_substitutions(records, seed=1)
    assert len(set(map(repr, sample))) == 20, "no change is drawn twice"
    assert len(sample_substitutions(records[:3], seed=0)) == 6, "fewer than asked for are all shown"
    assert sample_substitutions(records[30:], seed=0) == ()
