"""The part of a text that a model can see at all. Attacking only that part spares endless texts and changes nothing."""

import re
from itertools import islice

SEPARATOR = "\ue000"
"""A private character that TextAttack puts between columns; no text may hold it."""

_SPARE_WORDS = 8
_CHINESE = "\u4e00-\u9fff"
# Chinese is written without spaces: each character counts. Every match is at least one token of any tokenizer.
_WORD = re.compile(rf"[{_CHINESE}]|[^\s{_CHINESE}]*[^\W{_CHINESE}][^\s{_CHINESE}]*")


def clean(text: str) -> str:
    """The text without what no tokenizer or file can take (lone surrogates) and without our separator."""
    return text.encode("utf-8", "replace").decode("utf-8").replace(SEPARATOR, " ")


def split_visible(text: str, max_length: int) -> tuple[str, str]:
    """The text in two: what a model that reads `max_length` tokens may see, however words change; and the rest."""
    last = next(islice(_WORD.finditer(text), max_length + _SPARE_WORDS - 1, None), None)
    end = len(text) if last is None else last.end()
    return text[:end], text[end:]
