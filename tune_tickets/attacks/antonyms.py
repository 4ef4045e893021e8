"""Which words are opposed: the hand-written list of the package, an optional second list, and negating affixes."""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product, takewhile
from pathlib import Path

from tune_tickets.attacks.threat import antonym_files
from tune_tickets.attacks.word_forms import forms
from tune_tickets.errors import ResourceError

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
        other in listed.get(form, ()) or affixes_oppose(form, other)
        for form, other in product(forms(first), forms(second))
        if form != other
    )


def affixes_oppose(first: str, second: str) -> bool:
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
