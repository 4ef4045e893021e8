import os
import shutil
import subprocess
import sys

import huggingface_hub
import pytest
from huggingface_hub import constants

from tests.models.tiny import save_checkpoint
from tune_tickets.config.task import Model
from tune_tickets.errors import ResourceError
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.source import backbone_fingerprint, backbone_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    save_checkpoint("bert", folder)
    return folder


@pytest.fixture
def hub_cache(checkpoint, tmp_path, monkeypatch):
    """A hub cache as huggingface_hub lays it out, used without a network."""
    repo = tmp_path / "models--someone--tiny"
    shutil.copytree(checkpoint, repo / "snapshots" / COMMIT)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return repo


def test_a_local_folder_is_taken_as_it_is(checkpoint):
    assert backbone_folder(Model(source=str(checkpoint))) == checkpoint.resolve()


def test_a_hub_model_loads_from_the_cache_without_a_network(hub_cache):
    model = Model(source="someone/tiny")
    assert backbone_folder(model).name == COMMIT
    network, tokenizer = load_backbone(model, ("neg", "pos"), seed=0)
    assert network.config.num_hidden_layers == 2
    assert tokenizer.tokenize("a good film") == ["a", "good", "film"]


def test_a_hub_models_fingerprint_follows_its_commit_and_tokenizer(hub_cache):
    model = Model(source="someone/tiny")
    first = backbone_fingerprint(model)
    assert first == backbone_fingerprint(Model(source="someone/tiny", revision=COMMIT))
    other = COMMIT[::-1]
    shutil.copytree(hub_cache / "snapshots" / COMMIT, hub_cache / "snapshots" / other)
    (hub_cache / "refs" / "main").write_text(other)
    assert backbone_fingerprint(model) != first


def test_an_unknown_hub_model_says_what_to_do(hub_cache):
    with pytest.raises(ResourceError, match=r"'someone/else'.*neither a folder.*spelling.*'bundled'"):
        backbone_folder(Model(source="someone/else"))


def test_a_refusing_hub_names_the_revision(monkeypatch):
    def refuse(*args, **settings):
        raise OSError("401 Client Error\nmore lines")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(ResourceError, match=r"'someone/tiny' at revision 'v2'.*\(401 Client Error\)"):
        backbone_folder(Model(source="someone/tiny", revision="v2"))


@pytest.mark.parametrize("source", ["/no/such/folder", "./none", "~/none", "a/b/c"])
def test_a_path_that_is_no_folder_is_not_sought_on_the_hub(source, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    with pytest.raises(ResourceError, match="is no folder"):
        backbone_folder(Model(source=source))


def test_pickled_weights_are_never_read(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "old")
    (tmp_path / "old" / "model.safetensors").rename(tmp_path / "old" / "pytorch_model.bin")
    with pytest.raises(ResourceError, match=r"no model\.safetensors.*save_pretrained"):
        backbone_folder(Model(source=str(tmp_path / "old")))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ResourceError, match=r"no config\.json"):
        backbone_folder(Model(source=str(tmp_path)))


@pytest.mark.parametrize("part", ["model.safetensors", "tokenizer.json", "config.json"])
def test_the_fingerprint_follows_the_content(part, checkpoint, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    model = Model(source=str(copy))
    assert backbone_fingerprint(model) == backbone_fingerprint(Model(source=str(checkpoint)))
    content = bytearray((copy / part).read_bytes())
    content[-2] ^= 1
    (copy / part).write_bytes(content)
    os.utime(copy / part, ns=(1, 1))
    assert backbone_fingerprint(model) != backbone_fingerprint(Model(source=str(checkpoint)))


def test_unrelated_files_do_not_change_the_fingerprint(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "copy")
    (tmp_path / "copy" / "README.md").write_text("hello")
    assert backbone_fingerprint(Model(source=str(tmp_path / "copy"))) == backbone_fingerprint(
        Model(source=str(checkpoint))
    )


def test_the_fingerprint_needs_no_torch():
    code = (
        "import sys; from tune_tickets.config.task import Model;"
        "from tune_tickets.models.source import backbone_fingerprint as f;"
        "assert len(f(Model())) == 64 and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
