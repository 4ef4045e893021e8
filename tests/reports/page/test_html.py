"""The page as an HTML parser sees it: complete, without network access, and safe against hostile text."""

import base64
import hashlib
import struct
import time

import pytest

from tests.reports.conftest import make_outcome, make_summary, make_trial
from tests.reports.page.conftest import HOSTILE, Parsed, confirmation, hostile_summary, many, threat
from tune_tickets.reports.attacked import harmless
from tune_tickets.reports.page.writing import LARGEST_SVG, TEMPLATES, data_uri, write_report
from tune_tickets.reports.pictures.style import Picture

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>window.pwned=1</script></svg>'


def page_of(folder, pictures=()):
    return write_report(folder, pictures).html.read_text(encoding="utf-8")


def test_hostile_text_stays_text_wherever_it_comes_from(results):
    parsed = Parsed(page_of(results(hostile_summary())))
    assert parsed.scripts == [(TEMPLATES / "page.js").read_text(encoding="utf-8")]
    shown = "\n".join(parsed.text)
    for text in HOSTILE:
        assert harmless(text) in shown, text
        assert f"new{harmless(text)}" in shown, text
    tags = {tag for tag, _ in parsed.elements}
    assert "img" not in tags
    assert len(parsed.all("h1")) == 1
    assert not {name for _, attributes in parsed.elements for name in attributes if name.startswith("on")}
    assert "\u202e" not in shown
    assert "\x1b" not in shown


