"""Which word may stand in for which: polarity, antonyms, word forms."""

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import product, takewhile
from pathlib import Path

from lemminflect import getAllInflections, getAllLemmas

from tune_tickets.attacks.threat import JUDGEMENTS_FILE, NEGATIONS_FILE, antonym_files
from tune_tickets.errors import ResourceError

_MAX_WORD_LENGTH = 40
"""Longer strings (addresses, codes, one endless word) are left alone."""


@lru_cache(maxsize=2**16)
def is_protected(word: str) -> bool:
    """Whether the word must not change: negations, stop words, very long strings. Case does not matter."""
    lowered = word.lower()
    return is_negation(lowered) or lowered.replace("’", "'") in stop_words() or len(lowered) > _MAX_WORD_LENGTH


def is_negation(word: str) -> bool:
    """Whether the word reverses a sentence: not, never, isn't. Case does not matter."""
    lowered = word.lower().replace("’", "'")
    return lowered in _negations() or lowered.endswith("n't")


@cache
def _negations() -> frozenset[str]:
    """Return the words that reverse a sentence: not, never, hardly, without."""
    lines = NEGATIONS_FILE.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


@cache
def stop_words() -> frozenset[str]:
    """scikit-learn's English stop words, in place of NLTK's, which would have to be downloaded."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


# Ending -> what it is replaced with to reach the adjective, noun or verb behind the word.
_DERIVATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ily", ("y",)),
    ("ably", ("able",)),
    ("ibly", ("ible",)),
    ("ically", ("ic", "ical")),
    ("ly", ("", "le")),
    ("iness", ("y",)),
    ("ness", ("",)),
    ("ability", ("able",)),
    ("ibility", ("ible",)),
    ("ity", ("", "e")),
    ("ance", ("ant",)),
    ("ence", ("ent",)),
    ("ation", ("ate", "e")),
    ("ion", ("", "e")),
    ("ment", ("",)),
)


@cache
def lemmas(word: str) -> frozenset[str]:
    """The dictionary forms the word may belong to, as any part of speech; empty for an unknown word."""
    return frozenset(lemma for found in getAllLemmas(word).values() for lemma in found)


@cache
def inflections(word: str) -> frozenset[str]:
    """The Penn tags the word may carry (NN, NNS, VBD, JJ ...); two words fit one slot if these overlap."""
    tags: set[str] = set()
    for part_of_speech, found in getAllLemmas(word).items():
        for lemma in found:
            forms_by_tag = getAllInflections(lemma, part_of_speech)
            tags.update(tag for tag, forms in forms_by_tag.items() if word in forms)
    return frozenset(tags)


@cache
def word_forms(word: str) -> tuple[str, ...]:
    """Return the other inflections of a word, sorted: loved -> love, loves, loving."""
    found = {
        form
        for part_of_speech, lemmas_of in getAllLemmas(word).items()
        for lemma in lemmas_of
        for inflected in getAllInflections(lemma, part_of_speech).values()
        for form in inflected
    }
    return tuple(sorted(found - {word}))


@cache
def forms(word: str) -> tuple[str, ...]:
    """The word, its lemmas, then what both may be derived from: loved -> love, sadly -> sad, darkness -> dark."""
    found = [word, *sorted(lemmas(word) - {word})]
    for form in tuple(found):
        found.extend(stem for stem in _stems(form) if stem not in found)
    return tuple(found)


def _stems(word: str) -> list[str]:
    stems: list[str] = []
    for ending, replacements in _DERIVATIONS:
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            stems.extend(stem + replacement for replacement in replacements if len(stem + replacement) >= 3)
    return stems


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


_SHORTEST_STEM = 3

_NEGATIONS = ("un", "in", "im", "il", "ir", "dis", "non", "mis", "anti", "de", "counter", "ab")
_PREFIXES = (
    *(("", negation) for negation in _NEGATIONS),
    *(("in", other) for other in ("ex", "out", "de", "e")),
    *(("im", other) for other in ("ex", "e")),
    *(("en", other) for other in ("dis", "de")),
    *(("no", other) for other in ("some", "every", "any")),
    *(("de", other) for other in ("as", "ac", "com", "con")),
    *(("pro", other) for other in ("anti", "con", "re")),
    ("over", "under"),
    ("up", "down"),
    ("pre", "post"),
    ("hyper", "hypo"),
    ("max", "min"),
    ("macro", "micro"),
    ("mono", "poly"),
    ("homo", "hetero"),
    ("sub", "super"),
    ("intro", "extro"),
    ("inter", "intra"),
    ("con", "dis"),
    ("bene", "male"),
    ("fore", "back"),
)
_SUFFIXES = (
    *(("less", other) for other in ("ful", "", "y")),
    *(("ee", other) for other in ("er", "or")),
    *(("ress", other) for other in ("er", "or")),
    ("", "ess"),
)


def opposed(first: str, second: str) -> bool:
    """Whether some form of one word is the opposite of some form of the other."""
    listed = _listed()
    return any(
        other in listed.get(form, ()) or _affixes_oppose(form, other)
        for form, other in product(forms(first), forms(second))
        if form != other
    )


def _affixes_oppose(first: str, second: str) -> bool:
    """Whether the two are one stem with affixes that turn it round: likely, unlikely; useful, useless."""
    return _differ_by(first[::-1], second[::-1], _REVERSED_PREFIXES) or _differ_by(first, second, _ENDINGS)


def _differ_by(first: str, second: str, endings: frozenset[tuple[str, str]]) -> bool:
    stem = _shared(first, second)
    return stem >= _SHORTEST_STEM and (first[stem:], second[stem:]) in endings


def _shared(first: str, second: str) -> int:
    """How many letters the two begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _both_ways(pairs: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    # What two affixes share ("er" of over and under) belongs to the common stem when words are compared.
    distinct = [(first[_shared(first, second) :], second[_shared(first, second) :]) for first, second in pairs]
    return frozenset(distinct) | frozenset((second, first) for first, second in distinct)


_REVERSED_PREFIXES = _both_ways((first[::-1], second[::-1]) for first, second in _PREFIXES)
_ENDINGS = _both_ways(_SUFFIXES)


def _listed() -> dict[str, frozenset[str]]:
    return _read(antonym_files())


@cache
def _read(paths: tuple[Path, ...]) -> dict[str, frozenset[str]]:
    opposites: dict[str, set[str]] = {}
    for path in paths:
        for first, second in _pairs(path):
            opposites.setdefault(first, set()).add(second)
            opposites.setdefault(second, set()).add(first)
    return {word: frozenset(others) for word, others in opposites.items()}


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").lower().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        sides = [side.split() for side in line.split("/")]
        if len(sides) > 2 or not all(sides) or (len(sides) == 1 and len(sides[0]) < 2):
            raise ResourceError(
                f"{path}, line {number}: {line.strip()!r} is not 'words / opposites' nor a list of words that "
                "exclude one another: correct the line"
            )
        left, right = sides[0], sides[-1]
        yield from ((first, second) for first, second in product(left, right) if first != second)
