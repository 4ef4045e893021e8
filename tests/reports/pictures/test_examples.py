"""Attacked texts as a picture: marked, wrapped and harmless."""

from xml.etree import ElementTree

from tests.reports.pictures.conftest import THREAT
from tune_tickets.reports.pictures.evidence import Example
from tune_tickets.reports.pictures.examples import COLUMNS, Run, example_figure, layout, runs
from tune_tickets.reports.pictures.style import house_style, rendered


def make_example(*pieces, successful=True):
    return Example("t0", THREAT, 3, successful, "positive", "negative", tuple(pieces))


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_old_and_new_words_stand_beside_each_other():
    found = runs(make_example(("a ", "a "), ("good", "fine"), (" film", " film")))
    assert found == [Run("a ", "same"), Run("good", "old"), Run(" ", "same"), Run("fine", "new"), Run(" film", "same")]


def test_letters_that_only_look_the_same_are_named():
    found = runs(make_example(("delicate", "ԁelicate")))
    assert found[-1] == Run("ԁelicate (U+0501)", "new")
    kept = runs(make_example(("café", "cafés")))
    assert kept[-1] == Run("cafés", "new"), "a letter that was there before needs no name"


def test_lines_break_at_spaces_and_long_words_anywhere():
    words = layout([Run("aaa bbb ccccccccccc", "same")], columns=7)
    assert [(word.line, word.column, word.run.text) for word in words if word.run.text.strip()] == [
        (0, 0, "aaa"),
        (0, 4, "bbb"),
        (1, 0, "ccccccc"),
        (2, 0, "cccc"),
    ]


def test_changes_can_be_told_without_colour():
    with house_style():
        figure = example_figure([make_example(("good", "fine"))])
    (axes,) = figure.axes
    heading, old, new = axes.texts
    assert heading.get_text() == f"t0, {THREAT}, row 3: attack succeeded, positive → negative"
    assert (old.get_text(), new.get_text()) == ("good", "fine")
    assert (old.get_fontweight(), new.get_fontweight()) == ("normal", "bold")
    struck, underlined, _ = axes.lines
    assert list(struck.get_xdata()) == [0, 4]
    assert list(underlined.get_xdata()) == [5, 9]
    assert struck.get_ydata()[0] < underlined.get_ydata()[0]


def test_hostile_text_is_shown_and_does_nothing():
    hostile = "$\\frac{1}{0}$ <script>alert(1)</script> &amp; \x1b[31m \x00 \u202e \ud800 ]]>"
    svg, png = rendered(lambda: example_figure([make_example((hostile, "$x^$ \x07"))]))
    shown = "".join(ElementTree.fromstring(svg).itertext())
    assert "<script>alert(1)</script>" in shown, "as text"
    assert b"<script>" not in svg
    assert "$\\frac{1}{0}$" in shown, "not typeset"
    assert "\\x1b[31m" in shown
    assert "\\u202e" in shown
    assert "\\x07" in shown
    assert png.startswith(b"\x89PNG")


def test_a_long_text_is_cut_with_a_sign():
    words = " ".join(["word"] * 40)
    many = [(words, words), *((f"old{number}", f"new{number}") for number in range(300))]
    with house_style():
        found = texts(example_figure([make_example(*many)]))
    assert "…" in found
    assert all(len(text) <= COLUMNS for text in found)
