"""Bad input ends with one paragraph that names the place, exit code 2, no traceback, and nothing written."""

import csv
from pathlib import Path

import pytest

from tune_tickets.cli.app import main
from tune_tickets.cli.attack import _check_writable
from tune_tickets.errors import TicketsError


@pytest.fixture
def refuse(tiny_yaml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run the verb `run` with overrides that must be refused; returns what was said."""

    def call(*overrides: str, file: Path | None = None) -> str:
        out = tmp_path / "out"
        with pytest.raises(SystemExit) as ended:
            main(["run", str(file or tiny_yaml), *overrides, "--output", str(out)])
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert "Traceback" not in said
        assert not out.exists()
        return said

    return call


def write_csv(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *rows])
    return path


def rows_of(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [(row["text"], row["label"]) for row in csv.DictReader(stream)]


def test_unknown_key_wrong_type_and_range_name_file_and_line(refuse, tiny_yaml, tmp_path):
    for line, text in (
        ("  gama: 0.1", "method.gama: unknown key; did you mean 'gamma'?"),
        ("  epochs: many", "method.epochs: input should be a valid number"),
        ("  warmup: 1.5", "method.warmup: input should be less than 1"),
        ("  epochs: {choice: []}", "method.epochs: empty domain"),
    ):
        bad = tmp_path / "bad.yaml"
        bad.write_text(tiny_yaml.read_text().replace("  patience: 2", f"  patience: 2\n{line}"), encoding="utf-8")
        number = 1 + bad.read_text().splitlines().index(line)
        assert f"Error: {bad}:{number}: {text}" in refuse(file=bad)


def test_a_warm_start_outside_its_domain(refuse):
    said = refuse("search.warm_starts=[{method.gamma: 0.9}]")
    assert "search.warm_starts.0.method.gamma: 0.9 lies outside the search domain" in said


def test_missing_files(refuse, tmp_path):
    assert "no such file" in refuse(file=tmp_path / "absent.yaml")
    assert "absent.csv" in refuse(f"task.source={tmp_path}/absent.csv")
    assert "model.source" in refuse(f"model.source={tmp_path}/absent-model")


def test_labels_that_do_not_fit(refuse, tiny_data, tmp_path):
    assert "'pos'" in refuse("task.labels=[neg, good]")
    one_class = write_csv(tmp_path / "one.csv", [(text, "pos") for text, _ in rows_of(tiny_data)])
    assert "one.csv" in refuse(f"task.source={one_class}")


def test_empty_text(refuse, tiny_data, tmp_path):
    rows = rows_of(tiny_data)
    rows[4] = ("  ", "neg")
    said = refuse(f"task.source={write_csv(tmp_path / 'empty.csv', rows)}")
    assert "empty.csv" in said
    assert "6" in said, "the line in the file, header included"


def test_more_heads_than_there_are(refuse):
    said = refuse("method.drawing.heads=0.9")
    assert "method.drawing.heads: 0.9 would remove 8 of the 8 heads of the model" in said
    assert "lower it to 0.75 or less" in said
    said = refuse("method.drawing.heads={choice: [1/4, 0.9]}", "search.warm_starts=[]")
    assert "would remove 8 of the 8 heads" in said


def test_more_rows_than_there_are(refuse):
    assert "task.rows asks for" in refuse("task.rows.train=5000")


def test_unknown_threat_model(refuse):
    assert "textfooler/minilm" in refuse("evaluation.attacks=[textfoler]")


def test_texts_longer_than_the_model(refuse):
    assert "task.max_length" in refuse("task.max_length=100")


def test_too_many_layers(refuse):
    assert "model.layers is 7" in refuse("model.layers=7")


def test_resume_without_anything_to_resume(refuse):
    assert "holds no experiment to resume" in refuse("--resume")


def test_unknown_columns(refuse):
    assert "review" in refuse("task.text=review")


def test_resume_wants_a_folder_in_which_a_search_has_begun(refuse, tmp_path, tiny_yaml, capsys):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["resume", str(tmp_path / "empty")])
    assert ended.value.code == 2
    assert f"no config.yaml in {tmp_path / 'empty'}: no search was started there" in capsys.readouterr().err
    assert "use it with --resume" in refuse("--retry-errors")

    held = tmp_path / "held"
    held.mkdir()
    (held / "config.yaml").write_text(tiny_yaml.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["resume", str(held), "--store", str(tmp_path / "store"), "seed=9"])
    assert ended.value.code == 2
    assert "only the same experiment can be resumed" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named_without_a_traceback(tmp_path, capsys):
    data = write_csv(tmp_path / "reviews.csv", [(f"text {n}", str(n % 2)) for n in range(40)])
    with pytest.raises(SystemExit) as ended:
        main(["init", str(data), "--output", str(data / "in-a-file.yaml")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"Error: {data} cannot be opened or written: File exists.")


def test_a_bug_keeps_its_traceback(monkeypatch, tmp_path):
    def broken(*_):
        raise FileNotFoundError(2, "No such file or directory", "of our own")

    monkeypatch.setattr("tune_tickets.data.guess.guess_task", broken)
    data = write_csv(tmp_path / "reviews.csv", [(f"text {n}", str(n % 2)) for n in range(40)])
    with pytest.raises(FileNotFoundError):
        main(["init", str(data), "--output", str(tmp_path / "new.yaml")])


def test_a_file_for_figures_that_cannot_be_written_is_refused_before_the_attack(monkeypatch, tmp_path):
    with pytest.raises(TicketsError, match=r"cannot be written: name a file"):
        _check_writable(tmp_path)
    _check_writable(tmp_path / "new" / "figures.json")
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path / "new")
    with pytest.raises(TicketsError, match=r"figures\.json cannot be written"):
        _check_writable(tmp_path / "new" / "figures.json")
