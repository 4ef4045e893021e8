"""Plain text without labels, for masked language models: bundled reviews, local text files, or a hub data set."""

import gzip
import random
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from tune_tickets.data.files import PREFIX, read_bundled, read_hub
from tune_tickets.errors import DataError

_REVIEWS = "bundled/reviews"
_BOTH = ("bundled/rotten-tomatoes", "bundled/imdb")
_HUB = re.compile(r"(?P<id>[\w.-]+/[\w.-]+):(?P<subset>[\w.-]+)")


def read_corpus(source: str) -> list[str]:
    """The texts of a bundled corpus, of a text file with one per line, of a folder of such files, or of the hub."""
    if source.startswith(PREFIX):
        names = _BOTH if source == _REVIEWS else (source,)
        return [str(text) for name in names for text in read_bundled(name).column("text")]
    path = Path(source).expanduser()
    if not path.exists() and (hub := _HUB.fullmatch(source)):
        return [str(text) for text in read_hub(hub["id"], hub["subset"], "train").column("text")]
    if not path.exists():
        raise DataError(
            f"the corpus {source!r} is neither 'task' nor a bundled one nor a file here. "
            f"Name a text file or a folder of them, a hub id and subset as 'id:subset', or one of "
            f"{_REVIEWS!r}, {_BOTH[0]!r}, {_BOTH[1]!r}."
        )
    files = sorted([*path.glob("*.txt"), *path.glob("*.txt.gz")]) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path}: no .txt or .txt.gz file in this folder. Put the texts there, one per line.")
    return [line for file in files for line in _lines(file)]


def sample_texts(texts: Iterable[str], count: int, seed: int) -> tuple[str, ...]:
    """At most `count` different texts in a seeded order; empty ones are left out."""
    distinct = sorted({text.strip() for text in texts} - {""})
    random.Random(f"corpus {seed}").shuffle(distinct)
    return tuple(distinct[:count])


def texts_in_order(texts: Iterable[str], count: int | None, seed: int) -> tuple[str, ...]:
    """All texts that are not empty, or a seeded sample of at most `count`, in the order of the corpus.

    Neighbours stay neighbours, for texts that are joined and cut into blocks.
    """
    found = [text.strip() for text in texts if text.strip()]
    if count is None or count >= len(found):
        return tuple(found)
    chosen = sorted(random.Random(f"corpus {seed}").sample(range(len(found)), count))
    return tuple(found[index] for index in chosen)


def _lines(file: Path) -> list[str]:
    try:
        content = file.read_bytes()
        return (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not UTF-8 text (byte {error.start}). Save the file as UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read ({error}). Check that it is a whole file you may open.") from None
