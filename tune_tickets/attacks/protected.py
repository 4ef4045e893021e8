"""Words that attacks neither touch nor put in: stop words, words that negate, and what is no word at all."""

from functools import cache, lru_cache

from tune_tickets.attacks.threat import NEGATIONS_FILE

MAX_WORD_LENGTH = 40
"""Longer strings (addresses, codes, one endless word) are left alone."""


@lru_cache(maxsize=2**16)
def is_protected(word: str) -> bool:
    """Whether the word must stay as it is; case does not matter."""
    lowered = word.lower().replace("’", "'")
    return (
        lowered in negations() or lowered.endswith("n't") or lowered in stop_words() or len(lowered) > MAX_WORD_LENGTH
    )


@cache
def negations() -> frozenset[str]:
    """The words that turn a sentence round: not, never, hardly, without."""
    lines = NEGATIONS_FILE.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


@cache
def stop_words() -> frozenset[str]:
    """scikit-learn's English stop words, in place of NLTK's, which would have to be downloaded."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