def test_only_the_pages_own_script_may_run_and_nothing_may_be_loaded(results):
    picture = Picture("front", "The front", "What is shown.", SVG, b"png")
    page = page_of(results(many(3)), [picture])
    parsed = Parsed(page)
    policy = next(each["content"] for each in parsed.all("meta") if each.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[0].encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert page.index("Content-Security-Policy") < page.index("<script>")
    addresses = [
        attributes[name] for _, attributes in parsed.elements for name in ("href", "src") if name in attributes
    ]
    assert all(address.startswith(("#", "data:image/")) for address in addresses)
    assert data_uri(picture) in addresses
    assert "@import" not in page
    assert "url(" not in page


def test_links_lead_somewhere_and_no_place_has_two_names(results):
    parsed = Parsed(page_of(results(many(4), confirmation())))
    places = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(set(places)) == len(places)
    links = {attributes["href"][1:] for attributes in parsed.all("a")}
    assert links <= set(places)
    assert {"trial-0", "trial-3", "dense"} <= links


def test_every_section_is_there(results):
    text = " ".join(Parsed(page_of(results(many(5)))).text)
    for expected in (
        "What was searched",
        "method.gamma",
        "uniform [0.05, 0.2]",
        "Maximised: the weighted mean 0.5 clean + 0.5 aua.",
        "A ticket may lose at most 2 points of clean accuracy to the dense control.",
        "textfooler/minilm",
        "Aua% [95%]",
        "Trial 0 has the best objective.",
        "points above dense",
        "20 random substitutions, made against t0",
        "PGD is trial 3",
        "tune-tickets run found/config.yaml --output again",
        "load_ticket('found/ticket')",
        "Not confirmed.",
    ):
        assert expected in text, expected


def test_what_was_confirmed_stands_first_and_says_what_it_is_worth(results):
    page = page_of(results(many(2), confirmation()))
    assert page.index('id="confirmed"') < page.index('id="searched"') < page.index('id="trials"')
    assert "on 12 report rows (4 attacked)" in page
    # Differences 10, 11, 9: mean 10 with a standard error of 1 / sqrt(3).
    assert "clean: t0 is better than dense (+10.0 points, p = 0.003, 3 seeds)." in page
    assert "Not confirmed" not in page


@pytest.mark.parametrize(
    ("selected", "digest", "said"),
    [
        ("t1", "digest", "t1, the ticket of the first rank"),
        ("t0", "other", "belongs to another configuration"),
    ],
)
def test_a_confirmation_that_does_not_fit_the_search_is_named(results, selected, digest, said):
    summary = make_summary([make_trial(0), make_trial(1)], selected=selected)
    assert said in page_of(results(summary, confirmation(digest)))


def test_no_password_of_the_configuration_is_shown(results):
    assert "secret" not in page_of(results(many(2)))


def test_a_search_without_a_single_figure_has_a_page_too(results):
    failed = make_trial(0, status="failed", outcome=None, values=None, feasible=None, error="out of memory")
    summary = make_summary([failed], selected=None, controls=(), threat_models=())
    text = " ".join(Parsed(page_of(results(summary))).text)
    assert "No trial is complete." in text
    assert "out of memory" in text
    assert "Nothing was attacked." in text


def test_a_ticket_that_may_not_win_says_why(results):
    flagged = [make_trial(n, feasible=False, outcome=make_outcome(flags=("near-constant predictor",))) for n in (1, 2)]
    flagged[1] = flagged[1].model_copy(update={"values": (0.1,)})
    page = page_of(results(make_summary([make_trial(0), *flagged])))
    assert "<li>trial 1, trial 2: ruled out: near-constant predictor</li>" in page
    assert '<span class="badge barred">ruled out</span>' in page


def test_a_wide_picture_has_a_line_of_its_own(results):
    sizes = {"wide": (1400, 1100), "narrow": (1100, 500)}
    heads = {name: b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", *size) for name, size in sizes.items()}
    pictures = [Picture(name, name, "", SVG, head) for name, head in heads.items()]
    page = Parsed(page_of(results(many(2)), pictures))
    assert [each.get("class") for each in page.all("figure")][-2:] == ["wide", None]


def test_what_was_searched_names_the_part_of_the_model_that_was_taken(results):
    folder = results(many(2))
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("{source: bundled}", "{source: bundled, layers: 2}"))
    with config.open("a") as file:
        file.write("task: {rows: {train: null}}\n")
    page = page_of(folder)
    assert "<dt>layers used</dt><dd>2</dd>" in page
    assert "<dt>training rows</dt><dd>all other rows</dd>" in page


@pytest.mark.parametrize(
    ("source", "said"),
    [("reviews.csv", True), ("../data/reviews.jsonl.gz", True), ("/data/reviews.csv", False), ("bundled/imdb", False)],
)
def test_the_way_to_run_it_again_names_relative_files(results, source, said):
    folder = results(many(2))
    with (folder / "config.yaml").open("a") as file:
        file.write(f"task: {{source: {source}}}\n")
    files = write_report(folder)
    for page in (files.html.read_text(), files.markdown.read_text()):
        assert (f"task.source ({source})" in page.replace("\\", "")) is said


def test_files_of_further_tasks_twins_and_models_are_named_too(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    folder = results(many(2))
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("{source: bundled}", "{source: models/mine}"))
    with config.open("a") as file:
        file.write("task: {source: org/data, ood: [{name: a, source: twin.csv}, {name: b, source: org/twin}]}\n")
        file.write("transfer: {topic: {task: {source: topic.csv, held_out: validation}}}\n")
    page = page_of(folder)
    assert "model.source (models/mine), task.ood (twin.csv), transfer.topic.task.source (topic.csv). " in page


@pytest.mark.parametrize(
    ("columns", "row"), [("text", "'a text to classify'"), ("[a, b]", "('the first text', 'the second text')")]
)
def test_the_code_that_loads_the_ticket_gives_it_as_many_texts_as_it_reads(results, columns, row):
    folder = results(many(2))
    with (folder / "config.yaml").open("a") as file:
        file.write(f"task: {{text: {columns}}}\n")
    assert f"ticket.predict([{row}])" in write_report(folder).markdown.read_text()


def test_the_figures_at_the_top_name_what_was_confirmed(results):
    assert "; on report rows" not in page_of(results(many(2)))
    assert "; on report rows 82.0</span>" in page_of(results(many(2), confirmation()))


def test_a_large_drawing_is_shown_as_pixels():
    small, large = (Picture("a", "", "", b"x" * size, b"pixels") for size in (LARGEST_SVG, LARGEST_SVG + 1))
    assert data_uri(small).startswith("data:image/svg+xml;base64,")
    assert data_uri(large) == "data:image/png;base64," + base64.b64encode(b"pixels").decode()


def test_fifty_trials_make_a_light_page_in_little_time(results):
    folder = results(many(50))
    pictures = [Picture(f"p{number}", "A picture", "", b"x" * 1_000_000, b"x" * 80_000) for number in range(8)]
    started = time.monotonic()
    files = write_report(folder, pictures)
    assert time.monotonic() - started < 20
    assert files.html.stat().st_size < 5_000_000
    assert len([each for each in Parsed(files.html.read_text()).all("details") if each.get("class") == "trial"]) == 51


def test_threat_models_show_every_substitution_marked(results):
    summary = make_summary([make_trial(0)], threat_models=(threat(texts=["left"] * 20),))
    page = page_of(results(summary))
    assert page.count("<del>oldleft</del> <ins>newleft</ins>") == 20
