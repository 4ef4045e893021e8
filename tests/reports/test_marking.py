"""Attacked texts on a screen: changes are marked, and texts cannot control the terminal."""

import io

import pytest
from rich.console import Console

from tune_tickets.reports.attacked import harmless, marked_text, substitution_page, substitution_text
from tune_tickets.results.records import Substitution

HOSTILE = "\x1b[31m red \x07 bell \r back \u202e turned \x9b2J [bold]not bold[/bold] [/] [link=x] :smile: \x00"


def printed(text, **options):
    stream = io.StringIO()
    Console(file=stream, width=1000, **options).print(text)
    return stream.getvalue()


def test_changes_are_marked_in_brackets_where_there_is_no_colour():
    text = marked_text([("It is a ", "It is a "), ("good", "fine"), (" film", " film")], colour=False)
    assert printed(text) == "It is a [[good -> fine]] film\n"


def test_changes_are_coloured_on_a_terminal():
    text = marked_text([("a ", "a "), ("good", "fine")], colour=True)
    assert text.plain == "a good fine"
    assert [(span.start, span.end, span.style) for span in text.spans] == [(2, 6, "red strike"), (7, 11, "bold green")]


@pytest.mark.parametrize("colour", [True, False])
def test_a_hostile_text_shows_as_what_it_is(colour):
    shown = printed(marked_text([(HOSTILE, HOSTILE), (HOSTILE, "x"), ("y", HOSTILE)], colour))
    assert not set(shown) & set("\x1b\x07\r\u202e\x9b\x00")
    assert shown.count("[bold]not bold[/bold] [/] [link=x] :smile:") == 3
    assert shown.count(r"\x1b[31m red \x07 bell \r back \u202e turned \x9b2J") == 3


def test_letters_of_all_languages_stay_and_what_the_terminal_lacks_is_escaped():
    assert harmless("Ünï 中文 😀 baԁ") == "Ünï 中文 😀 baԁ"
    assert harmless("Ünï 中", encoding="latin-1") == "Ünï \\u4e2d"
    assert harmless("a\nb\tc \udcff") == r"a\nb\tc \udcff"


def test_long_unchanged_parts_are_shortened_around_the_change():
    long = " ".join(f"word{index}" for index in range(1000))
    shown = marked_text([(f"{long} ", f"{long} "), ("good", "fine"), (f" {long}", f" {long}")], colour=False).plain
    assert "word998 word999 [[good -> fine]] word0 word1" in shown
    assert shown.startswith(" ... ")
    assert shown.endswith(" ... ")
    assert len(shown) < 300
    assert marked_text([(long, long)], colour=False).plain.startswith("word0 word1")


def test_a_substitution_is_one_line_with_similarity_and_outcome():
    found = Substitution(
        row=3, left="this is a ", old="good", new="fi\nne", right=" film", similarity=0.934, successful=True
    )
    assert substitution_text(found, colour=False).plain == r"0.93 success  this is a [[good -> fi\nne]] film"
    failed = found.model_copy(update={"left": "", "right": "", "similarity": None, "successful": False})
    assert substitution_text(failed, colour=False).plain == r"     failed   [[good -> fi\nne]]"
    page = substitution_page("textfooler/minilm", "t003", [found, failed])
    assert page.startswith("textfooler/minilm against t003: 2 random substitutions")
    assert len(page.splitlines()) == 3
    assert "nothing was changed" in substitution_page("textfooler/minilm", "t003", [])
