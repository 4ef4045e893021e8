"""The polarity of a word by the lexicon of vaderSentiment, read from its file."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tune_tickets.attacks.word_forms import forms
from tune_tickets.errors import ResourceError


@cache
def polarity(word: str) -> int:
    """1 for a positive word, -1 for a negative one, 0 for a neutral or unknown one; forms stand in for the word."""
    valences = _lexicon()
    valence = next((valences[form] for form in forms(word) if form in valences), 0.0)
    return (valence > 0) - (valence < 0)


@cache
def _lexicon() -> dict[str, float]:
    spec = find_spec("vaderSentiment")
    if spec is None or spec.origin is None:
        raise ResourceError("the polarity lexicon is not installed; run `pip install vaderSentiment`")
    lines = (Path(spec.origin).parent / "vader_lexicon.txt").read_text(encoding="utf-8").splitlines()
    fields = (line.split("\t") for line in lines)
    return {entry[0]: float(entry[1]) for entry in fields if len(entry) > 1}
