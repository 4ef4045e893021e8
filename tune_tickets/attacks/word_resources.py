"""The word resources of the attacks as Python values, from wherever `resolver` finds them. Nothing is unpickled."""

import io
import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_tickets.attacks.resolver import Found, open_member, read_member, resolve, resources_folder
from tune_tickets.attacks.resource_table import CACHE_VARIABLE
from tune_tickets.errors import ResourceError
from tune_tickets.files import making

_Vectors = NDArray[np.float32]
_PLACES = ("TUNE_TICKETS_TAGGER", "TUNE_TICKETS_TAGSET", CACHE_VARIABLE, "NLTK_DATA")


def neighbour_lists() -> Mapping[str, tuple[str, ...]]:
    """Lower-case word -> its counter-fitted neighbours, nearest first."""
    return _neighbours(resolve("counter-fitted neighbours"))


def counter_fitted() -> tuple[tuple[str, ...], _Vectors]:
    """The counter-fitted words and their vectors [words, dimensions], as published (not normalised)."""
    return _vectors(resolve("counter-fitted vectors"))


def nltk_stop_words() -> frozenset[str]:
    """NLTK's English stop words."""
    return _stop_words(resolve("stop words"))


def pos_tags(words: Sequence[str]) -> list[str]:
    """The universal part-of-speech tag of each word in its context, as `nltk.pos_tag(words, tagset="universal")`."""
    tagger, tagset = _tagging(tuple(os.environ.get(name) for name in _PLACES))
    return [tagset.get(tag, "X") for _, tag in tagger.tag(list(words))]


@cache
def _tagging(places: tuple[str | None, ...]) -> tuple[Any, dict[str, str]]:
    """Looked for once, not for every sentence; again only if the variables that say where to look have changed."""
    return _tagger(resolve("tagger")), _tagset(resolve("universal tagset"))


@cache
def _neighbours(found: Found) -> dict[str, tuple[str, ...]]:
    content = _json(found, found.members[0])
    if not isinstance(content, dict) or not all(isinstance(near, list) for near in content.values()):
        raise _unreadable(found, "expected {word: [neighbours]}")
    lists: dict[str, tuple[str, ...]] = {}
    for word, near in content.items():
        lists.setdefault(str(word).lower(), tuple(map(str, near)))
    return lists


@cache
def _stop_words(found: Found) -> frozenset[str]:
    return frozenset(read_member(found.path, found.members[0]).decode("utf-8").split())


@cache
def _tagset(found: Found) -> dict[str, str]:
    lines = read_member(found.path, found.members[0]).decode("utf-8").splitlines()
    pairs = [line.split("\t") for line in lines if line.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise _unreadable(found, "expected lines of two tags with a tab between them")
    return {pair[0]: pair[1] for pair in pairs}


@cache
def _tagger(found: Found) -> Any:  # noqa: ANN401 - nltk's PerceptronTagger
    from nltk.tag.perceptron import PerceptronTagger

    # Filled by hand: its own loading asks for folders that NLTK is told of for the whole process.
    tagger = PerceptronTagger(load=False)
    weights, tagdict, classes = (_json(found, member) for member in found.members)
    tagger.model.weights, tagger.tagdict = weights, tagdict
    tagger.classes = tagger.model.classes = set(classes)
    return tagger


@cache
def _vectors(found: Found) -> tuple[tuple[str, ...], _Vectors]:
    try:
        words, vectors = _from_array(found) if len(found.members) > 1 else _from_text(found)
    except ValueError as error:
        raise _unreadable(found, str(error)) from None
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise _unreadable(found, f"{len(words)} words for vectors of shape {vectors.shape}")
    return words, vectors


def _from_array(found: Found) -> tuple[tuple[str, ...], _Vectors]:
    array, words = found.members
    vectors = np.load(io.BytesIO(read_member(found.path, array)), allow_pickle=False).astype(np.float32)
    if words.endswith(".txt"):
        return tuple(read_member(found.path, words).decode("utf-8").split()), vectors
    listed = _json(found, words)
    # TextAttack's list is {word: row}.
    return tuple(sorted(listed, key=listed.__getitem__) if isinstance(listed, dict) else listed), vectors


def _from_text(found: Found) -> tuple[tuple[str, ...], _Vectors]:
    words: list[str] = []
    rows: list[_Vectors] = []
    with open_member(found.path, found.members[0]) as lines:
        for line in lines:
            word, _, numbers = line.decode("utf-8").rstrip().partition(" ")
            words.append(word)
            rows.append(np.fromstring(numbers, dtype=np.float32, sep=" "))
    if len({len(row) for row in rows}) != 1:
        raise ValueError("expected lines of a word and as many numbers in each")
    return tuple(words), np.stack(rows)


def _json(found: Found, member: str) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(read_member(found.path, member))
    except ValueError as error:
        raise _unreadable(found, str(error)) from None


def _unreadable(found: Found, problem: str) -> ResourceError:
    path: Path = found.path
    return ResourceError(f"{path} cannot be used ({problem}): replace it by a whole copy")


# lexnames(5WN): file number, name and syntactic category of the lexicographer files, the same since WordNet 3.0.
_LEXICOGRAPHERS = {
    "adj": "all pert",
    "adv": "all",
    "noun": "Tops act animal artifact attribute body cognition communication event feeling food group location motive "
    "object person phenomenon plant possession process quantity relation shape state substance time",
    "verb": "body change cognition communication competition consumption contact creation emotion motion perception "
    "possession social stative weather",
}
_CATEGORIES = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


def wordnet(*, offline: bool | None = None) -> Any:  # noqa: ANN401 - nltk's WordNetCorpusReader
    """NLTK's reader of the WordNet found here; one per process."""
    return _reader(_nltk_folder(resolve("wordnet", offline=offline)))


@cache
def _reader(folder: Path) -> Any:  # noqa: ANN401
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class EnglishOnly(WordNetCorpusReader):  # type: ignore[misc]
        """Without the mapping between releases, for which other languages would want NLTK's own copy."""

        def map_wn(self, version: str = "") -> None:
            return None

    if str(folder) not in nltk.data.path:
        nltk.data.path.append(str(folder))  # NLTK reads nothing outside of these
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that other languages are not there
        return EnglishOnly(str(folder), None)


def _nltk_folder(found: Found) -> Path:
    """A folder with all that NLTK wants: the one found, or a copy in our cache with `lexnames` beside the rest.

    A copy, since NLTK follows no links out of its folders.
    """
    if found.path.is_dir() and (found.path / "lexnames").is_file():
        return found.path.resolve()
    folder = resources_folder() / "unpacked" / found.identity.replace(" sha256:", "-")
    if not folder.is_dir():
        try:
            with making(folder) as new:
                _unpack(found, new)
        except OSError:
            if not folder.is_dir():  # another process was not faster
                raise
    return folder.resolve()


def _unpack(found: Found, folder: Path) -> None:
    folder.mkdir()
    for member in found.members:
        with open_member(found.path, member) as source, (folder / member).open("wb") as target:
            shutil.copyfileobj(source, target)
    (folder / "lexnames").write_text(lexnames(), encoding="ascii")


def lexnames() -> str:
    """The file `lexnames`, which Debian does not ship."""
    names = [f"{part}.{name}" for part, group in _LEXICOGRAPHERS.items() for name in group.split()] + ["adj.ppl"]
    return "".join(f"{number:02d}\t{name}\t{_CATEGORIES[name.split('.')[0]]}\n" for number, name in enumerate(names))
