import math

import pytest

from tune_tickets.data.files import Table
from tune_tickets.data.guess import guess_task, max_length
from tune_tickets.errors import DataError


def table(rows: int = 100, **columns: object) -> Table:
    """Each column a list, or a function of the row number."""
    return Table("rows.csv", {name: [make(i) for i in range(rows)] for name, make in columns.items()})


def text(i: int) -> str:
    return f"a text of some words number {i}"


def test_the_label_has_few_values_and_the_text_many_words():
    guess = guess_task(table(id=str, source=lambda i: f"site {i % 7}", body=text, stars=lambda i: str(i % 3)))
    assert (guess.task.columns, guess.task.label) == (("body",), "stars")
    assert guess.task.labels == ("0", "1", "2")
    assert guess.counts == {"0": 34, "1": 33, "2": 33}
    assert guess.others == ("id", "source")


def test_a_telling_name_beats_fewer_values():
    columns = {"checked": lambda i: i % 2 == 0, "body": text, "Sentiment": lambda i: "abcd"[i % 4]}
    assert guess_task(table(**columns)).task.label == "Sentiment"


def test_of_two_telling_names_label_comes_first_unless_it_never_changes():
    columns = {"category": lambda i: "abc"[i % 3], "body": text, "label": lambda i: "xy"[i % 2]}
    assert guess_task(table(**columns)).task.label == "label"
    assert guess_task(table(**{**columns, "label": lambda i: "x"})).task.label == "category"


def test_a_column_called_label_with_one_value_is_bad_data():
    with pytest.raises(DataError, match="'label' holds only the label 'x'"):
        guess_task(table(text=text, label=lambda i: "x", source=lambda i: str(i % 2)))


@pytest.mark.parametrize(
    ("first", "second"),
    [("premise", "hypothesis"), ("Question1", "Question2"), ("sentence1", "sentence2"), ("question", "sentence")],
)
def test_known_pairs_are_taken_together_and_the_second_is_attacked(first, second):
    columns = {second: text, "comment": lambda i: text(i) * 5, first: lambda i: "one premise", "label": lambda i: i % 2}
    task = guess_task(table(**columns)).task
    assert task.text == (first, second)
    assert task.attacked == second


@pytest.mark.parametrize(
    ("rows", "train", "select", "report"),
    [(40, None, 6, 8), (100, None, 15, 20), (1000, None, 150, 200), (2768, None, 256, 512), (2769, 2000, 256, 512)],
)
def test_sizes_grow_with_the_rows_up_to_what_a_laptop_can_do(rows, train, select, report):
    sizes = guess_task(table(rows, text=text, label=lambda i: i % 2)).task.rows
    assert (sizes.train, sizes.select, sizes.report) == (train, select, report)


def test_duplicates_do_not_count_as_rows():
    guess = guess_task(table(100, text=lambda i: text(i % 50), label=lambda i: i % 2))
    assert guess.usable == 50


def test_the_length_covers_95_percent_of_the_rows():
    # Row i of 100 has i + 1 words, and one in the other column; 95 of 100 rows have at most 95 + 1.
    columns = {"sentence1": lambda i: "w " * i + str(i), "sentence2": lambda i: "x", "label": lambda i: i % 2}
    guess = guess_task(table(**columns))
    assert guess.words == 96
    assert guess.task.max_length == math.ceil(96 * 1.3 / 8) * 8 == 128


@pytest.mark.parametrize(("words", "tokens"), [(1, 32), (24, 32), (25, 40), (100, 136), (1000, 256)])
def test_lengths_are_multiples_of_8_between_32_and_256(words, tokens):
    assert max_length(words) == tokens


def test_where_there_is_nothing_to_go_by_the_error_says_what_was_seen():
    with pytest.raises(DataError, match=r"no column looks like a label.*'text' 100, 'id' 100"):
        guess_task(table(text=text, id=str))
    with pytest.raises(DataError, match="no column except the label column 'label' holds texts"):
        guess_task(table(label=lambda i: i % 2, score=lambda i: i / 7))
    with pytest.raises(DataError, match=r"39 usable rows are too few.*at least 40"):
        guess_task(table(39, text=text, label=lambda i: i % 2))
