"""Random corruptions of a text: words replaced by substitutes, and slips of the keyboard."""

import re
from collections.abc import Mapping, Sequence
from random import Random
from string import ascii_lowercase

from tune_tickets.config.training import Adversary

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SHORTEST = 4
"""Words below this length get no slip: too little of them would be left to read."""
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE = {
    letter: row[max(0, place - 1) : place] + row[place + 1 : place + 2]
    for row in _ROWS
    for place, letter in enumerate(row)
}
"""Letter -> its neighbours to the left and right on the keyboard."""


def words(text: str) -> list[str]:
    """The words of a text that corruptions may change, in lower case, in their order."""
    return [word.lower() for word in _WORD.findall(text)]


def corrupted(text: str, substitutes: Mapping[str, Sequence[str]], settings: Adversary, numbers: Random) -> str:
    """A random corruption of a text.

    Each word is replaced by one of its substitutes with probability `word_share`, and gets a slip of the keyboard
    with probability `slip_share`. A word that has no substitute, or is too short for a slip, stays.

    Args:
        text: any text.
        substitutes: lower-case word -> its substitutes.
        settings: an adversary of kind substitution.
        numbers: the random numbers; they are the only thing that changes from call to call.
    """

    def changed(match: re.Match[str]) -> str:
        word, drawn = match.group(0), numbers.random()
        if drawn < settings.word_share:
            listed = substitutes.get(word.lower(), ())
            return _written_like(word, numbers.choice(listed)) if listed else word
        return slip(word, numbers) if drawn < settings.word_share + settings.slip_share else word

    return _WORD.sub(changed, text)


def slip(word: str, numbers: Random) -> str:
    """The word with one typing error in an inner letter: left out, swapped, doubled, mistyped or one inserted."""
    if len(word) < _SHORTEST:
        return word
    kind, place = numbers.randrange(5), numbers.randrange(1, len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == 0:
        return before + after
    if kind == 1:  # with the letter to the right, or to the left if that is the last one
        place = min(place, len(word) - 3)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if kind == 2:
        return before + letter + letter + after
    drawn = numbers.choice(_BESIDE.get(letter.lower(), ascii_lowercase) if kind == 3 else ascii_lowercase)
    if letter.isupper():
        drawn = drawn.upper()
    return before + drawn + after if kind == 3 else before + drawn + letter + after


def _written_like(word: str, substitute: str) -> str:
    """The substitute in capitals where the word has them."""
    if word.isupper() and len(word) > 1:
        return substitute.upper()
    return substitute[:1].upper() + substitute[1:] if word[0].isupper() else substitute
