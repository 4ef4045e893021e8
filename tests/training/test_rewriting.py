"""Slips and corruptions against cases worked out by hand."""

from collections import Counter
from random import Random

import pytest

from tune_tickets.config.training import Adversary
from tune_tickets.training.rewriting import corrupted, slip, words

TABLE = {"film": ["movie", "picture"], "good": ["fine"], "usa": ["america"]}


class Script(Random):
    """Gives the numbers that it was told, in order; `choice` takes them as positions."""

    def __init__(self, *numbers: float) -> None:
        super().__init__(0)
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)

    def randrange(self, start, stop=None, step=1):
        number = self.numbers.pop(0)
        assert number in (range(start) if stop is None else range(start, stop)), "outside of what was asked for"
        return number

    def choice(self, seq):
        return seq[self.numbers.pop(0)]


@pytest.mark.parametrize(
    ("word", "numbers", "expected"),
    [
        ("story", (0, 1), "sory"),
        ("story", (0, 3), "stoy"),
        ("story", (1, 1), "sotry"),
        ("story", (1, 3), "stroy"),  # the letter to the right is the last one, so with the one to the left
        ("film", (1, 2), "flim"),
        ("story", (2, 2), "stoory"),
        ("story", (3, 2, 0), "stiry"),  # i is left of o
        ("story", (3, 2, 1), "stpry"),
        ("paper", (3, 1, 0), "psper"),  # a has one neighbour
        ("story", (4, 2, 25), "stzory"),
        ("STORY", (3, 2, 0), "STIRY"),
        ("naïve", (3, 2, 4), "naeve"),  # not on this keyboard: any letter
        ("bad", (), "bad"),
    ],
)
def test_a_slip_is_the_one_that_was_drawn(word, numbers, expected):
    drawn = Script(*numbers)
    assert slip(word, drawn) == expected
    assert not drawn.numbers, "all numbers were used"


def test_slips_keep_the_first_and_the_last_letter():
    for seed in range(500):
        found = slip("wonder", Random(seed))
        assert (found[0], found[-1]) == ("w", "r")
        assert abs(len(found) - 6) <= 1


def test_words_have_no_digits_and_keep_their_apostrophes():
    assert words("Don't SEE it: 2nd-rate, naïve_film") == ["don't", "see", "it", "nd", "rate", "naïve", "film"]


def test_a_corruption_is_the_one_that_was_drawn():
    settings = Adversary(kind="substitution", word_share=0.3, slip_share=0.2)
    # Film: replaced by its second substitute. is: drawn, but has no substitute. not: a slip, but too short.
    # good: slip, doubles the first o. USA: replaced. here: stays.
    drawn = Script(0.29, 1, 0.1, 0.3, 0.49, 2, 1, 0.0, 0, 0.5)
    assert corrupted("Film is not  good,USA here!", TABLE, settings, drawn) == "Picture is not  goood,AMERICA here!"
    assert not drawn.numbers


def test_shares_are_those_of_the_settings():
    settings = Adversary(kind="substitution", word_share=0.4, slip_share=0.1)
    found = Counter(corrupted(" ".join(["film"] * 5000), TABLE, settings, Random(0)).split())
    replaced = found["movie"] + found["picture"]
    assert replaced / 5000 == pytest.approx(0.4, abs=0.03)
    assert found["film"] / 5000 == pytest.approx(0.5, abs=0.03)


def test_without_a_source_only_slips_remain():
    settings = Adversary(kind="substitution", source="none", slip_share=1.0)
    assert corrupted("good film", {}, settings, Script(0.0, 2, 1, 0.99, 0, 1)) == "goood flm"
