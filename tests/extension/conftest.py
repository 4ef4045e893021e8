"""Real searches on the tiny model, as in tests/integration."""

import pytest

from tests.extension.chain import Chain, importable
from tests.integration.conftest import cli, environment, ray_folder, start  # noqa: F401 - fixtures


@pytest.fixture
def extension_folder(tmp_path):
    """A folder that everything a test starts imports from, for packages that are installed there."""
    folder = tmp_path / "installed"
    folder.mkdir()
    return folder


@pytest.fixture
def chain(tiny_yaml, tmp_path, cli, start, environment, extension_folder):  # noqa: F811 - fixtures
    importable(environment, extension_folder)
    return Chain(tiny_yaml, tmp_path / "out", cli, start)
