import pytest
import torch

from tune_tickets.attacks.victim import SEPARATOR, clean, split_visible


def test_lone_surrogates_and_the_separator_leave_the_text():
    assert clean("a\ud800b") == "a?b"
    assert clean(f"a{SEPARATOR}b") == "a b"
    assert clean("naïve 😀\x00") == "naïve 😀\x00"


def test_a_short_text_is_visible_as_a_whole():
    assert split_visible("a short, short text!", 128) == ("a short, short text!", "")
    assert split_visible("", 8) == ("", "")


def test_a_long_text_is_cut_eight_words_after_the_last_that_can_be_seen():
    text = "one, - two " * 20
    head, rest = split_visible(text, 4)
    assert head + rest == text
    assert head.split() == ["one,", "-", "two"] * 6


def test_chinese_is_counted_by_characters():
    head, rest = split_visible("好" * 100, 10)
    assert (len(head), len(rest)) == (18, 82)


@pytest.mark.parametrize("text", ["great film. " * 200, "大国人" * 200, "a😀b " * 300])
def test_a_victim_cannot_tell_the_visible_part_from_the_whole(counting_victim, text):
    victim = counting_victim({"great": 0.3, "大": 0.2, "a": -0.1}, max_length=16)
    head, rest = split_visible(text, 16)
    assert rest
    torch.testing.assert_close(victim([head]), victim([text]))
