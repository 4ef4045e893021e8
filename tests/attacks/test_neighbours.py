from typing import ClassVar

import pytest
import torch

from tests.attacks.test_antonyms import PAIRS
from tune_tickets.attacks.neighbours import Neighbours, is_substitute, load_encoder
from tune_tickets.attacks.word_rules import is_protected


class FewWords:
    """An encoder with hand-made word vectors: each word at some angle, in degrees, from `film`."""

    angles: ClassVar = {
        "film": 0,
        "movie": 30,
        "films": 20,
        "cinema": 61,
        "not": 5,
        "terrible": 6,
        "##ing": 1,
        "ox": 2,
        "x1": 3,
    }

    def vocabulary(self):
        return {word: row for row, word in reversed(list(enumerate(self.angles)))}

    def word_vectors(self):
        radians = torch.deg2rad(torch.tensor(list(self.angles.values()), dtype=torch.float64))
        return torch.stack([radians.cos(), radians.sin()], dim=1)


def test_neighbours_are_whole_words_within_the_cosine_nearest_first(monkeypatch):
    monkeypatch.setattr("tune_tickets.attacks.neighbours._CONSIDERED", 6)
    assert Neighbours(FewWords(), 0.5).of("film") == ("films", "movie")  # cos 61° is 0.485
    assert Neighbours(FewWords(), 0.45).of("film") == ("films", "movie", "cinema")
    assert Neighbours(FewWords(), 0.9).of("film") == ("films",)


def test_a_protected_or_unknown_word_has_no_neighbours(monkeypatch):
    monkeypatch.setattr("tune_tickets.attacks.neighbours._CONSIDERED", 6)
    neighbours = Neighbours(FewWords(), 0.0)
    assert neighbours.of("not") == neighbours.of("zzqx") == ()


def test_polarity_must_not_change():
    assert not is_substitute("film", "terrible")
    assert not is_substitute("wonderful", "big")
    assert is_substitute("wonderful", "lovely")


def test_a_word_must_fit_the_slot():
    assert not is_substitute("films", "movie")
    assert is_substitute("films", "movies")
    assert is_substitute("films", "film")  # another form of the same word keeps the sense
    assert not is_substitute("film", "watched")


@pytest.fixture(scope="module")
def real_neighbours():
    return Neighbours(load_encoder(torch.device("cpu")), 0.37)


def test_the_encoders_neighbours_hold_no_opposites(real_neighbours):
    for first, second in PAIRS:
        assert second not in real_neighbours.of(first)
        assert first not in real_neighbours.of(second)


def test_the_encoders_neighbours_are_near_in_meaning_and_never_protected(real_neighbours):
    assert "movie" in real_neighbours.of("film")
    assert "hilarious" in real_neighbours.of("funny")
    assert "dull" in real_neighbours.of("boring")
    found = {
        neighbour
        for word in ("never", "little", "story", "great", "terrible")
        for neighbour in real_neighbours.of(word)
    }
    assert found
    assert not any(map(is_protected, found))
