"""The table of substitutes for training is what the attack of the same source tries."""

import pytest

from tune_tickets.attacks.substitutes import source_identity, substitutes_of
from tune_tickets.attacks.threat import get_threat
from tune_tickets.attacks.word_rules import opposed, polarity
from tune_tickets.errors import ConfigError

WORDS = ("loved", "film", "boring", "not", "the", "performance", "qwzx")


def test_the_table_holds_what_the_attack_tries(toolkit, counting_victim):
    from tune_tickets.attacks.recipes import Recipe

    swap = Recipe.of(counting_victim({}), get_threat("words/near50-forms"), 0).transformation
    table = substitutes_of(source_identity("near50-forms"), [*WORDS, "film"])
    assert table == {word: found for word in WORDS if (found := swap._get_replacement_words(word))}
    assert set(table) == {"loved", "film", "boring", "performance"}


def test_opposites_are_kept_out():
    for word, found in substitutes_of(source_identity("near50-forms"), WORDS).items():
        assert all(polarity(word) == polarity(other) and not opposed(word, other) for other in found)


def test_the_identity_holds_what_decides_about_words_only():
    identity = source_identity("near50-forms")
    assert (identity["words"], identity["max_candidates"]) == ("minilm+inflections", 50)
    assert {"word neighbours", "polarity", "antonyms", "stop words", "negations"} <= set(identity["resources"])
    assert not {"sentence encoder", "toolkit"} & set(identity["resources"])


def test_an_unknown_source_is_refused():
    with pytest.raises(ConfigError, match="unknown attack 'words/nowhere'"):
        source_identity("nowhere")
