import random

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("toolkit")]

PIECES = [
    *[
        "it's",
        "'quoted'",
        "well-made",
        "--",
        "...",
        "U.S.",
        "x@y.com",
        "*star*",
        "naïve",
        "电影很好",
        "😀",
        "a_b",
        "don’t",
        "word.word",
        "(aside)",
        "12,000",
    ],
    *("'-_*@", "ѕtrange", "\x00", "　", "\u200b", "-", "end.", "\t", "\n"),
]


def test_words_are_those_textattack_finds():
    from textattack.shared.utils import words_from_text as stock

    from tune_tickets.attacks.parts import words_from_text

    draw = random.Random(0)
    texts = ["", " ", *PIECES]
    texts += [draw.choice(["", " "]).join(draw.choices(PIECES, k=draw.randint(1, 12))) for _ in range(2000)]
    texts += [" ".join(draw.choices(PIECES, k=draw.randint(1, 12))) for _ in range(2000)]
    for text in texts:
        assert words_from_text(text) == stock(text), repr(text)


def test_textattack_has_its_own_way_back_afterwards():
    import textattack.shared.attacked_text as module

    from tune_tickets.attacks.parts import quick_words, words_from_text

    before = module.words_from_text
    with quick_words():
        assert module.words_from_text is words_from_text
    assert module.words_from_text is before is not words_from_text
