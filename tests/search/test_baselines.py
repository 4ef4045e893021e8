"""The baselines of training cost."""

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.results.records import Cost, Training, TrialRecord
from tune_tickets.search.closing import cost_baselines

YAML = """\
method:
  kind: {choice: [earlyrobust, finetune]}
  adversary: {steps: {choice: [5], when: {method.kind: earlyrobust}}}
retraining:
  epochs: {choice: [3, 4]}
  adversary: {kind: {choice: [none, pgd, freelb]}, steps: 2}
"""


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "x.yaml").write_text(YAML, encoding="utf-8")
    return load_experiment(tmp_path / "x.yaml")


def trial(number, title, value, passes, epochs=3, status="complete"):
    nothing = Training(passes=0.0, seconds=0.0)
    return TrialRecord(
        id=f"t{number}",
        number=number,
        status=status,
        title=title,
        params={"method.kind": "finetune", "retraining.adversary.kind": title.lower(), "retraining.epochs": epochs},
        values=None if value is None else (value,),
        cost=Cost(retraining=Training(passes=passes, seconds=10 * passes), search=nothing),
    )


def test_the_best_trial_that_trained_the_whole_model_so_is_the_baseline(experiment):
    trials = [
        trial(0, "earlyrobust + PGD", 0.9, 9.0),  # a ticket, not the whole model
        trial(1, "InfoBERT + PGD", 0.8, 3.0),  # not PGD alone
        trial(2, "PGD", -0.02, 9.0),
        trial(3, "PGD", 0.5, 12.0, epochs=4),
        trial(4, "FreeLB", None, 2.0, status="pruned"),  # not trained to its end
    ]
    pgd, freelb = cost_baselines(experiment, trials)
    assert (pgd.adversary, pgd.trial, pgd.steps, pgd.epochs) == ("pgd", "t3", 2, 4)
    assert (pgd.passes, pgd.seconds) == (12.0, 120.0)
    assert (freelb.adversary, freelb.trial, freelb.seconds) == ("freelb", None, None)


def test_without_one_its_passes_are_computed_from_the_reference_settings(experiment):
    # 3 epochs with the search's 5 steps: PGD takes a sixth pass to train, FreeLB trains in all five.
    pgd, freelb = cost_baselines(experiment, [])
    assert (pgd.trial, pgd.steps, pgd.epochs, pgd.passes) == (None, 5, 3, 18.0)
    assert (freelb.trial, freelb.steps, freelb.epochs, freelb.passes) == (None, 5, 3, 15.0)


def test_a_method_without_an_adversary_takes_the_steps_of_the_retraining(tmp_path):
    (tmp_path / "x.yaml").write_text(
        "method: {kind: random}\nretraining: {epochs: 2, adversary: {kind: freelb, steps: 4}}\n", encoding="utf-8"
    )
    pgd, freelb = cost_baselines(load_experiment(tmp_path / "x.yaml"), [])
    assert (pgd.passes, freelb.passes) == (10.0, 8.0)
