"""Importing TextAttack without a network: nothing is downloaded, nothing is written outside our own cache folder."""

import importlib
import logging
import logging.config
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tune_tickets.attacks.resource_table import CACHE_VARIABLE, cache_folder
from tune_tickets.errors import ResourceError

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
    listed = importlib.import_module("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS
    with _replaced(corpus, "stopwords", SimpleNamespace(words=lambda language: sorted(listed))):
        yield


def _keep_quiet(folder: Path) -> None:
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    # Splits Chinese text; would write its dictionary to the system's temporary folder and report on it.
    jieba = importlib.import_module("jieba")
    jieba.setLogLevel(logging.ERROR)
    jieba.dt.tmp_dir = str(folder)
