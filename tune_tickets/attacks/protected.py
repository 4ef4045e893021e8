"""Words that attacks neither touch nor put in: stop words, and words that negate."""

from functools import cache, lru_cache

NEGATIONS = frozenset(
    "no not never none nobody nothing nowhere neither nor cannot cant dont doesnt didnt isnt arent wasnt werent wont "
    "wouldnt couldnt shouldnt havent hasnt hadnt aint without hardly barely scarcely rarely seldom nope nah non "
    "lack lacks lacked lacking absent absence minus few little less least fewer unlike except despite instead "
    "yes always ever only almost nearly".split()
)

MAX_WORD_LENGTH = 40
"""Longer strings (addresses, codes, one endless word) are left alone."""


@lru_cache(maxsize=2**16)
def is_protected(word: str) -> bool:
    """Whether the word must stay as it is; case does not matter."""
    lowered = word.lower().replace("’", "'")
    return (
        lowered in NEGATIONS or lowered.endswith("n't") or lowered in stop_words() or len(lowered) > MAX_WORD_LENGTH
    )


@cache
def stop_words() -> frozenset[str]:
    """scikit-learn's English stop words, in place of NLTK's, which would have to be downloaded."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
