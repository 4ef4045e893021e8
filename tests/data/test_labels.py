import pytest

from tune_tickets.config.task import Task
from tune_tickets.data.files import Table
from tune_tickets.data.rows import class_numbers, label_names, label_words, sort_names
from tune_tickets.errors import DataError


def test_words_numbers_and_truth_values_become_words():
    table = Table("rows.json", {"label": [" good ", 1, 2.0, True, None, "", float("nan")]})
    assert label_words(table, "label") == ["good", "1", "2", "True", None, None, None]


@pytest.mark.parametrize("value", [0.73, ["good"], {"a": 1}])
def test_what_cannot_be_a_label_is_refused_with_its_row(value):
    with pytest.raises(DataError, match=r"rows\.json, row 2, column 'label'.*words or whole numbers"):
        label_words(Table("rows.json", {"label": ["good", value]}), "label")


def test_names_found_are_sorted_and_numbers_by_value():
    assert sort_names({"10", "2", "-1"}) == ("-1", "2", "10")
    assert sort_names({"10", "2", "b"}) == ("10", "2", "b")


def test_the_task_names_labels_before_the_data_set_does_and_the_data_set_before_the_alphabet():
    table = Table("hub", {"label": [0, 2, 0, 2]}, class_names={"label": ("yes", "maybe", "no")})
    assert label_names(table, Task()) == ("yes", "no")
    assert label_names(table, Task(labels=("no", "yes"))) == ("no", "yes")
    assert label_names(Table("file", {"label": ["yes", "no"]}), Task()) == ("no", "yes")


def test_numbers_count_as_positions_only_where_names_are_given_and_none_occurs():
    assert class_numbers(["0", "1"], ["bad", "good"], positions=True) == {"0": 0, "1": 1}
    assert class_numbers(["0", "good"], ["bad", "good"], positions=True) == {"bad": 0, "good": 1}
    assert class_numbers(["1", "2"], ["2", "1"], positions=True) == {"2": 0, "1": 1}
    assert class_numbers(["0", "1"], ["bad", "good"], positions=False) == {"bad": 0, "good": 1}
