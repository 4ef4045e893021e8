"""The Markdown version, read by an independent parser."""

import re

import pytest
from markdown_it import MarkdownIt

from tests.reports.conftest import make_summary, make_trial
from tests.reports.page.conftest import HOSTILE, Parsed, confirmation, hostile_summary, many
from tune_tickets.reports.attacked import harmless
from tune_tickets.reports.page.markdown import block, code, escaped
from tune_tickets.reports.page.writing import write_report
from tune_tickets.reports.pictures.style import Picture


def rendered(text):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


MARKED = ("- a", "1. a", "# a", "a < b & c > d", "a_b_c", "x [1.0](y)", "=== a", "a\\|b")


@pytest.mark.parametrize("text", [*HOSTILE, *MARKED])
def test_escaped_text_is_read_as_it_was_written(text):
    for shown in (escaped(text), code(text)):
        parsed = Parsed(rendered(shown))
        assert {tag for tag, _ in parsed.elements} <= {"p", "code"}
        assert "".join(parsed.text).strip() == harmless(text).strip()
        cell = Parsed(rendered(f"| a | b |\n| --- | --- |\n| {shown} | last |"))
        assert len(cell.all("td")) == 2


def test_intervals_stay_legible():
    assert escaped("23.0 [15.8-32.2]") == "23.0 [15.8-32.2]"
    assert escaped("[1.0](x)") == "\\[1.0\\](x)"


def test_a_fence_cannot_be_ended_by_a_line_within():
    parsed = Parsed(rendered(block(["a", "````", "<script>"], "bash")))
    assert [tag for tag, _ in parsed.elements] == ["pre", "code"]


def test_hostile_text_stays_text(results):
    page = write_report(results(hostile_summary())).markdown.read_text(encoding="utf-8")
    parsed = Parsed(rendered(page))
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"script", "img", "a", "svg"}
    shown = "\n".join(parsed.text)
    for text in HOSTILE:
        assert harmless(text) in shown, text


def test_it_holds_what_the_page_holds(results):
    folder = results(many(4), confirmation())
    (folder / "pictures").mkdir()
    (folder / "pictures" / "front.png").write_bytes(b"")
    pictures = [Picture(name, "The front", "What is shown.", b"", b"") for name in ("front", "absent")]
    page = write_report(folder, pictures).markdown.read_text(encoding="utf-8")
    headings = re.findall("^## (.*)$", page, re.MULTILINE)
    assert headings == [
        "Confirmed on report rows",
        "What was searched",
        "Trials and controls",
        "Pictures",
        "The chosen ticket, and why",
        "Controls",
        "Threat models",
        "Cost",
        "Reproduce and load",
    ]
    assert "| trial 0 | **selected** | earlyrobust | 0.500 |" in page
    assert "| `method.gamma` | `uniform [0.05, 0.2]` | `method.kind: earlyrobust` | `0.1` |" in page
    assert "![The front](pictures/front.png)" in page
    assert "absent" not in page
    assert page.count("~~olda good film~~ **newa good film**") == 20


def test_trials_that_failed_say_why(results):
    failed = make_trial(1, status="failed", outcome=None, values=None, feasible=None, error="out of memory")
    page = write_report(results(make_summary([make_trial(0), failed]))).markdown.read_text()
    assert "- trial 1 (failed): out of memory" in page
