"""Downloads from a local server: complete or absent, verified, resumed, and never repeated."""

import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace

import pytest

from tune_tickets.attacks.fetching import bring, download, fetch
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resource_table import RESOURCES
from tune_tickets.errors import ResourceError

BYTES = bytes(range(256)) * 4096


class Server(http.server.ThreadingHTTPServer):
    """Serves `files` by path, with ranges; `broken` paths end after that many bytes, once."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.broken: dict[str, int] = {}
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []

    def url(self, path):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        path = self.path.split("?")[0]
        asked = self.headers.get("Range")
        if with_body:
            self.server.asked.append((path, asked))
        content = self.server.files.get(path)
        if content is None:
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").split("-")[0]) if asked and self.server.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "c" * 40)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if with_body:
            end = self.server.broken.pop(path, len(content))
            self.wfile.write(content[start:end])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TUNE_TICKETS_OFFLINE", "HF_HUB_OFFLINE", "TUNE_TICKETS_TAGSET"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "resources"


def tagset(server, text="NN\tNOUN\n", known=True):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("universal_tagset/en-ptb.map", text)
    server.files["/tagset.zip"] = stream.getvalue()
    digest = hashlib.sha256(stream.getvalue()).hexdigest() if known else None
    return replace(RESOURCES["universal tagset"], url=server.url("/tagset.zip"), sha256=digest)


def left(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".fetching")


def test_a_resource_is_fetched_once_and_then_found(server, folder, monkeypatch):
    resource = tagset(server)
    monkeypatch.setitem(RESOURCES, "universal tagset", resource)
    found = resolve("universal tagset")
    assert found.path == folder / "universal_tagset.zip"
    assert (
        found.identity
        == f"universal_tagset sha256:{hashlib.sha256(b'NN' + bytes([9]) + b'NOUN' + bytes([10])).hexdigest()[:12]}"
    )
    assert resolve("universal tagset").identity == found.identity
    assert bring(resource, None, offline=False).how == "is there (cache)"
    assert len(server.asked) == 1


def test_another_file_than_the_expected_leaves_nothing_behind(server, folder):
    resource = replace(tagset(server), sha256="0" * 64)
    with pytest.raises(ResourceError, match="expected was 0000"):
        fetch(resource, folder)
    assert left(folder) == []


def test_a_broken_download_goes_on_where_it_ended(server, tmp_path):
    server.files["/big"] = BYTES
    server.broken["/big"] = 300_000
    target = tmp_path / "big"
    digest = hashlib.sha256(BYTES).hexdigest()
    with pytest.raises(ResourceError, match="ended after 300000 of 1048576 bytes"):
        download(server.url("/big"), target, digest)
    assert not target.exists()
    seen = []
    download(server.url("/big"), target, digest, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == BYTES
    assert server.asked == [("/big", None), ("/big", "bytes=300000-")]
    assert seen[0][0] > 300_000
    assert seen[-1] == (len(BYTES), len(BYTES))
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


@pytest.mark.parametrize("known", [True, False])
def test_a_broken_download_starts_afresh_without_ranges_or_without_a_known_sum(server, tmp_path, known):
    server.files["/big"] = BYTES
    server.broken["/big"] = 1000
    server.ranges = not known
    digest = hashlib.sha256(BYTES).hexdigest() if known else None
    with pytest.raises(ResourceError):
        download(server.url("/big"), tmp_path / "big", digest)
    download(server.url("/big"), tmp_path / "big", digest)
    assert (tmp_path / "big").read_bytes() == BYTES


def test_a_part_that_was_whole_already_is_only_verified(server, tmp_path):
    server.files["/big"] = BYTES
    (tmp_path / "big.part").write_bytes(BYTES)
    download(server.url("/big"), tmp_path / "big", hashlib.sha256(BYTES).hexdigest())
    assert (tmp_path / "big").read_bytes() == BYTES


def test_a_sum_that_was_unknown_holds_from_the_first_download_on(server, folder):
    resource = tagset(server, known=False)
    assert bring(resource, None, offline=False).how == "fetched, its sha256 is now written down"
    expected = hashlib.sha256(b"NN\tNOUN\n").hexdigest()
    assert json.loads((folder / "checksums.json").read_text()) == {"universal_tagset.zip": expected}


def test_a_resource_that_changed_on_disk_is_refused_and_fetched_anew(server, folder, monkeypatch):
    resource = tagset(server)
    monkeypatch.setitem(RESOURCES, "universal tagset", resource)
    fetch(resource, folder)
    with zipfile.ZipFile(folder / "universal_tagset.zip", "w") as archive:
        archive.writestr("universal_tagset/en-ptb.map", "NN\tVERB\n")
    with pytest.raises(ResourceError, match="has changed since it was fetched"):
        resolve("universal tagset")
    assert bring(resource, None, offline=False).how == "fetched, sha256 as published"
    assert resolve("universal tagset").path.read_bytes() == server.files["/tagset.zip"]


def test_an_archive_with_folders_is_kept_unpacked(server, folder):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    server.files["/use"] = stream.getvalue()
    resource = replace(RESOURCES["universal sentence encoder"], url=server.url("/use"))
    found = fetch(resource, folder)
    assert found.path == folder / "universal-sentence-encoder"
    assert left(folder) == ["checksums.json", "digests.json", "universal-sentence-encoder"]


def test_an_archive_that_writes_outside_of_its_folder_is_refused(server, folder, tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../outside"), io.BytesIO())
    server.files["/use"] = stream.getvalue()
    resource = replace(RESOURCES["universal sentence encoder"], url=server.url("/use"))
    with pytest.raises(tarfile.OutsideDestinationError):
        fetch(resource, folder)
    assert not list(tmp_path.rglob("outside"))


def test_what_is_elsewhere_on_the_machine_is_copied_to_be_taken_along(server, folder, tmp_path, monkeypatch):
    resource = tagset(server)
    plain = tmp_path / "tags.map"
    plain.write_text("NN\tNOUN\n")
    monkeypatch.setenv("TUNE_TICKETS_TAGSET", str(plain))
    brought = bring(resource, tmp_path / "along", offline=True)
    assert brought.how == "copied (TUNE_TICKETS_TAGSET)"
    assert bring(resource, tmp_path / "along", offline=True).how == "is there (cache)"
    assert server.asked == []
    monkeypatch.delenv("TUNE_TICKETS_TAGSET")
    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "along"))
    assert resolve("universal tagset", offline=True).identity == brought.found.identity


def test_a_server_that_does_not_answer_is_part_of_the_explanation(server, folder, monkeypatch):
    monkeypatch.setitem(RESOURCES, "universal tagset", replace(tagset(server), url=server.url("/gone")))
    with pytest.raises(ResourceError) as error:
        resolve("universal tagset", offline=False)
    assert "fetching it failed" in str(error.value)
    assert "404" in str(error.value)
    assert "TUNE_TICKETS_TAGSET" in str(error.value)


OFFLINE = """
import socket, sys

