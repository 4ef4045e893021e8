"""The report of a real search as a reader sees it: from a file, without a network, on screen, phone and paper."""

import json
import time
from pathlib import Path

import pytest

from tests.integration.browser.conftest import HARM
from tune_tickets.reports.page.writing import write_report
from tune_tickets.results.records import Summary
from tune_tickets.results.summary import write_summary

pytestmark = pytest.mark.integration
INJECTED = "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"


def summary_of(folder: Path) -> Summary:
    return Summary.model_validate(json.loads((folder / "summary.json").read_text(encoding="utf-8")))


@pytest.fixture
def opened(page, searched):
    page.goto((searched / "report.html").as_uri())
    return page


def test_the_page_shows_the_search_and_runs_nothing_of_what_it_shows(opened, searched, keep):
    summary = summary_of(searched)
    changed = [one for threat in summary.threat_models for one in threat.substitutions]
    assert any("<script" in one.left + one.right for one in changed), "the reviews are to mean harm"
    assert len(changed) == 20
    text = opened.inner_text("body")
    assert summary.selected.reason in text
    assert "<script>window" in text
    assert HARM not in opened.content()
    assert opened.evaluate("window.pwned") is None
    for heading in ("What was searched", "Trials and controls", "Threat models", "Cost"):
        assert opened.get_by_role("heading", name=heading, exact=True).count() == 1
    beaten = summary.selected.beaten
    title = "The ticket of the first rank, and why dense is better" if beaten else "The chosen ticket, and why"
    assert opened.get_by_role("heading", name=title, exact=True).count() == 1
    assert opened.locator("header .verdict").inner_text() == summary.verdict.sentence
    assert opened.locator(".substitutions tbody tr").count() == 20
    assert opened.locator("#plane .point").count() == len(summary.trials) + len(summary.controls)
    assert opened.locator("#plane .point .dot").first.bounding_box()["width"] > 5
    keep("report-desktop.png", opened, whole=True)
    opened.emulate_media(color_scheme="dark")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    keep("report-dark.png", opened, whole=True)
    assert opened.complaints == []


def test_markup_that_slipped_through_would_not_run_either(page, searched, tmp_path):
    slipped = (searched / "report.html").read_text(encoding="utf-8").replace("<main>", f"<main>{INJECTED}")
    (tmp_path / "slipped.html").write_text(slipped, encoding="utf-8")
    page.goto((tmp_path / "slipped.html").as_uri())
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in said for said in page.complaints)
    assert page.locator("#filter").is_visible(), "the page's own script still runs"
    # Without the policy it would: the test above can fail.
    (tmp_path / "open.html").write_text(slipped.replace("Content-Security-Policy", "x"), encoding="utf-8")
    page.goto((tmp_path / "open.html").as_uri())
    assert page.evaluate("window.pwned") == 1


def column(tab, index):
    return tab.locator(f"#table tbody tr:not(.hidden) > :nth-child({index})").all_inner_texts()


def test_the_table_is_sorted_by_the_column_that_is_clicked(opened, searched):
    header = opened.locator("#table .sortable th", has_text="Clean%")
    header.get_by_role("button").click()
    found = [float(text.split()[0]) for text in column(opened, 4)]
    assert found == sorted(found, reverse=True)
    header.get_by_role("button").press("Enter")
    assert [float(text.split()[0]) for text in column(opened, 4)] == sorted(found)
    assert header.get_attribute("aria-sort") == "ascending"
    opened.locator("#table .sortable th", has_text="obj.").get_by_role("button").click()
    controls = [control.name for control in summary_of(searched).controls]
    assert column(opened, 1)[-len(controls) :] == controls, "they have no objective, and stay at the end"


def test_methods_can_be_left_out(opened):
    everything = len(column(opened, 1))
    opened.get_by_label("finetune", exact=True).uncheck()
    assert "finetune" not in column(opened, 2)
    left = len(column(opened, 1))
    assert 0 < left < everything
    assert opened.locator("#shown").inner_text() == f"({left} of {everything} models)"
    assert opened.locator("#plane .point:not(.hidden)").count() == left
    opened.get_by_label("finetune", exact=True).check()
    assert len(column(opened, 1)) == everything


def test_a_point_shows_its_trial_by_mouse_and_by_keyboard(opened, searched, keep):
    summary = summary_of(searched)
    trial = next(one for one in summary.trials if one.id != summary.selected.trial)
    panel = opened.locator("#panel")
    assert ("Click a point" if summary.selected.beaten else "selected") in panel.inner_text()
    opened.locator(f'#plane .point[data-name="trial {trial.number}"]').dispatch_event("click")
    assert panel.locator("h3").inner_text().startswith(f"trial {trial.number}")
    assert "retraining.epochs" in panel.inner_text()
    assert opened.url.endswith("report.html"), "the reader stays where he is"
    point = opened.locator('#plane .point[data-name="dense"]')
    point.focus()
    opened.keyboard.press("Enter")
    assert panel.locator("h3").inner_text().startswith("dense")
    assert opened.locator(".point[aria-current]").get_attribute("data-name") == "dense"
    keep("report-point.png", opened)
    opened.locator("#table a", has_text=f"trial {trial.number}").click()
    assert opened.locator(f"#trial-{trial.number}").evaluate("each => each.open")


def test_on_a_phone_only_tables_and_pictures_are_wider_than_the_screen(opened, keep):
    opened.set_viewport_size({"width": 390, "height": 844})
    assert opened.evaluate("document.documentElement.scrollWidth") == 390
    box = opened.locator(".scroll:has(#table)")
    assert box.evaluate("each => each.scrollWidth > each.clientWidth")
    assert box.bounding_box()["width"] <= 390
    shown = opened.evaluate(
        "[...document.querySelectorAll('.gallery img')].map(each => each.width / each.naturalWidth)"
    )
    assert len(shown) > 5
    assert min(shown) > 0.6, "letters of 8 points are to be read"
    keep("report-phone.png", opened, whole=True)


def test_on_paper_everything_is_open_and_no_table_is_cut(opened, keep):
    opened.set_viewport_size({"width": 687, "height": 1000})  # an A4 page between its margins
    opened.emulate_media(media="print")
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.locator("details:not([open])").count() == 0
    wide = opened.evaluate(
        "[...document.querySelectorAll('table')].filter(each => each.offsetWidth > document.body.clientWidth + 1)"
        ".map(each => each.innerText)"
    )
    assert wide == []
    assert not opened.locator("#table").is_visible()
    assert opened.locator("table.paper").first.is_visible()
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    path = keep("report-print.pdf")
    opened.pdf(path=path, format="A4", print_background=True)
    assert path.read_bytes().startswith(b"%PDF")


def test_fifty_real_trials_make_a_light_page_in_little_time(page, searched, tmp_path, keep):
    found = summary_of(searched)
    trials = [
        found.trials[number % len(found.trials)].model_copy(update={"id": f"t{number:03}", "number": number})
        for number in range(50)
    ]
    folder = tmp_path / "fifty"
    write_summary(found.model_copy(update={"trials": tuple(trials)}), folder)
    (folder / "config.yaml").write_text((searched / "config.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    started = time.monotonic()
    files = write_report(folder)
    assert time.monotonic() - started < 20
    assert files.html.stat().st_size < 5_000_000
    page.goto(files.html.as_uri())
    assert page.locator("#table tbody tr").count() == 50 + len(found.controls)
    assert page.complaints == []
    keep("report-fifty.png", page)
