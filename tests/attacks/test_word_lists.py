"""Word forms, polarity and protected words, which decide the substitutes."""

import pytest

from tune_tickets.attacks.word_rules import forms, inflections, is_protected, lemmas, polarity, stop_words


def test_forms_reach_the_lemma_and_the_word_behind_a_derivation():
    assert "love" in forms("loved")
    assert "sad" in forms("sadly")
    assert "happy" in forms("happiness")
    assert "possible" in forms("possibly")
    assert forms("zzqx") == ("zzqx",)


def test_inflections_tell_singular_from_plural_and_a_name_has_none():
    assert "NNS" in inflections("films")
    assert "NN" not in inflections("films")
    assert "VBD" in inflections("loved")
    assert inflections("zzqx") == frozenset()
    assert lemmas("films") == {"film"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("wonderful", 1),
        ("terrible", -1),
        ("table", 0),
        ("zzqx", 0),
        ("brilliantly", 1),
        ("predictable", -1),
        ("witty", 1),
    ],
)
def test_polarity_has_three_classes(word, expected):
    assert polarity(word) == expected


@pytest.mark.parametrize("word", ["not", "NOT", "Never", "don't", "isn’t", "without", "the", "hardly", "a" * 41])
def test_negations_stop_words_and_endless_words_are_protected(word):
    assert is_protected(word)


def test_other_words_are_not_protected():
    assert not any(is_protected(word) for word in ("film", "wonderful", "Boring", "knot"))


def test_stop_words_are_those_of_scikit_learn():
    assert len(stop_words()) == 318
    assert {"the", "because", "thereupon"} <= stop_words()
