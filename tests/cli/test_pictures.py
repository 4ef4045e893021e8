"""The verb `pictures`."""

import pytest

from tests.reports.conftest import make_attack, make_outcome, make_summary, make_trial
from tune_tickets.cli.app import main
from tune_tickets.config import load_experiment
from tune_tickets.results.folder import place_results
from tune_tickets.results.summary import write_summary

POINT = {"method.gamma": 0.2, "method.drawing.heads": 0.25, "method.drawing.neurons": 0.5}


@pytest.fixture
def finished(tiny_yaml, tmp_path):
    """A results folder whose store is empty."""

    def folder(name, *overrides):
        experiment = load_experiment(tiny_yaml, overrides)
        results = place_results(experiment, tmp_path / name)
        results.open(experiment)
        (tmp_path / name / "store").mkdir()
        trial = make_trial(0, params=POINT, outcome=make_outcome(attacks=[make_attack()]))
        write_summary(make_summary([trial], seed=experiment.settings.seed), results.folder)
        return str(results.folder)

    return folder


def ended(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["pictures", *arguments])
    return end.value.code


def test_it_draws_what_there_is_and_says_what_there_is_not(finished, tmp_path, capsys):
    assert ended(finished("out")) == 0
    printed = capsys.readouterr().out
    assert f"1 picture, as SVG and PNG: {tmp_path / 'out' / 'pictures'}" in printed
    assert "importance: there is no optuna.db" in printed
    assert (tmp_path / "out" / "pictures" / "front.svg").is_file()


def test_other_seeds_may_stand_beside_it_other_experiments_may_not(finished, capsys):
    assert ended(finished("out"), finished("seed-1", "seed=1")) == 0
    assert ended(finished("again"), finished("other", "retraining.epochs=2")) == 2
    said = capsys.readouterr().err
    assert "other differs from" in said
    assert "in retraining: a mean over seeds needs the same experiment" in said


def test_a_folder_without_a_search_is_one_paragraph(tmp_path, capsys):
    assert ended(str(tmp_path)) == 2
    assert "There is no summary.json" in capsys.readouterr().err
