"""The winner in the model registry: one version per ticket, loadable without pickle; failures never stop a search."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.test_loading import made_ticket
from tests.tracking.conftest import SETTINGS, make_outcome, make_summary, make_trial
from tune_tickets.models.loading import load_ticket
from tune_tickets.results.records import TransferFigures, Verdict
from tune_tickets.tickets.ticket import save_ticket
from tune_tickets.tracking.registry import model_name

ROOT = Path(__file__).parents[2]
TEXTS = ["the film was good", "a bad plot with bad films"]
pytestmark = pytest.mark.integration

LOAD = """
import json, sys
import mlflow, pandas
mlflow.set_tracking_uri(sys.argv[1]); mlflow.set_registry_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
found = model.predict(pandas.DataFrame(json.loads(sys.argv[3])))
print(json.dumps([model.metadata.signature.to_dict(), found.values.tolist(), list(found.columns)]))
"""


@pytest.fixture
def ticket(tmp_path):
    def write(name="best_ticket.safetensors", family="bert", columns=("text",)):
        *_, found = made_ticket(family, tmp_path / name, columns=columns)
        save_ticket(found, tmp_path / "50%20 tickets #1" / name)
        return tmp_path / "50%20 tickets #1" / name

    return write


def register(tracker, path, columns=("text",), task=""):
    trial = make_trial(0, metrics={"clean": 84.0, "aua/textfooler/minilm": 23.0})
    tracker.finish(make_summary([trial]), {})
    tracker.register(make_summary([trial]), {task: (path, columns)})
    assert tracker.problems == ()


def loaded(client, uri, table):
    """What a fresh process that refuses pickle gets from the registry."""
    environment = os.environ | {"MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOAD, client.tracking_uri, uri, json.dumps(table)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_the_winner_is_loaded_from_the_registry_without_pickle_and_answers_as_the_ticket(
    open_again, client, ticket, results, runs
):
    path = ticket()
    register(open_again(), path)
    version = client.get_model_version_by_alias("demo", "best")
    assert version.run_id == runs()["trial 0"].info.run_id
    assert (version.tags["clean"], version.tags["aua/textfooler/minilm"]) == ("84", "23")
    assert version.description == "Trial 0 has the best objective."
    assert runs()["trial 0"].data.tags["registered"] == "demo 1"
    files = [file.name for file in results.rglob("models/**/*") if file.is_file()]
    assert "best_ticket.safetensors" in files
    assert "ticket_model.py" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".bin", ".pt"))]
    signature, found, columns = loaded(client, "models:/demo@best", {"text": TEXTS})
    assert [(label, pytest.approx(share)) for label, share in found] == load_ticket(path).predict(TEXTS)
    assert columns == ["label", "probability"]
    assert json.loads(signature["inputs"]) == [{"type": "string", "name": "text", "required": True}]
    assert [one["name"] for one in json.loads(signature["outputs"])] == ["label", "probability"]


def test_a_pair_ticket_has_two_columns(open_again, client, ticket):
    columns = ("premise", "hypothesis")
    path = ticket(columns=columns)
    register(open_again(), path, columns, task="nli")
    table = {"hypothesis": ["good", "bad"], "premise": TEXTS}
    _, found, _ = loaded(client, "models:/demo.nli@best", table)
    expected = load_ticket(path).predict([(TEXTS[0], "good"), (TEXTS[1], "bad")])
    assert [tuple(row) for row in found] == [(label, pytest.approx(share)) for label, share in expected]


def test_a_ticket_for_a_further_task_has_the_figures_of_that_task(open_again, client, ticket, runs):
    there = TransferFigures(name="qa", outcome=make_outcome(clean=61.0, aua=12.0), stages=())
    outcome = make_outcome().model_copy(update={"transfers": (there,)})
    summary = make_summary([make_trial(0, outcome=outcome, metrics={"clean": 84.0, "aua/textfooler/minilm": 23.0})])
    tracker = open_again()
    tracker.finish(summary, {})
    tracker.register(summary, {"": (ticket(), ("text",)), "qa": (ticket("best_ticket.qa.safetensors"), ("text",))})
    versions = [client.get_model_version_by_alias(name, "best") for name in ("demo", "demo.qa")]
    figures = [(version.tags["clean"], version.tags["aua/textfooler/minilm"]) for version in versions]
    assert figures == [("84", "23"), ("61", "12")]
    assert versions[1].description.startswith("Trained for the task qa. On the search's own: Trial 0 has")
    assert {runs()[name].data.tags["registered"] for name in ("demo", "trial 0")} == {"demo 1, demo.qa 1"}


def test_the_same_ticket_is_registered_once_and_another_gets_the_alias(open_again, client, ticket):
    path = ticket()
    register(open_again(), path)
    register(open_again(), path)  # as after a resume
    assert len(client.search_model_versions("name = 'demo'")) == 1
    register(open_again(), ticket("other.safetensors", "roberta"))
    assert len(client.search_model_versions("name = 'demo'")) == 2
    assert client.get_model_version_by_alias("demo", "best").version == 2
    register(open_again(), path)
    assert len(client.search_model_versions("name = 'demo'")) == 2
    assert client.get_model_version_by_alias("demo", "best").version == 1


def test_a_registry_that_fails_is_named_and_loses_nothing(open_again, client, ticket, monkeypatch, runs):
    tracker = open_again()
    monkeypatch.setattr(type(tracker._book.registry), "register", lambda *_: (_ for _ in ()).throw(OSError("gone")))
    trial = make_trial(0)
    tracker.finish(make_summary([trial]), {})
    tracker.register(make_summary([trial]), {"": (ticket(), ("text",))})
    assert tracker.problems == ("demo in the model registry is missing in MLflow: OSError: gone",)
    assert runs()["demo"].info.status == "FINISHED"
    monkeypatch.undo()
    register(open_again(), ticket())
    assert client.get_model_version_by_alias("demo", "best").version == 1


def beaten(trial):
    summary = make_summary([trial])
    sentence = "Keep the dense model: under attack t0 is right on fewer rows."
    verdict = Verdict(kind="keep_dense", sentence=sentence, trial="t0", dominated=True)
    selected = summary.selected.model_copy(update={"beaten": True, "reason": "The dense model is better."})
    return summary.model_copy(update={"verdict": verdict, "selected": selected})


def test_a_ticket_that_dense_beats_gets_the_alias_only_on_request(open_again, client, ticket, runs):
    path, summary = ticket(), beaten(make_trial(0))
    tracker = open_again()
    tracker.finish(summary, {})
    tracker.register(summary, {"": (path, ("text",))})
    assert tracker.problems == ()
    [version] = client.search_model_versions("name = 'demo'")
    said = f"{summary.verdict.sentence}\n\nThe dense model is better."
    assert (version.aliases, version.description) == ([], said)
    assert client.get_registered_model("demo").aliases == {}
    found = runs()
    assert found["trial 0"].data.tags["selected"] == "false"
    assert "selected" not in found["demo"].data.tags, "MLflow keeps no empty tags"
    assert found["demo"].data.tags["verdict"] == "keep_dense"
    assert found["demo"].data.tags["mlflow.note.content"] == said
    tags = {name: value for run in found.values() for name, value in run.data.tags.items()}
    assert not [name for name, value in tags.items() if re.search(r"\b(best|chosen|selected)\b", value, re.IGNORECASE)]

    asked = open_again(settings=SETTINGS | {"tracking": {"register_beaten": True}})
    asked.register(summary, {"": (path, ("text",))})
    assert client.get_model_version_by_alias("demo", "best").version == version.version
    tracker.register(summary, {"": (path, ("text",))})
    assert client.get_registered_model("demo").aliases == {}, "a resumed search may take its word back"


def test_without_a_winner_nothing_is_registered(open_again, client):
    tracker = open_again()
    summary = make_summary([make_trial(0)], selected=None)
    tracker.register(summary, {})
    assert client.search_registered_models() == []


def test_names_are_those_the_registry_takes():
    assert model_name("my reviews/a:b'c") == "my reviews_a_b_c"
    assert model_name("") == "_"
