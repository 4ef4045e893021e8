"""One small search over hostile reviews, and its pages in a headless Chromium. Both are cleaned up."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import sentence
from tests.integration.conftest import ROOT, TAG, left_behind
from tune_tickets.cli.ui import free_port

ARTIFACTS = "TUNE_TICKETS_TEST_ARTIFACTS"
"""Names the folder for screenshots; by default test-artifacts/ next to the tests."""
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HARM = "<script>window.pwned=1</script>"
YAML = """\
name: pages
model: {{source: {model}}}
task: {{source: {data}, max_length: 40, rows: {{train: 160, select: 24, report: 8}}}}
method:
  kind: {{choice: [finetune, random]}}
  drawing: {{heads: {{choice: [1/8, 1/4], when: {{method.kind: random}}}}}}
retraining: {{epochs: {{int: [8, 10]}}, learning_rate: 3.0e-3, batch_size: 16}}
evaluation: {{attacks: [textbugger/minilm], rows: 12, probe: {{rows: 8}}}}
controls: {{random: true}}
objective: {{floor_points: null, near_constant: 1.0}}
search:
  trials: 4
  sampler: random
  scheduler: {{kind: none}}
  warm_starts:
    - {{method.kind: finetune, retraining.epochs: 10}}
    - {{method.kind: random, method.drawing.heads: 1/8, retraining.epochs: 10}}
"""


@pytest.fixture(scope="session")
def hostile_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reviews, each with a script in its midst."""
    words, rows = random.Random(0), {}
    while len(rows) < 200:
        label = len(rows) % 2
        rows[f"{sentence(label, words)} {HARM} film"] = "pos" if label else "neg"
    path = tmp_path_factory.mktemp("hostile") / "reviews.csv"
    path.write_text("\n".join(["text,label", *(f"{text},{label}" for text, label in rows.items())]), encoding="utf-8")
    return path


@pytest.fixture(scope="package")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Everything started for the pages carries this tag; when the last of it is done, nothing may live on."""
    tag = str(tmp_path_factory.mktemp("tag"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TAG, tag)
        yield tag
    deadline = time.monotonic() + 15
    while (living := left_behind(tag)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert living == []


@pytest.fixture(scope="package")
def searched(
    tmp_path_factory: pytest.TempPathFactory, tagged: str, ray_folder: Path, tiny_backbone: Path, hostile_data: Path
) -> Path:
    """The results folder of a real search."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "pages.yaml").write_text(YAML.format(model=tiny_backbone, data=hostile_data), encoding="utf-8")
    command = [sys.executable, "-m", "tune_tickets.cli", "run", "pages.yaml", "--output", "out"]
    environment = os.environ | {"TUNE_TICKETS_RAY_DIR": str(ray_folder), TAG: tagged}
    ended = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=400)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Report: " in ended.stdout
    return folder / "out"


@pytest.fixture(scope="package")
def chromium() -> str:
    """The installed browser; none is downloaded."""
    pytest.importorskip("playwright", reason="playwright is not installed: pip install 'tune_tickets[browser]'")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    return found


@pytest.fixture(scope="package")
def context(chromium: str, tagged: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A browser with a new profile that can reach only this machine."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium,
            args=list(FLAGS),
            viewport={"width": 1280, "height": 900},
        )
        found.set_default_timeout(60_000)
        outside = lambda address: not address.startswith(("http://127.0.0.1:", "file:", "data:", "blob:"))  # noqa: E731
        found.route(outside, lambda route: route.abort())
        yield found
        found.close()


def _complaint(said) -> str:
    return f"{said.text} ({said.location['url']})"


@pytest.fixture
def page(context) -> Iterator:
    """A fresh tab; `page.complaints` holds what its console says of errors, and every exception."""
    tab = context.new_page()
    tab.complaints = []
    tab.on("console", lambda said: tab.complaints.append(_complaint(said)) if said.type == "error" else None)
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    yield tab
    tab.close()


@pytest.fixture(scope="session")
def keep() -> Callable[..., Path]:
    """Keeps a screenshot of a tab, or names the place for another file, as an artifact of the tests."""
    folder = Path(os.environ.get(ARTIFACTS) or ROOT / "test-artifacts")
    folder.mkdir(parents=True, exist_ok=True)

    def save(name: str, tab=None, whole: bool = False) -> Path:
        path = folder / name
        if tab is not None:
            tab.screenshot(path=path, full_page=whole)
        return path

    return save


@pytest.fixture(scope="package")
def address(searched: Path, tagged: str) -> Iterator[str]:
    """`tune-tickets ui` over the search: the address of its run list."""
    verb = ["ui", str(searched), "--no-open", "--port", str(free_port(5800))]
    command = [sys.executable, "-m", "tune_tickets.cli", *verb]
    # pytest may have been started with SIGINT ignored, which children inherit: SIGTERM ends it as well.
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        first, second = server.stdout.readline(), server.stdout.readline().strip()
        assert second.startswith("http://127.0.0.1:"), first + second
        yield second
    finally:
        server.send_signal(signal.SIGTERM)
        printed, _ = server.communicate(timeout=60)
    assert server.returncode == 0, printed