def refuse(*arguments, **options):
    raise AssertionError("a connection was tried")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse

from tune_tickets.cli.app import main
main(sys.argv[1:])
"""


def command(folder, script, *arguments, **extra):
    kept = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "LANG") if name in os.environ}
    own = {"HOME": str(folder), "TUNE_TICKETS_CACHE": str(folder / "cache"), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], env=kept | own | extra, capture_output=True, text=True, timeout=300
    )


def test_offline_the_command_touches_no_network_and_names_all_that_is_missing(tmp_path):
    answer = command(tmp_path, OFFLINE, "fetch", "--offline", "masked-lm", "counter-fitted-vectors", "sentence-encoder")
    assert answer.returncode == 2
    assert "a connection was tried" not in answer.stderr
    assert "2 of 3 resources are missing" in answer.stderr
    for part in ("TUNE_TICKETS_MASKED_LM", "tune-tickets fetch masked-lm", "TUNE_TICKETS_COUNTER_FITTED"):
        assert part in answer.stderr
    assert "sentence encoder: comes with the installation, all-MiniLM-L6-v2 sha256:53aa51172d14" in answer.stdout
    online = command(tmp_path, OFFLINE, "fetch", "counter-fitted-vectors")
    assert "a connection was tried" in online.stderr  # the same command does try where it may


def test_the_list_shows_where_each_resource_is_and_who_needs_it(tmp_path):
    (tmp_path / "n.json").write_text("{}")
    answer = command(tmp_path, OFFLINE, "fetch", "--list", TUNE_TICKETS_NEIGHBOURS=str(tmp_path / "n.json"))
    assert answer.returncode == 0, answer.stderr
    [line] = [line for line in answer.stdout.splitlines() if "counter-fitted neighbours" in line]
    assert "TUNE_TICKETS_NEIGHBOURS" in line
    assert hashlib.sha256(b"{}").hexdigest()[:12] in line
    assert "textfooler/cf8" in line


def test_a_masked_lm_comes_from_the_hub_as_a_plain_folder(server, tmp_path, tiny_backbone):
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "pytorch_model.bin")
    for name in names:
        content = (tiny_backbone / name).read_bytes() if (tiny_backbone / name).exists() else b"pickled"
        server.files[f"/some/bert/resolve/{'c' * 40}/{name}"] = content
    siblings = [{"rfilename": name} for name in names]
    info = {"id": "some/bert", "modelId": "some/bert", "sha": "c" * 40, "siblings": siblings, "tags": []}
    server.files["/api/models/some/bert/revision/main"] = json.dumps(info).encode()
    script = "import sys; from tune_tickets.cli.app import main; main(sys.argv[1:])"
    extra = {"HF_ENDPOINT": server.url(""), "TUNE_TICKETS_MASKED_LM": "some/bert", "HF_HUB_DISABLE_XET": "1"}
    answer = command(tmp_path, script, "fetch", "masked-lm", **extra)
    assert answer.returncode == 0, answer.stderr
    folder = tmp_path / "cache" / "resources" / "masked-lm--some--bert"
    assert sorted(path.name for path in folder.iterdir()) == sorted(names[:4])
    assert (folder / "model.safetensors").read_bytes() == (tiny_backbone / "model.safetensors").read_bytes()
    again = command(tmp_path, OFFLINE, "fetch", "masked-lm", "--offline", TUNE_TICKETS_MASKED_LM="some/bert")
    assert "masked lm: is there (cache)" in again.stdout
    other = command(tmp_path, OFFLINE, "fetch", "masked-lm", "--offline", TUNE_TICKETS_MASKED_LM="another/bert")
    assert "another/bert: not in the hub's cache" in other.stderr
