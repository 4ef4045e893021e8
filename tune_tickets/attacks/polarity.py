"""The polarity of a word: the lexicon of vaderSentiment, read from its file, and our list of words it lacks."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tune_tickets.attacks.threat import JUDGEMENTS_FILE
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
    return _judgements() | {entry[0]: float(entry[1]) for entry in fields if len(entry) > 1}


def _judgements() -> dict[str, float]:
    valences = {"+": 1.0, "-": -1.0}
    lines = JUDGEMENTS_FILE.read_text(encoding="utf-8").splitlines()
    return {word: valences[line[0]] for line in lines if line[0] in valences for word in line[1:].split()}
