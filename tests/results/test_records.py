"""The names of metrics in summaries, and summaries of earlier releases."""

from tests.reports.conftest import make_attack, make_outcome, make_summary, make_trial
from tune_tickets.results.records import AttackFigures, Outcome, Summary, ThreatRecord, TransferFigures


def test_metrics_carry_every_figure_of_an_attack_under_the_name_of_its_threat_model():
    attack = make_attack("textfooler/minilm", aua=23.0).model_copy(
        update={"candidates": 48, "rejected": {"sentence similarity": 62.5}, "skipped": 3, "similarity": 0.9}
    )
    metrics = make_outcome(clean=84.4, attacks=[attack]).metrics()
    assert (metrics["clean"], metrics["low/clean"], metrics["high/clean"]) == (84.4, 80.4, 89.4)
    assert {name: value for name, value in metrics.items() if "textfooler" in name} == {
        "aua/textfooler/minilm": 23.0,
        "low/aua/textfooler/minilm": 15.8,
        "high/aua/textfooler/minilm": 32.2,
        "suc/textfooler/minilm": 74.5,
        "queries/textfooler/minilm": 1023.4,
        "words_changed/textfooler/minilm": 12.0,
        "similarity/textfooler/minilm": 0.9,
        "skipped/textfooler/minilm": 3.0,
        "candidates/textfooler/minilm": 48.0,
        "rejected/textfooler/minilm/sentence similarity": 62.5,
    }


def test_what_was_not_measured_is_left_out():
    metrics = make_outcome(attacks=[make_attack()]).metrics()
    assert not [name for name in metrics if name.startswith(("candidates", "rejected", "similarity"))]


def test_a_summary_written_before_candidates_were_counted_can_be_read():
    threat = ThreatRecord(name="textfooler/minilm", fingerprint="f00d", resources={})
    document = make_summary([make_trial(0)], threat_models=(threat,)).model_dump(mode="json")
    for figures in document["trials"][0]["outcome"]["attacks"]:
        del figures["candidates"], figures["rejected"]
    for record in document["threat_models"]:
        del record["substitutions"], record["substitutions_of"]
    summary = Summary.model_validate(document)
    assert summary.trials[0].outcome.attacks[0].rejected == {}
    assert isinstance(summary.trials[0].outcome.attacks[0], AttackFigures)
    assert summary.threat_models[0].substitutions == ()


def test_figures_of_further_tasks_stand_under_their_names_and_means_go_over_all_tasks():
    attacks = [make_attack("textfooler/minilm", aua=20.0), make_attack("textbugger/minilm", aua=30.0)]
    there = make_outcome(clean=90.0, attacks=[make_attack("textfooler/minilm", aua=41.0)])
    last = make_outcome(clean=60.0, attacks=[make_attack("textfooler/minilm", aua=10.0)])
    transfers = tuple(
        TransferFigures(name=name, outcome=outcome, stages=()) for name, outcome in (("imdb", there), ("qqp", last))
    )
    outcome = make_outcome(clean=84.0, attacks=attacks).model_copy(update={"transfers": transfers})
    metrics = outcome.metrics()
    assert (metrics["clean"], metrics["aua"]) == (84.0, 25.0)
    assert (metrics["transfer/imdb/clean"], metrics["transfer/qqp/clean"]) == (90.0, 60.0)
    assert metrics["transfer/imdb/aua/textfooler/minilm"] == metrics["transfer/imdb/aua"] == 41.0
    assert metrics["mean/clean"] == (84.0 + 90.0 + 60.0) / 3
    assert metrics["mean/aua"] == (25.0 + 41.0 + 10.0) / 3
    assert Outcome.model_validate_json(outcome.model_dump_json()) == outcome
    assert not [name for name in make_outcome().metrics() if name.startswith(("mean/", "transfer/"))]
