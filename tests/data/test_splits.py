import hashlib
import random
from collections import Counter

import pytest

from tune_tickets.data.rows import Example
from tune_tickets.data.splits import in_order, quotas, take, text_key, unique, without


def rows(*texts: str, label: int = 0) -> list[Example]:
    return [Example((text,), label) for text in texts]


@pytest.mark.parametrize(
    ("size", "shares", "room", "expected"),
    [
        (10, [50, 30, 20], [50, 30, 20], [5, 3, 2]),
        (7, [50, 30, 20], [50, 30, 20], [4, 2, 1]),  # 3.5, 2.1, 1.4
        (10, [1, 1, 1], [9, 9, 9], [4, 3, 3]),  # a tie goes to the first
        (5, [5, 5], [1, 9], [1, 4]),  # what does not fit goes elsewhere
        (4, [97, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]),
        (0, [3, 4], [3, 4], [0, 0]),
    ],
)
def test_seats_are_given_by_largest_remainder(size, shares, room, expected):
    assert quotas(size, shares, room) == expected


def test_quotas_stay_within_one_seat_of_the_exact_share():
    draw = random.Random(0)
    for _ in range(200):
        shares = [draw.randint(1, 60) for _ in range(draw.randint(2, 6))]
        size = draw.randint(0, sum(shares))
        seats = quotas(size, shares, shares)
        assert sum(seats) == size
        assert all(abs(seat - size * share / sum(shares)) < 1 for seat, share in zip(seats, shares, strict=True))


def test_case_and_white_space_do_not_tell_texts_apart_but_columns_do():
    assert text_key(Example((" A  good\n\tFilm ", "STRASSE"), 0)) == text_key(Example(("a good film", "Straße"), 1))
    assert text_key(Example(("a", "b"), 0)) != text_key(Example(("a b", ""), 0))


def test_duplicates_go_and_texts_with_two_labels_go_altogether():
    given = [*rows("one", "ONE ", "two", "three"), *rows("Two", "four", "four", label=1)]
    kept = unique(given)
    assert sorted(row.texts[0] for row in kept.rows) == ["ONE ", "four", "three"]
    assert (kept.duplicates, kept.conflicts) == (2, 2)
    assert unique(reversed(given)).rows != kept.rows  # another order, yet
    assert set(unique(reversed(given)).rows) == set(kept.rows)  # the same rows and spellings


def test_the_order_is_that_of_the_documented_hash():
    texts = [f"film {i}" for i in range(50)]
    expected = sorted(texts, key=lambda text: hashlib.sha256(b"split\x007\x00" + text.encode()).hexdigest())
    assert [row.texts[0] for row in in_order(rows(*texts), 7)] == expected
    assert [row.texts[0] for row in in_order(rows(*texts), 8)] != expected


def test_groups_are_disjoint_complete_and_stratified():
    given = in_order([*rows(*(f"a{i}" for i in range(70))), *rows(*(f"b{i}" for i in range(30)), label=1)], 0)
    first, second, left = take(given, (20, 11))
    assert Counter(row.label for row in first) == {0: 14, 1: 6}
    assert Counter(row.label for row in second) == {0: 8, 1: 3}  # 7.7 and 3.3
    assert set(first) | set(second) | set(left) == set(given)
    assert len(first) + len(second) + len(left) == 100
    assert [row for row in given if row in set(first)] == first


def test_everything_can_be_taken_even_where_rounding_would_overdraw_a_class():
    # Each group of one wants a third of class 1, which has one row only.
    given = [*rows("a", "b"), *rows("c", label=1)]
    groups = take(given, (1, 1, 1))
    assert [len(group) for group in groups] == [1, 1, 1, 0]
    assert {row for group in groups for row in group} == set(given)


def test_rows_of_another_set_are_left_out_whatever_their_label_or_case():
    assert without(rows("a", "b", "c"), [Example((" B",), 1)]) == rows("a", "c")
