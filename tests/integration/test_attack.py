"""The verbs `attack` and `predict` on tiny models: with the metrics of a search, with pairs, against another model."""

import io
import json
import random
import shutil
import signal
import sys
from math import comb
from pathlib import Path

import pyarrow.parquet
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.conftest import FILLER, NEGATIVE, POSITIVE
from tune_tickets.attacks.records import AttackReport, read_parquet
from tune_tickets.cli.app import main
from tune_tickets.cli.live import Meter
from tune_tickets.config import load_experiment
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.results.records import Outcome
from tune_tickets.search.preflight import preflight

pytestmark = pytest.mark.integration
BUGGER = "textbugger/minilm"


def ended(arguments: list[object]) -> int:
    with pytest.raises(SystemExit) as code:
        main([str(argument) for argument in arguments])
    return int(code.value.code or 0)


def dense(yaml: Path, folder: Path) -> tuple[Outcome, Path, list]:
    """What `run` does for its dense control, in this process: outcome, ticket file and attack records."""
    experiment = load_experiment(yaml)
    url = str(folder / "store")
    store = Store(url)
    pipeline = Flow(experiment.settings, preflight(experiment, store), LocalRunner(url, experiment.settings.resources))
    outcome = pipeline.dense_control(lambda record: None)
    shutil.copy(yaml, folder / "config.yaml")
    ticket = folder / "best_ticket.safetensors"
    ticket.write_bytes(store.read(store.find("retrain", outcome.retrain_digest), "ticket.safetensors"))
    [attack] = [stage for stage in pipeline.stages if stage.name == "attack"]
    kept = store.read(store.find("attack", attack.digest), "attacked.parquet")
    return outcome, ticket, read_parquet(io.BytesIO(kept))


@pytest.fixture
def pair_yaml(tiny_yaml: Path, tmp_path: Path) -> Path:
    """Pairs that agree or not: the first text praises or not, the second says which."""
    words = random.Random(1)
    rows, seen = ["premise,hypothesis,label"], set()
    while len(seen) < 220:
        praise, claim = words.random() < 0.5, words.random() < 0.5
        first = " ".join([*words.choices(FILLER, k=4), words.choice(POSITIVE if praise else NEGATIVE)])
        second = " ".join([*words.choices(FILLER, k=3), words.choice(POSITIVE if claim else NEGATIVE)])
        if (first, second) not in seen:
            seen.add((first, second))
            rows.append(f"{first},{second},{'same' if praise == claim else 'other'}")
    (tmp_path / "pairs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    text = tiny_yaml.read_text().splitlines()
    place = next(index for index, line in enumerate(text) if line.strip().startswith("source: ") and "reviews" in line)
    text[place] = f"  source: {tmp_path / 'pairs.csv'}\n  text: [premise, hypothesis]\n  attacked: hypothesis"
    path = tmp_path / "pairs.yaml"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def test_a_pair_task_locks_the_other_column_in_a_search_and_in_the_verb(pair_yaml, tmp_path, capsys):
    outcome, ticket, records = dense(pair_yaml, tmp_path)
    assert len(records) == 8
    assert all(record.perturbed_texts[0] == record.texts[0] for record in records)

    out, report = tmp_path / "attacked.parquet", tmp_path / "report.json"
    assert ended(["attack", tmp_path, "--out", out, "--json", report, "--show", "8"]) == 0
    assert read_parquet(out) == records, "the verb repeats what the search did"
    measured = AttackReport.model_validate_json(report.read_text())
    assert measured.measurements[0].figures == outcome.attacks[0]
    assert (measured.attacked, measured.columns) == ("hypothesis", ("premise", "hypothesis"))
    printed = capsys.readouterr().out
    assert "  premise: " in printed

    assert ended(["attack", ticket, "--out", out, "--column", "premise", "--rows", "12", "--threat", BUGGER]) == 0
    turned = read_parquet(out)
    assert len(turned) == 12
    assert all(record.perturbed_texts[1] == record.texts[1] for record in turned)
    changed = [record for record in [*records, *turned] if record.perturbed_texts != record.texts]
    assert changed, "some attack changed something"


@pytest.fixture
def trained(tiny_yaml: Path, tmp_path: Path) -> tuple[Outcome, Path]:
    """A results folder with a trained ticket, and what was measured of it."""
    folder = tmp_path / "results"
    folder.mkdir()
    outcome, ticket, _ = dense(tiny_yaml, folder)
    return outcome, ticket


def test_attack_and_predict_through_the_command_line(trained, cli, tmp_path):
    outcome, ticket = trained
    report, out = tmp_path / "report.json", tmp_path / "new" / "attacked.parquet"
    code, printed = cli("attack", ticket, "--json", report, "--out", out, "--show", 2)
    assert code == 0, printed
    measured = AttackReport.model_validate_json(report.read_text())
    assert measured.complete
    assert [one.figures for one in measured.measurements] == list(outcome.attacks), "as the search measured it"
    assert measured.measurements[0].seconds > 0
    assert measured.measurements[0].substitutions
    assert f"{outcome.attacks[0].accuracy_under_attack:.1f} [" in printed
    assert outcome.attacks[0].fingerprint in printed
    assert printed.count("% of the words changed") == 2
    assert " -> " in printed
    assert "random substitutions to judge" in printed
    assert "\x1b" not in printed, "no colour where it is piped"
    rows = pyarrow.parquet.read_table(out).to_pylist()
    assert [(row["threat"], row["model"]) for row in rows] == [(BUGGER, str(ticket))] * 8

    code, printed = cli("predict", tmp_path / "results", "a good film")
    assert (code, printed.split()[0]) == (0, "pos"), printed


def test_predict_answers_every_line_of_stdin(trained, monkeypatch, capsys):
    _, ticket = trained
    lines = b"a good film\n\n\xff\xfe \x00 bad plot\r\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert ended(["predict", ticket, "-", "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["label"] for answer in answers][::2] == ["pos", "neg"]
    assert answers[1]["texts"] == [""]
    assert sum(answers[1]["probabilities"].values()) == pytest.approx(1.0)


