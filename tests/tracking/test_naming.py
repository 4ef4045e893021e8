import math

import pytest

from tune_tickets.tracking.naming import batches, finite, flatten, legal_name, shorten, without_passwords


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aua/textfooler/minilm", "aua/textfooler/minilm"),
        ("method.gamma", "method.gamma"),
        ("a@b:c", "a_b_c"),
        ("/absolute//twice", "absolute/twice"),
        ("../up", "up"),
        ("", "_"),
        ("x" * 300, "x" * 250),
    ],
)
def test_names_become_legal(name, expected):
    assert legal_name(name) == expected


@pytest.mark.integration
@pytest.mark.parametrize("name", ["aua/textfooler/minilm", "a@b:c", "/absolute//twice", "../up", "", "x" * 300, "."])
def test_mlflow_agrees_that_they_are_legal(name):
    from mlflow.entities import Param
    from mlflow.utils.validation import _validate_metric, _validate_param

    # Both raise on a name that MLflow refuses; the next test shows that they do.
    assert _validate_metric(legal_name(name), 1.0, 0, 0) is None
    assert _validate_param(legal_name(name), "value") == Param(legal_name(name), "value")


@pytest.mark.integration
def test_mlflow_refuses_a_name_that_was_not_made_legal():
    from mlflow.exceptions import MlflowException
    from mlflow.utils.validation import _validate_metric

    with pytest.raises(MlflowException, match="Invalid"):
        _validate_metric("../up", 1.0, 0, 0)


def test_a_long_value_shows_that_it_was_cut():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"


def test_sections_become_dotted_keys_and_lists_stay_whole():
    tree = {"a": {"b": {"c": 1}, "d": [1, 2]}, "e": None, "f": {}}
    assert flatten(tree) == {"a.b.c": 1, "a.d": [1, 2], "e": None, "f": {}}


def test_only_finite_metrics_are_kept():
    assert finite({"a": 1, "b": math.nan, "c": math.inf, "d@": -2.5}) == {"a": 1.0, "d_": -2.5}


def test_batches_keep_order_and_miss_nothing():
    assert [list(batch) for batch in batches([1, 2, 3, 4, 5], 2)] == [[1, 2], [3, 4], [5]]
    assert list(batches([])) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://me:pw@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("sqlite:////tmp/a@b/mlflow.db", "sqlite:////tmp/a@b/mlflow.db"),
        ("cannot open s3://key:pw@bucket/x now", "cannot open s3://key:***@bucket/x now"),
    ],
)
def test_passwords_are_starred_out_wherever_they_stand(text, expected):
    assert without_passwords(text) == expected
    assert without_passwords({"a": [text, 1], "b": {"c": text}}) == {"a": [expected, 1], "b": {"c": expected}}
