import numpy as np
import pytest
import torch

from tune_tickets.attacks.neighbours import load_encoder

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def parts():
    from tune_tickets.attacks import parts

    return parts


def changed(parts, text, index, word, transformation=None):
    """The text with one word replaced, as a transformation would hand it to the constraints."""
    new = text.replace_word_at_index(index, word)
    new.attack_attrs["last_transformation"] = transformation
    return new


def test_every_lookalike_is_one_other_letter_that_counts_as_part_of_a_word(parts):
    from textattack.shared.utils import words_from_text

    assert len(set(parts.LOOKALIKES.values())) == len(parts.LOOKALIKES)
    for latin, other in parts.LOOKALIKES.items():
        assert latin.isascii()
        assert not other.isascii()
        assert words_from_text(f"x{other}x") == [f"x{other}x"]


def test_a_lookalike_swap_changes_one_letter(parts):
    np.random.seed(0)
    for _ in range(20):
        [word] = parts.LookalikeSwap()._get_replacement_words("brilliant")
        assert sum(before != after for before, after in zip("brilliant", word, strict=True)) == 1
    assert parts.LookalikeSwap()._get_replacement_words("123") == []


def test_bugs_depend_on_row_and_word_and_not_on_what_was_drawn_before(parts):
    text = parts.AttackedText("a magnificent and extraordinary accomplishment")
    bugs = parts.Bugs([parts.LookalikeSwap()])

    def drawn(row_seed, index):
        bugs.row_seed = row_seed
        return [changed_text.text for changed_text in bugs(text, indices_to_modify=[index])]

    first = drawn(1, 3)
    assert drawn(1, 1) != first
    assert drawn(1, 3) == first
    assert len({tuple(drawn(row_seed, 3)) for row_seed in range(8)}) > 1


def test_a_neighbour_takes_over_the_case(parts):
    class Always:
        def of(self, word):
            assert word == "film"
            return ("movie", "picture", "cinema")

    swap = parts.NeighbourSwap(Always(), 2)
    assert swap._get_replacement_words("film") == ["movie", "picture"]
    assert swap._get_replacement_words("Film") == ["Movie", "Picture"]
    assert swap._get_replacement_words("FILM") == ["MOVIE", "PICTURE"]


def test_similarity_compares_the_windows_around_the_change_with_the_original(parts):
    encoder = load_encoder(torch.device("cpu"))
    original = parts.AttackedText("one two three four five six seven eight nine")
    constraint = parts.SentenceSimilarity(encoder, 0, 0.0, 3)
    near = changed(parts, original, 4, "fifth")
    assert constraint._windows(original, near) == ("four five six", "four fifth six")
    split = changed(parts, near, 1, "t wo")  # a space put in shifts the words that follow
    assert constraint._windows(original, split) == ("one two three", "one t wo")
    later = changed(parts, split, 7, "seventh")  # the seventh word is now the eighth
    assert constraint._windows(original, later) == ("six seven eight", "six seventh eight")


def test_similarity_keeps_what_reaches_the_threshold_and_tells_the_search(parts):
    encoder = load_encoder(torch.device("cpu"))
    original = parts.AttackedText("a wonderful film about two friends")
    texts = [changed(parts, original, 1, "lovely"), changed(parts, original, 2, "refrigerator")]
    values = encoder.similarities([(original.text, text.text) for text in texts])
    threshold = sum(values) / 2
    assert values[0] > threshold > values[1]
    constraint = parts.SentenceSimilarity(encoder, 0, threshold, 15)
    assert constraint.call_many(texts, original) == [texts[0]]
    assert [text.attack_attrs["similarity_score"] for text in texts] == pytest.approx(values, abs=1e-5)


def test_only_the_attacked_column_is_compared(parts):
    from collections import OrderedDict

    encoder = load_encoder(torch.device("cpu"))
    original = parts.AttackedText(OrderedDict(premise="one two", hypothesis="three four"))
    new = changed(parts, original, 3, "fourth")
    assert parts.SentenceSimilarity(encoder, 1, 0.0, 15)._windows(original, new) == ("three four", "three fourth")
