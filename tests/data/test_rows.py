import json

import pytest

from tune_tickets.config.task import Rows, Task
from tune_tickets.data.rows import rows_digest
from tune_tickets.data.task import load_task
from tune_tickets.errors import DataError

SMALL = Rows(select=10, report=20)
MANY = [(f"text {i}", "xy"[i % 2]) for i in range(79)]
BAD_ROWS = [
    (
        {"text": "review"},
        [("a", "x"), ("b", "y")],
        r"rows\.csv has no column 'review'; the columns present are 'text', 'label'",
    ),
    ({"label": "y"}, [("a", "x"), ("b", "y")], r"has no column 'y'; the columns present are 'text', 'label'"),
    (
        {"labels": ("x", "y")},
        [("a", "x"), ("b", "z"), ("c", "y")],
        r"rows\.csv, line 3, column 'label': the label 'z' is not one of 'x', 'y'",
    ),
    ({"labels": ("x", "y")}, [("a", "0"), ("b", "2")], r"line 3, column 'label': the label '2' is not one of '0', '1'"),
    ({}, [("a", "x"), ("b", "x")], r"rows\.csv: column 'label' holds only the label 'x'.*two or more classes"),
    ({}, [("a", "x"), ("", "y"), (" \t", "y")], r"line 3, column 'text': the text is empty \(2 such rows in total\)"),
    ({}, [("a", "x"), ("b", " ")], r"line 3, column 'label': the label is empty\. Add"),
    ({"labels": ("x", "y", "z")}, MANY, r"no training row has the label 'z'"),
    (
        {},
        [*MANY[:20], *MANY[:20]],
        r"asks for 20 report \+ 10 select \+ 2 train = 32 rows, but of the 40 rows read only 20",
    ),
    ({"rows": Rows(train=50, select=10, report=20)}, MANY, r"20 report \+ 10 select \+ 50 train = 80 rows"),
]


@pytest.mark.parametrize(("settings", "rows", "message"), BAD_ROWS)
def test_rows_that_cannot_be_used_are_named_with_place_and_remedy(write_csv, settings, rows, message):
    with pytest.raises(DataError, match=message) as error:
        load_task(Task(**{"source": write_csv(rows), "rows": SMALL, **settings}), seed=0)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": 7, "label": "x"}, r"rows\.jsonl, line 2, column 'text': 7 has type int, not text"),
        ({"text": ["a"], "label": "x"}, r"line 2, column 'text': \['a'\] has type list"),
        ({"text": None, "label": "x"}, r"line 2, column 'text': the text is empty\. Add"),
        ({"label": "x"}, r"line 2, column 'text': the text is empty"),
        ({"text": "b", "label": 0.5}, r"line 2, column 'label': 0\.5 is not a label"),
        ({"text": "\ud83d", "label": "x"}, r"line 2, column 'text': the text contains half a character"),
    ],
)
def test_json_values_of_the_wrong_type_are_named(tmp_path, row, message):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in ({"text": "a", "label": "y"}, row, {"text": "c", "label": "x"})))
    with pytest.raises(DataError, match=message):
        load_task(Task(source=str(path), rows=SMALL), seed=0)


def test_the_digest_of_rows_names_texts_labels_and_their_order():
    first, second = (("a film", "one thing"), 1), (("another film",), 0)
    digest = rows_digest([first, second])
    assert len(digest) == 16
    assert digest == rows_digest(iter([first, second]))
    others = [rows_digest([second, first]), rows_digest([first]), rows_digest([first, (second[0], 1)])]
    assert len({digest, *others}) == 4
