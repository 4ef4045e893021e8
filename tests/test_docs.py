"""The documentation: the site builds without a warning or a network, links work, quoted messages exist."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tune_tickets.config.experiment import Settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = {ROOT / "docs" / "reference.md"}
"""Pages that are written during the build of the site."""
GAP = "…"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


class Loaded(HTMLParser):
    """Addresses that a browser fetches by itself when it shows a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "link" and found.get("rel") in ("canonical", "prev", "next"):
            return
        wanted = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}.get(tag)
        if wanted and found.get(wanted):
            self.addresses.append(found[wanted])


def test_the_site_loads_nothing_from_elsewhere(site):
    pages = list(site.glob("*.html"))
    assert {"index.html", "tutorial.html", "reference.html", "faq.html"} <= {page.name for page in pages}
    for page in pages:
        addresses = Loaded(page.read_text(encoding="utf-8")).addresses
        assert addresses
        assert [address for address in addresses if re.match(r"(https?:)?//", address)] == [], page.name


@pytest.mark.parametrize("method", ["earlyrobust", "robustt", "orticket", "srnets", "imp", "infobert", "baselines"])
def test_every_method_has_equations_that_browsers_draw_and_says_what_the_paper_does_not(site, method):
    text = (site / f"{method}.html").read_text(encoding="utf-8")
    assert text.count('display="block"') >= 1
    assert "arithmatex" not in text
    assert re.search(r"<h2[^>]*>Where the papers? (is|are) silent", text)


def test_the_reference_has_every_section_and_says_what_may_be_searched(site):
    text = (site / "reference.html").read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert f"<td><code>{name}</code></td>" in text, name
    for kind in ("earlyrobust", "orticket", "robustt", "imp", "srnets", "random", "finetune"):
        assert f'id="method-kind-{kind}"' in text
    for key, searched in (("gamma", True), ("sampler", False), ("heads", True), ("max_length", False)):
        row = re.search(rf"<td><code>{key}</code></td>(.*?)</tr>", text, re.DOTALL)
        assert row is not None
        assert ("searched" in row[1]) is searched, key


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_to_files_and_headings_that_exist(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists() or file in GENERATED, f"{page.name} links to {target}"
        if anchor and file.suffix == ".md" and file not in GENERATED:
            assert anchor in headings(file), f"{page.name} links to {target}"


def test_broken_links_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](b.md#c) `[no](link.md)`\n```\n[nor](this.md)\n```\n[d](#a-title)", encoding="utf-8")
    assert list(links(page)) == ["b.md#c", "#a-title"]
    assert headings(page) == {"a-title"}


def links(page: Path) -> Iterator[str]:
    """Return the relative link targets of a page, without those in code."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            yield target


def headings(page: Path) -> set[str]:
    """The anchors of a page, as mkdocs and GitHub make them of plain headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found}


@cache
def messages() -> frozenset[str]:
    """Return every string of the package, with a gap for each inserted value."""
    found = set()
    for file in (ROOT / "tune_tickets").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
                found.add("".join(map(str, parts)))
    return frozenset(found)


def test_every_message_quoted_in_the_faq_is_one_of_ours():
    text = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\*\*`(.+)`\*\*$", text, flags=re.MULTILINE)
    assert len(quoted) > 30
    gone = [message for message in quoted if not any(message in ours for ours in messages())]
    assert gone == [], "mend the FAQ: these messages are not in the code any more"
