"""TextAttack's way of finding the words of a text, remembered piece by piece: it is asked for every candidate."""

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from tune_tickets.attacks.resources import import_textattack

import_textattack()

_attacked_text = importlib.import_module("textattack.shared.attacked_text")
_words_from_text: Any = _attacked_text.words_from_text
_CHINESE = re.compile("[\u4e00-\u9fff]")

_piece = lru_cache(maxsize=2**16)(lambda piece: tuple(_words_from_text(piece)))


def words_from_text(text: str) -> list[str]:
    """As TextAttack's: it looks at each piece between spaces on its own, except in Chinese, which it cuts first."""
    if _CHINESE.search(text):
        return list(_piece(text))
    return [word for piece in text.split() for word in _piece(piece)]


@contextmanager
def quick_words() -> Iterator[None]:
    """Let TextAttack use it; afterwards all is as before."""
    _attacked_text.words_from_text = words_from_text  # type: ignore[attr-defined]
    try:
        yield
    finally:
        _attacked_text.words_from_text = _words_from_text  # type: ignore[attr-defined]
