"""WordNet as NLTK reads it, from NLTK's package or from Debian's, which lacks one small file."""

import os
import shutil
import uuid
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from tune_tickets.attacks.contents import open_member
from tune_tickets.attacks.resolver import Found, resolve, resources_folder

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
        making = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
        making.mkdir(parents=True)
        for member in found.members:
            with open_member(found.path, member) as source, (making / member).open("wb") as target:
                shutil.copyfileobj(source, target)
        (making / "lexnames").write_text(lexnames(), encoding="ascii")
        try:
            os.replace(making, folder)
        except OSError:  # another process was faster
            shutil.rmtree(making)
    return folder.resolve()


def lexnames() -> str:
    """The file `lexnames`, which Debian does not ship."""
    names = [f"{part}.{name}" for part, group in _LEXICOGRAPHERS.items() for name in group.split()] + ["adj.ppl"]
    return "".join(f"{number:02d}\t{name}\t{_CATEGORIES[name.split('.')[0]]}\n" for number, name in enumerate(names))
