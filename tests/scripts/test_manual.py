"""The build of the site: equations, the YAML reference, pages that the navigation does not name."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install -e '.[docs]'")
SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


@pytest.fixture
def manual(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from manual import maths, pages, reference

    return SimpleNamespace(maths=maths, pages=pages, reference=reference)


PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))


def test_latex_becomes_mathml_in_lines_and_in_blocks(manual):
    inline = '<p>a <span class="arithmatex">\\(x &lt; \\lambda\\)</span> b</p>'
    block = '<div class="arithmatex">\\[\n\\frac{1}{K}\n\\]</div>'
    found = manual.maths.on_page_content(inline + block, page=PAGE)
    assert found.count("<math ") == 2
    assert "<mo>&#x0003C;</mo><mi>&#x003BB;</mi>" in found
    assert 'display="block"><mrow><mfrac>' in found
    assert "arithmatex" not in found


def test_a_command_that_is_not_understood_ends_the_build(manual):
    from mkdocs.exceptions import PluginError

    with pytest.raises(PluginError, match=r"page\.md: this LaTeX cannot be converted completely: \\nonsense"):
        manual.maths.on_page_content('<span class="arithmatex">\\(\\nonsense\\)</span>', page=PAGE)


def test_pages_that_the_navigation_does_not_name_come_last(manual, tmp_path):
    for name in ("index.md", "a.md", "b.md", "new.md"):
        (tmp_path / name).touch()
    config = SimpleNamespace(docs_dir=str(tmp_path), nav=["index.md", {"More": ["a.md", {"B": "b.md"}]}])
    assert manual.pages.on_config(config).nav == [*config.nav[:2], {"Further": ["new.md"]}]
    config.nav = ["index.md", "a.md", "b.md", "new.md"]
    assert manual.pages.on_config(config).nav == ["index.md", "a.md", "b.md", "new.md"]


def test_the_reference_tells_type_default_bounds_and_whether_a_key_is_searched(manual):
    rows = manual.reference.reference().splitlines()
    for row in (
        "| `gamma` | **searched**. γ, mask distance below which a mini-epoch counts as stable "
        "| number, ≥ 0 and ≤ 1 | `0.1` |",
        "| `heads` | **searched**. Share of attention heads removed; every layer keeps at least one "
        "| number, ≥ 0 and < 1 | `1/6` |",
        "| `kind` |  | `earlyrobust` | `earlyrobust` |",
        "| `attention` | Attention kernel | `sdpa` `eager` | `sdpa` |",
        "| `rows` | See [`task.rows`](#task-rows) | section | its defaults |",
    ):
        assert row in rows


def test_every_link_of_the_reference_has_its_heading_once(manual):
    text = manual.reference.reference()
    anchors = re.findall(r"\{: #([a-z0-9-]+) \}", text)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r"\]\(#([a-z0-9-]+)\)", text)) <= set(anchors)
