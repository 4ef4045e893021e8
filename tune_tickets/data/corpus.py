"""Read plain texts without labels for masked language models: bundled reviews, text files or a hub data set."""

import random
import re
from collections.abc import Iterable
from pathlib import Path

from tune_tickets.data.files import PREFIX, parse, read_bundled, read_hub
from tune_tickets.errors import DataError

_REVIEWS = "bundled/reviews"
_BOTH = ("bundled/rotten-tomatoes", "bundled/imdb")
_HUB = re.compile(r"(?P<id>[\w.-]+/[\w.-]+):(?P<subset>[\w.-]+)")


def read_corpus(source: str) -> list[str]:
    """Read the texts of a corpus.

    Args:
        source: a bundled corpus, a text file with one text per line, a folder of such files, or 'id:subset' of the hub.

    Raises:
        DataError: there is no such corpus, or a file cannot be read.
    """
    if source.startswith(PREFIX):
        names = _BOTH if source == _REVIEWS else (source,)
        return [str(text) for name in names for text in read_bundled(name).column("text")]
    path = Path(source).expanduser()
    if not path.exists() and (hub := _HUB.fullmatch(source)):
        return [str(text) for text in read_hub(hub["id"], hub["subset"], "train").column("text")]
    if not path.exists():
        raise DataError(
            f"the corpus {source!r} is neither 'task' nor a bundled corpus nor a local file. "
            f"Name a text file, a folder of text files, a hub data set as 'id:subset', or one of "
            f"{_REVIEWS!r}, {_BOTH[0]!r}, {_BOTH[1]!r}."
        )
    files = sorted([*path.glob("*.txt"), *path.glob("*.txt.gz")]) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path}: no .txt or .txt.gz file in this folder. Add files with one text per line.")
    return [line for file in files for line in parse(file, lambda content: content.decode("utf-8-sig").splitlines())]


def sample_texts(texts: Iterable[str], count: int, seed: int) -> tuple[str, ...]:
    """Return at most `count` distinct, non-empty texts in a seeded order."""
    distinct = sorted({text.strip() for text in texts} - {""})
    random.Random(f"corpus {seed}").shuffle(distinct)
    return tuple(distinct[:count])


def texts_in_order(texts: Iterable[str], count: int | None, seed: int) -> tuple[str, ...]:
    """Return all non-empty texts, or a seeded sample of at most `count`, in the order of the corpus.

    The order matters where texts are joined and cut into blocks.
    """
    found = [text.strip() for text in texts if text.strip()]
    if count is None or count >= len(found):
        return tuple(found)
    chosen = sorted(random.Random(f"corpus {seed}").sample(range(len(found)), count))
    return tuple(found[index] for index in chosen)
