"""What an English word can be: its lemmas, its inflections and the words it is derived from (lemminflect, offline)."""

from functools import cache

from lemminflect import getAllInflections, getAllLemmas

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
