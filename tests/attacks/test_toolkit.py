"""TextAttack is imported in a separate process, with an empty home folder and no network."""

import json
import os
import subprocess
import sys

import pytest

from tune_tickets.attacks.resource_table import cache_folder
from tune_tickets.attacks.toolkit import import_textattack
from tune_tickets.errors import ResourceError

SCRIPT = """
import json, logging, os, socket, sys

def refuse(*args):
    raise AssertionError("a connection was tried")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse

names = ["HF_HOME", "XDG_CACHE_HOME", "TA_CACHE_DIR", "TFHUB_CACHE_DIR", "TOKENIZERS_PARALLELISM", "MPLCONFIGDIR"]
before = {name: os.environ.get(name) for name in names}
existing = logging.getLogger("somebody.else")
handler = logging.FileHandler(sys.argv[1], mode="w")
existing.addHandler(handler)

from tune_tickets.attacks.toolkit import import_textattack
textattack = import_textattack()
assert import_textattack() is textattack
textattack.shared.utils.words_from_text("\\u8fd9\\u90e8\\u7535\\u5f71")  # jieba builds its dictionary

import huggingface_hub.constants, nltk.corpus
existing.warning("still here")
handler.flush()
print(json.dumps({
    "same": before == {name: os.environ.get(name) for name in names},
    "hub": huggingface_hub.constants.HF_HOME,
    "logger": existing.disabled,
    "log": open(sys.argv[1]).read(),
    "nltk": type(nltk.corpus.stopwords).__name__,
}))
"""


def environment(tmp_path, **extra):
    for name in ("home", "cache", "tmp"):
        (tmp_path / name).mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "LANG") if name in os.environ}
    return kept | {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "TUNE_TICKETS_CACHE": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }


def start(tmp_path, name, **extra):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / f"{name}.log")],
        env=environment(tmp_path, **extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.integration
def test_imports_that_start_at_once_need_no_network_and_leave_no_trace_outside_the_cache(tmp_path):
    hub = {"HF_HOME": str(tmp_path / "hub"), "TOKENIZERS_PARALLELISM": "false"}
    processes = {str(tmp_path / "hub"): start(tmp_path, "first", **hub)}
    processes[str(tmp_path / "home" / ".cache" / "huggingface")] = start(tmp_path, "second")
    for expected_hub, process in processes.items():
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert errors == ""
        seen = json.loads(out)
        assert seen == {"same": True, "hub": expected_hub, "logger": False, "log": "still here\n", "nltk": seen["nltk"]}
        assert seen["nltk"] != "SimpleNamespace"
    for folder in ("home", "tmp", "hub"):
        assert not [path for path in (tmp_path / folder).rglob("*") if path.is_file()]
    assert (tmp_path / "cache" / "textattack" / "post_install_check_3").exists()


def test_the_cache_is_the_named_folder_or_one_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("TUNE_TICKETS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "tune_tickets"


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "textattack", raising=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "file"))
    with pytest.raises(ResourceError, match="set TUNE_TICKETS_CACHE"):
        import_textattack()
