"""Importing TextAttack without a network: nothing is downloaded, nothing is written outside our own cache folder."""

import importlib
import logging
import logging.config
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tune_tickets.attacks.threat import NEGATIONS_FILE
from tune_tickets.errors import ResourceError

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


CACHE_VARIABLE = "TUNE_TICKETS_CACHE"

# TextAttack's import sets all of these for the whole process.
_OVERWRITTEN = (
    "TA_CACHE_DIR",
    "TFHUB_CACHE_DIR",
    "PYTORCH_TRANSFORMERS_CACHE",
    "HF_HOME",
    "XDG_CACHE_HOME",
    "TOKENIZERS_PARALLELISM",
    "MPLCONFIGDIR",
)
# These read HF_HOME and XDG_CACHE_HOME once, when they are imported: they must see the true values.
_READ_FIRST = ("huggingface_hub.constants", "transformers.utils.hub", "datasets.config")
_MARKER = "post_install_check_3"  # where it stands, TextAttack believes its downloads are done
_QUIET_LOGGERS = frozenset({"textattack.shared.utils.install", "flair"})

_lock = threading.Lock()


def cache_folder() -> Path:
    """The folder for what the attacks write: TUNE_TICKETS_CACHE, else `tune_tickets` in the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "tune_tickets"


def import_textattack() -> ModuleType:
    """TextAttack, imported on first use; environment, logging and NLTK are afterwards as they were before."""
    with _lock:
        if "textattack" in sys.modules:
            return sys.modules["textattack"]
        folder = _prepared_folder()
        for module in _READ_FIRST:
            importlib.import_module(module)
        with _environment(folder), _untouched_logging(), _stop_words_at_hand():
            textattack = importlib.import_module("textattack")
        _keep_quiet(folder)
    return textattack


def _prepared_folder() -> Path:
    folder = cache_folder() / "textattack"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARKER).touch()
    except OSError as error:
        raise ResourceError(
            f"attacks need a folder they can write to, and {folder} is none ({error}): set {CACHE_VARIABLE}"
        ) from error
    return folder


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _OVERWRITTEN}
    os.environ["TA_CACHE_DIR"] = str(folder)
    os.environ.setdefault("MPLCONFIGDIR", str(folder))  # an import of an import builds matplotlib's font list
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _replaced(module: ModuleType, name: str, stand_in: object) -> Iterator[None]:
    """A module's attribute is another for a while."""
    # From its dictionary: asking NLTK for the attribute would look for the corpus.
    own = vars(module)[name]
    setattr(module, name, stand_in)
    try:
        yield
    finally:
        setattr(module, name, own)


@contextmanager
def _untouched_logging() -> Iterator[None]:
    # TextAttack and flair call dictConfig on import, which disables every existing logger and closes its handlers.
    configure = logging.config.dictConfig

    def skip_theirs(config: dict[str, Any]) -> None:
        if not set(config.get("loggers", ())) <= _QUIET_LOGGERS:
            configure(config)

    with _replaced(logging.config, "dictConfig", skip_theirs):
        yield


@contextmanager
def _stop_words_at_hand() -> Iterator[None]:
    # A class body deep in TextAttack asks NLTK for stop words that would have to be downloaded.
    corpus = importlib.import_module("nltk.corpus")
    with _replaced(corpus, "stopwords", SimpleNamespace(words=lambda language: sorted(stop_words()))):
        yield


def _keep_quiet(folder: Path) -> None:
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    # Splits Chinese text; would write its dictionary to the system's temporary folder and report on it.
    jieba = importlib.import_module("jieba")
    jieba.setLogLevel(logging.ERROR)
    jieba.dt.tmp_dir = str(folder)
