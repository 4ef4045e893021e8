import csv
from pathlib import Path

import pytest

from tune_tickets.cli.init import init
from tune_tickets.config.loading import load_experiment
from tune_tickets.data.task import load_task
from tune_tickets.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, header: list[str], rows: list[list[str]]) -> Path:
    with open(name, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])
    return Path(name)


def reviews(name: str = "reviews.csv") -> Path:
    return write(
        name, ["review", "id", "stars"], [[f"what a film this is, {i}", str(i), str(i % 2)] for i in range(120)]
    )


def test_the_file_written_is_an_experiment_that_loads_its_own_data():
    path = init(reviews(), None, force=False)
    experiment = load_experiment(path)
    task = experiment.settings.task
    assert path == Path("reviews.yaml")
    assert experiment.settings.name == "reviews"
    assert (task.source, task.text, task.label, task.labels) == ("reviews.csv", "review", "stars", ("0", "1"))
    data = load_task(task, experiment.settings.seed)
    assert (len(data.train), len(data.select), len(data.report)) == (78, 18, 24)


def test_it_searches_earlyrobust_tickets_in_a_small_bundled_model():
    experiment = load_experiment(init(reviews(), None, force=False))
    assert experiment.settings.method.kind == "earlyrobust"
    assert (experiment.settings.model.source, experiment.settings.model.layers) == ("bundled", 3)
    assert {"method.drawing.heads", "method.drawing.neurons", "retraining.learning_rate"} <= set(experiment.domains)
    assert experiment.settings.evaluation.rows == 18  # as many as there are select rows
    assert experiment.settings.evaluation.probe.rows == 18


def test_the_file_opens_with_the_command_that_runs_it_and_what_was_guessed(capsys):
    path = init(reviews(), Path("my folder/first try.yaml"), force=False)
    lines = path.read_text().splitlines()
    assert lines[0] == "# tune-tickets run 'my folder/first try.yaml'"
    assert "# - text: review, at most 6 words in 95% of the rows" in lines
    assert "# - label: stars, 2 labels: 0 (60), 1 (60)" in lines
    assert "# - not used: id" in lines
    assert load_experiment(path).settings.name == "first-try"
    printed = capsys.readouterr().out
    assert "- label: stars, 2 labels: 0 (60), 1 (60)" in printed
    assert "Please check the text and label columns" in printed
    assert "tune-tickets run 'my folder/first try.yaml'" in printed


def test_a_pair_task_says_which_column_is_attacked():
    rows = [["all the same", f"claim {i}", "entailment" if i % 2 else "neutral"] for i in range(60)]
    path = init(write("nli.csv", ["premise", "hypothesis", "label"], rows), None, force=False)
    task = load_experiment(path).settings.task
    assert (task.columns, task.attacked) == (("premise", "hypothesis"), "hypothesis")
    assert "attacks may change hypothesis only; premise is locked" in path.read_text()
    assert "often rely on word overlap: task.ood: [{preset: hans}] measures it" in path.read_text()
    assert load_experiment(path, ["task.ood=[{preset: hans}]"]).settings.task.twins == ("hans",)


def test_names_that_yaml_would_misread_survive():
    odd = ['yes: "no" #1', "null\\n", "été 😀"]
    rows = [[f"text {i} of a film", odd[i % 3]] for i in range(60)]
    path = init(write("-odd näme (1).csv", ["a: b", "on # off"], rows), None, force=False)
    experiment = load_experiment(path)
    task = experiment.settings.task
    assert (task.text, task.label, set(task.labels or ())) == ("a: b", "on # off", set(odd))
    assert experiment.settings.name == "odd-n-me-1"
    assert len(load_task(task, 0).train) == 60 - 9 - 12


def test_line_breaks_in_names_do_not_break_out_of_the_comments():
    rows = [[f"text {i} of a film", "good" if i % 2 else "bad\nseed: 7"] for i in range(60)]
    experiment = load_experiment(init(write("rows.csv", ["text", "label"], rows), None, force=False))
    assert experiment.settings.seed == 0
    assert experiment.settings.task.labels == ("bad\nseed: 7", "good")


def test_rare_labels_are_pointed_out():
    rows = [[f"text {i} of a film", "rare" if i < 3 else "common"] for i in range(60)]
    assert (
        "fewer than 10 rows each: rare."
        in init(write("rows.csv", ["text", "label"], rows), None, force=False).read_text()
    )


def test_a_file_is_replaced_only_by_force():
    init(reviews(), None, force=False)
    Path("reviews.yaml").write_text("mine")
    with pytest.raises(ConfigError, match=r"reviews\.yaml exists already.*--output.*--force"):
        init(reviews(), None, force=False)
    assert Path("reviews.yaml").read_text() == "mine"
    init(reviews(), None, force=True)
    assert load_experiment(Path("reviews.yaml")).settings.name == "reviews"
    with pytest.raises(ConfigError, match="is a folder"):
        init(reviews(), Path("."), force=True)


def test_data_that_cannot_be_used_leaves_no_file():
    write("bad.csv", ["text", "label"], [["", "x"], ["a", "y"]] * 40)
    with pytest.raises(DataError, match=r"bad\.csv, line 2, column 'text': the text is empty"):
        init(Path("bad.csv"), None, force=False)
    with pytest.raises(DataError, match="no such file"):
        init(Path("none.csv"), None, force=False)
    assert not list(Path().glob("*.yaml"))