@pytest.fixture
def other(tiny_backbone: Path, tmp_path: Path) -> Path:
    """A classifier as transformers saves it, untrained, with its classes the other way round."""
    torch.manual_seed(0)
    names = {0: "POS", 1: "NEG"}
    model = AutoModelForSequenceClassification.from_pretrained(tiny_backbone, id2label=names)
    model.save_pretrained(tmp_path / "other")
    AutoTokenizer.from_pretrained(tiny_backbone).save_pretrained(tmp_path / "other")
    return tmp_path / "other"


def test_two_models_are_compared_on_the_same_rows(trained, other, tiny_data, tmp_path, capsys):
    _, ticket = trained
    report, out = tmp_path / "report.json", tmp_path / "attacked.parquet"
    rows = ["--data", tiny_data, "--rows", 12, "--threat", BUGGER, "--seed", 1]
    assert ended(["attack", ticket, "--against", other, *rows, "--json", report, "--out", out]) == 0
    measured = AttackReport.model_validate_json(report.read_text())
    ours, theirs = (one.figures for one in measured.measurements)
    table = pyarrow.parquet.read_table(out).to_pylist()
    assert [row["texts"] for row in table[:12]] == [row["texts"] for row in table[12:]]
    assert [row["label"] for row in table[:12]] == [1 - row["label"] for row in table[12:]], "each in its own classes"

    only_ours = sum(a and not b for a, b in zip(ours.survived, theirs.survived, strict=True))
    differing = only_ours + sum(b and not a for a, b in zip(ours.survived, theirs.survived, strict=True))
    tail = sum(comb(differing, k) for k in range(min(only_ours, differing - only_ours) + 1)) / 2**differing
    [comparison] = measured.comparisons
    assert comparison.p_value == pytest.approx(min(1.0, 2 * tail))
    assert comparison.difference == pytest.approx(100 * (sum(ours.survived) - sum(theirs.survived)) / 12)
    assert comparison.other == str(other)
    printed = capsys.readouterr().out
    assert f"A = {ticket}\nB = {other}\n" in printed
    assert f"{BUGGER}: A " in printed
    assert ended(["attack", ticket, "--against", ticket, *rows]) == 2


@pytest.fixture
def hears_ctrl_c():
    """As at a terminal: what a script starts in the background does not hear it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_keeps_finished_attacks_and_gives_no_figure_for_the_rest(trained, tmp_path, capsys, monkeypatch):
    _, ticket = trained
    heard = Meter.__call__

    def interrupting(meter, done, total):
        heard(meter, done, total)
        if "textfooler" in meter._title and done == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Meter, "__call__", interrupting)
    report, out = tmp_path / "report.json", tmp_path / "attacked.parquet"
    threats = ["--threat", BUGGER, "--threat", "textfooler/minilm"]
    assert ended(["attack", ticket, *threats, "--json", report, "--out", out, "--show", 0]) == 130
    cut = AttackReport.model_validate_json(report.read_text())
    assert not cut.complete
    assert [one.figures.threat for one in cut.measurements] == [BUGGER]
    assert cut.unfinished == (f"textfooler/minilm on {ticket}: 3 of 8 rows",)
    assert len(read_parquet(out)) == 8
    printed = capsys.readouterr().out
    assert "These attacks are incomplete and have no metrics" in printed
    assert printed.count("fingerprint") == 2, "one column, and its legend"


def test_what_cannot_be_attacked_is_said_before_any_attack(trained, other, tiny_data, tmp_path, capsys):
    _, ticket = trained
    for arguments, message in (
        (["attack", ticket, "--threat", "nonsense"], "unknown attack 'nonsense'"),
        (["attack", ticket, "--rows", 4000], "the select rows of"),
        (["attack", ticket, "--data", tmp_path / "none.csv"], "none.csv: no such file"),
        (["attack", tmp_path / "none.ticket"], "is no ticket file"),
        (["attack", ticket, "--data", tiny_data, "--column", "review"], "has no column 'review'"),
        (["attack", other, "--data", tiny_data, "task.label=text"], "cannot be matched"),
        (["predict", tmp_path / "none.ticket", "text"], "is no ticket file"),
        (["predict", ticket, "one", "two"], "reads one text, but 2 were given"),
    ):
        assert ended(arguments) == 2
        said = capsys.readouterr().err
        assert message in said
        assert "Traceback" not in said
