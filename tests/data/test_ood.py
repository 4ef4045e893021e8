import os
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from tune_tickets.config.task import Rows, Task, Twin, TwinRows, TwinTrain
from tune_tickets.data.task import load_task
from tune_tickets.errors import DataError

SHARED = Path(os.environ.get("TUNE_TICKETS_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
ROWS = Rows(train=40, select=10, report=20)
FEW = TwinRows(select=12, report=8)
PAIR = ("premise", "hypothesis", "label", "heuristic")


@pytest.fixture
def nli(write_csv):
    """A three-way task of 120 pairs."""
    labels = ("entailment", "neutral", "contradiction")
    rows = [(f"premise {i}", f"hypothesis {i}", labels[i % 3]) for i in range(120)]
    return Task(
        source=write_csv(rows, ("premise", "hypothesis", "label")),
        text=("premise", "hypothesis"),
        attacked="hypothesis",
        rows=ROWS,
    )


@pytest.fixture
def hans(write_csv):
    rows = [
        (
            f"the {i} saw",
            f"saw the {i}",
            ("entailment", "non-entailment")[i % 2],
            ("overlap", "subsequence")[i // 2 % 2],
        )
        for i in range(40)
    ]
    return write_csv(rows, PAIR, name="hans.csv")


def with_twin(task, **twin):
    return task.model_copy(update={"ood": (Twin(**({"name": "twin", "rows": FEW} | twin)),)})


def test_a_preset_knows_columns_groups_and_merging(nli, hans):
    data = load_task(with_twin(nli, preset="hans", name="hans", source=hans), seed=0)
    (twin,) = data.ood
    assert twin.labels == ("entailment", "non-entailment")
    assert data.labels == ("contradiction", "entailment", "neutral")
    assert twin.answers == (1, 0, 1)
    assert Counter((row.label, row.group) for row in twin.select) == {
        (0, "overlap"): 3, (1, "overlap"): 3, (0, "subsequence"): 3, (1, "subsequence"): 3
    }  # fmt: skip
    assert {row.texts for row in twin.select}.isdisjoint(row.texts for row in twin.report)
    assert all(row.group == ("overlap", "subsequence")[int(row.texts[0].split()[1]) // 2 % 2] for row in twin.report)


def test_splits_depend_on_the_seed_and_only_select_rows_on_the_fingerprint(nli, hans):
    task = with_twin(nli, preset="hans", name="hans", source=hans)
    one, same, other = (load_task(task, seed).ood[0] for seed in (0, 0, 1))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    fewer = with_twin(nli, preset="hans", name="hans", source=hans, rows=TwinRows(select=10, report=12))
    assert load_task(fewer, 0).ood[0].fingerprint != one.fingerprint
    assert load_task(task, 0).fingerprint == load_task(nli, 0).fingerprint


def test_labels_are_renamed_and_compared_without_regard_to_case(write_csv, reviews):
    other = write_csv([(f"other {i}", str(i % 2)) for i in range(30)], name="other.csv")
    task = with_twin(Task(source=write_csv(reviews), rows=ROWS), source=other, labels={"0": "BAD", "1": "Good"})
    (twin,) = load_task(task, seed=0).ood
    assert (twin.labels, twin.answers) == (("BAD", "Good"), (0, 1))


def test_answers_the_twin_lacks_are_none(nli, write_csv):
    two = write_csv([(f"e {i}", f"c {i}", ("entailment", "neutral")[i % 2]) for i in range(30)], PAIR[:3], "two.csv")
    (twin,) = load_task(with_twin(nli, source=two, restrict=True), seed=0).ood
    assert (twin.answers, twin.restrict) == ((None, 0, 1), True)


def test_a_label_no_answer_counts_as_is_an_error(nli, hans):
    with pytest.raises(DataError, match=r"task.ood, twin: no label of the task .* counts as 'non-entailment'"):
        load_task(with_twin(nli, source=hans), seed=0)


@pytest.mark.parametrize(
    ("merge", "slip"),
    [
        ({"neutral": "non-entailment", "contradiction": "nonentailment"}, "nonentailment"),
        ({"neutrl": "non-entailment", "contradiction": "non-entailment"}, "neutrl"),
    ],
)
def test_a_slip_in_merge_does_not_turn_right_answers_into_wrong_ones(nli, hans, merge, slip):
    with pytest.raises(
        DataError, match=rf"task\.ood, twin: merge names '{slip}', but models answer with 'contradiction'"
    ):
        load_task(with_twin(nli, source=hans, merge=merge), seed=0)


def test_a_twin_has_as_many_texts_in_a_row_as_the_task(nli, hans):
    with pytest.raises(ValidationError, match=r"the OOD twin twin has one text per row, the task pairs"):
        Task.model_validate({**nli.model_dump(), "ood": (Twin(name="twin", source=hans, text="premise"),)})
    with pytest.raises(ValidationError, match=r"the OOD twin hans has pairs per row, the task one text"):
        Task.model_validate({"ood": (Twin(preset="hans"),)})


def test_errors_in_rows_to_train_on_say_where_they_are_named(nli, hans):
    train = TwinTrain(source="nowhere.csv")
    with pytest.raises(DataError, match=r"task\.ood, hans, train: nowhere\.csv: no such file"):
        load_task(with_twin(nli, preset="hans", name="hans", source=hans, train=train), seed=0)


def test_too_few_rows_are_an_error(nli, hans):
    with pytest.raises(DataError, match=r"100 report \+ 12 select = 112 rows, but only 40"):
        load_task(with_twin(nli, preset="hans", name="hans", source=hans, rows=TwinRows(select=12, report=100)), seed=0)


def test_training_rows_share_no_text_with_the_twin(write_csv, reviews):
    twin = write_csv([*reviews[:15], *((f"other {i}", ("good", "bad")[i % 2]) for i in range(5))], name="other.csv")
    task = Task(source=write_csv(reviews), rows=Rows(train=None, select=10, report=20))
    data = load_task(with_twin(task, source=twin), seed=0)
    measured = {row.texts for row in (*data.ood[0].select, *data.ood[0].report)}
    assert measured.isdisjoint(row.texts for row in data.train)
    assert data.dropped.held_out == 70 - len(data.train) > 0


def test_rows_to_train_on_are_copied_under_the_labels_of_the_task(nli, hans, write_csv):
    rows = [(f"a {i}", f"b {i}", ("entailment", "non-entailment")[i % 2], "overlap") for i in range(20)]
    rows += [(f"the {i} saw", f"saw the {i}", ("entailment", "non-entailment")[i % 2], "overlap") for i in range(40)]
    train = TwinTrain(source=write_csv(rows, PAIR, name="train.csv"), copies=3, labels={"non-entailment": "neutral"})
    task = with_twin(nli, preset="hans", name="hans", source=hans, train=train)
    data = load_task(task, seed=0)
    # 20 rows of the twin's file are measured, so 20 of the same texts and the 20 new ones are left to train on.
    assert Counter(Counter(row.texts for row in data.ood_train).values()) == {3: 40}
    assert {data.labels[row.label] for row in data.ood_train} == {"entailment", "neutral"}
    measured = {row.texts for row in (*data.ood[0].select, *data.ood[0].report)}
    assert measured.isdisjoint(row.texts for row in data.ood_train)
    fewer = task.ood[0].model_copy(update={"train": train.model_copy(update={"rows": 10})})
    assert len(load_task(task.model_copy(update={"ood": (fewer,)}), 0).ood_train) == 30


def test_rows_to_train_on_need_a_label_of_the_task(nli, hans):
    with pytest.raises(DataError, match=r"the label 'non-entailment' is not one of the task's .* train.labels"):
        load_task(with_twin(nli, preset="hans", name="hans", source=hans, train=TwinTrain(source=hans)), seed=0)


def local(*names):
    if not SHARED.is_dir():
        pytest.skip(f"there is no {SHARED}: real data sets are not here")
    return [str(SHARED / f"{name}.jsonl.gz") for name in names]


def real_task(train, held_out, text, *twins):
    return Task(source=train, held_out=held_out, text=text, attacked=text[1], rows=ROWS, ood=twins)


def test_mnli_and_hans():
    train, held, test, more = local("mnli/train", "mnli/validation", "hans/test", "hans/train")
    hans = {
        "preset": "hans",
        "source": test,
        "rows": {"select": 60, "report": 30},
        "train": {"source": more, "rows": 90},
    }
    data = load_task(real_task(train, held, ("premise", "hypothesis"), Twin.model_validate(hans)), seed=0)
    (twin,) = data.ood
    assert Counter(row.group for row in twin.select) == {"lexical_overlap": 20, "subsequence": 20, "constituent": 20}
    assert [twin.labels[answer] for answer in twin.answers] == ["non-entailment", "entailment", "non-entailment"]
    assert Counter(data.labels[row.label] for row in data.ood_train) == {"entailment": 45, "contradiction": 45}


def test_qqp_and_paws():
    train, held, qqp, wiki, more = local(
        "qqp/train", "qqp/validation", "paws_qqp/test", "paws_wiki/test", "paws_wiki/validation"
    )
    twins = (
        Twin.model_validate({"preset": "paws-qqp", "source": qqp}),
        Twin.model_validate({"preset": "paws-wiki", "source": wiki, "train": {"source": more}}),
    )
    data = load_task(real_task(train, held, ("question1", "question2"), *twins), seed=0)
    assert [(twin.name, twin.metric, twin.answers) for twin in data.ood] == [
        ("paws-qqp", "weighted_f1", (0, 1)),
        ("paws-wiki", "weighted_f1", (0, 1)),
    ]
    assert 7900 < len(data.ood_train) <= 8000


def test_fever_and_symmetric_two_way():
    train, held, v1, v2, dev = local(
        "fever/train",
        "fever/validation",
        "fever_symmetric/v1_test",
        "fever_symmetric/v2_test",
        "fever_symmetric/v2_dev",
    )
    twins = (
        Twin.model_validate({"preset": "fever-symmetric-v1", "source": v1}),
        Twin.model_validate({"preset": "fever-symmetric-v2", "source": v2, "train": {"source": dev}}),
    )
    data = load_task(real_task(train, held, ("evidence", "claim"), *twins), seed=0)
    assert data.labels == ("refutes", "supports")
    assert all(twin.answers == (0, 1) and twin.restrict for twin in data.ood)
    assert set(Counter(row.texts for row in data.ood_train).values()) == {10}
