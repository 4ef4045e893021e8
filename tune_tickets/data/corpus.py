"""Plain text without labels, for masked language models: bundled reviews, local text files, or a task's own texts."""

import gzip
import random
import zlib
from collections.abc import Iterable
from pathlib import Path

from tune_tickets.data.bundled import PREFIX, read_bundled
from tune_tickets.errors import DataError

REVIEWS = "bundled/reviews"
_BOTH = ("bundled/rotten-tomatoes", "bundled/imdb")


def read_corpus(source: str) -> list[str]:
    """The texts of a bundled corpus, of a text file with one per line, or of a folder of such files."""
    if source.startswith(PREFIX):
        names = _BOTH if source == REVIEWS else (source,)
        return [str(text) for name in names for text in read_bundled(name).column("text")]
    path = Path(source).expanduser()
    if not path.exists():
        raise DataError(
            f"the corpus {source!r} is neither 'task' nor a bundled one nor a file here. "
            f"Name a text file or a folder of them, or one of {REVIEWS!r}, {_BOTH[0]!r}, {_BOTH[1]!r}."
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


def _lines(file: Path) -> list[str]:
    try:
        content = file.read_bytes()
        return (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not UTF-8 text (byte {error.start}). Save the file as UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read ({error}). Check that it is a whole file you may open.") from None
