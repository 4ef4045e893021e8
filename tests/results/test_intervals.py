import pytest

from tune_tickets.results.statistics import mcnemar


def flags(text):
    return [letter == "1" for letter in text]


@pytest.mark.parametrize(
    ("a", "b", "p_value"),
    [
        ("1010", "1010", 1.0),  # no row differs
        ("111000", "000111", 1.0),  # 3 to 3
        ("111111", "000000", 2 / 64),  # 6 to 0: 2 · C(6,0) / 2^6
        ("1111100", "0000010", 14 / 64),  # 5 to 1: 2 · (C(6,0) + C(6,1)) / 2^6
        ("0000010", "1111100", 14 / 64),  # the other way round
        ("11111111" + "1111", "00000001" + "1111", 2 / 128),  # rows both got right do not count: 7 to 0
    ],
)
def test_mcnemar_is_the_exact_binomial_test_on_the_rows_that_differ(a, b, p_value):
    assert mcnemar(flags(a), flags(b)) == pytest.approx(p_value)


def test_mcnemar_wants_the_same_rows():
    with pytest.raises(ValueError, match="3 and 2"):
        mcnemar(flags("111"), flags("11"))
