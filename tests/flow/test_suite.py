"""`evaluation.suite`: threat models one after the other, each on the rows that withstood those before."""

from dataclasses import asdict, replace
from itertools import pairwise

import pytest

from tests.flow.conftest import POINT, ignore
from tests.flow.test_attacking import shard
from tune_tickets.attacks.threat import RULES_VERSION, get_threat, with_resources
from tune_tickets.config.evaluation import Evaluation
from tune_tickets.engine.runner import DryRunner, LocalRunner, unheard
from tune_tickets.engine.stage import StageKey, StageResult
from tune_tickets.engine.store import Store
from tune_tickets.methods.attacking import Beaten, ShardedAttack, best_possible, suite_figures
from tune_tickets.methods.base import Flow
from tune_tickets.methods.stages import Attack, Retrain
from tune_tickets.reports.artifacts import attacked_records
from tune_tickets.results.statistics import wilson

KEY = StageKey("data", "d", "d")
THREATS = ("textbugger/minilm", "charmer-fast/k1", "words/near50-forms")


def made(threat, before=None, size=3, attackable=(True, True, False, True, True, True)):
    whole = Attack(
        seed=0,
        threat=asdict(get_threat(threat)),
        rules=RULES_VERSION,
        rows=6,
        eval_batch_size=8,
        data=KEY,
        retrain=KEY,
    )
    shards = tuple(replace(whole, shard=[start, start + size]) for start in range(0, 6, size))
    record = {"attackable": list(attackable), "attacked_sample": "rows"}
    evaluated = StageResult(StageKey("evaluate", "e", "e"), record, {}, [], 1.0)
    return ShardedAttack(get_threat(threat), shards, evaluated, suite=True, before=before)


def test_only_rows_that_withstood_are_attacked_and_the_others_are_lost():
    first = made(THREATS[0])
    second = made(THREATS[1], first)
    assert not second.ready
    first.done += [shard("failed", "successful", "skipped"), shard("failed", "failed", "failed")]
    narrowed, whole = second.stages()
    assert narrowed.only == [0]
    assert whole == second.shards[1], "a shard without losses is the stage of an experiment without a suite"
    assert "only" not in whole.inputs

    second.done += [shard("successful"), shard("failed", "successful", "failed")]
    figures = second.figures()
    assert figures.survived == (False, False, False, True, False, True)
    assert figures.accuracy_under_attack == pytest.approx(100 * 2 / 6)
    assert figures.interval == wilson(2, 6)
    assert (figures.rows, figures.skipped, figures.clean) == (6, 1, pytest.approx(100 * 5 / 6))
    assert figures.success_rate == pytest.approx(100 * 2 / 4), "over the four rows that were attacked"
    assert figures.queries == pytest.approx((10 + 10 + 11 + 12) / 4)
    assert (figures.after, first.figures().after) == ((first.threat.fingerprint,), ())
    assert (first.rows_done(), second.rows_done()) == (6, 4)

    third = made(THREATS[2], second)
    none, last = third.stages()
    assert none is None, "there is nothing left to attack in the first shard"
    assert last.only == [3, 5]
    third.done += [None, shard("failed", "successful")]
    suite = suite_figures([first, second, third])
    assert suite.survived == (False, False, False, True, False, False)
    assert (suite.accuracy, suite.interval, suite.rows) == (pytest.approx(100 / 6), wilson(1, 6), 6)
    assert suite.threats == THREATS
    assert suite.sample == "rows"
    assert third.figures().skipped == 1


def test_the_bound_of_a_suite_counts_rows_as_survived_until_they_lose():
    first = made(THREATS[0])
    second = made(THREATS[1], first)
    both = [first, second]
    assert best_possible(both)["aua"] == pytest.approx(100 * 5 / 6)
    first.done += [shard("failed", "successful", "skipped")]
    assert best_possible(both)["aua"] == pytest.approx(100 * 4 / 6)
    first.done += [shard("failed", "failed", "failed")]
    second.done += [shard("successful")]
    assert best_possible(both) == {
        f"aua_after/{THREATS[0]}": pytest.approx(100 * 4 / 6),
        f"aua_after/{THREATS[1]}": pytest.approx(100 * 3 / 6),
        "aua": pytest.approx(100 * 3 / 6),
    }


def test_a_suite_that_is_off_leaves_no_trace_in_the_configuration():
    assert "suite" not in Evaluation().model_dump()
    assert Evaluation(suite=True).model_dump()["suite"] is True
    assert Evaluation.model_validate(Evaluation(suite=True).model_dump()).suite


@pytest.fixture
def suite(experiment, world, store_url):
    """A flow with several threat models, as a suite or each on all rows."""

    def make(on, threats=THREATS, runner=None, **changes):
        settings = experiment.at(POINT)
        update = {"suite": on, "rows": 24, "shard": 10, "attacks": threats, **changes}
        settings = settings.model_copy(update={"evaluation": settings.evaluation.model_copy(update=update)})
        known = tuple(with_resources(get_threat(threat), None) for threat in threats)
        here = replace(world, threats=known)
        return Flow(settings, here, runner or LocalRunner(store_url, settings.resources))

    return make


def test_the_plan_counts_a_suite_like_all_threat_models_on_all_rows(suite):
    asked = []
    for on in (False, True):
        runner = DryRunner(None)
        suite(on, runner=runner).find_ticket(unheard)
        asked.append(runner.asked)
    assert [stage.digest for stage in asked[0]] == [stage.digest for stage in asked[1]]
    assert sum(isinstance(stage, Attack) for stage in asked[1]) == 3 * len(THREATS)


@pytest.mark.integration
def test_a_suite_gives_the_intersection_of_all_threat_models_on_all_rows(suite, store_url):
    apart = suite(False)
    alone = apart.dense_control(ignore)
    together = suite(True)
    outcome = together.dense_control(ignore)
    # Independent: the texts that the separate attacks left, row by row.
    records = attacked_records(apart.stages, Store(store_url))
    assert list(records) == list(THREATS)
    kept = [True] * 24
    for threat, figures in zip(THREATS, outcome.attacks, strict=True):
        kept = [
            one and record.status == "failed" and record.perturbed_prediction == record.label
            for one, record in zip(kept, records[threat], strict=True)
        ]
        assert figures.survived == tuple(kept)
        assert figures.accuracy_under_attack == pytest.approx(100 * sum(kept) / 24)
    assert outcome.suite.survived == tuple(kept)
    assert (outcome.suite.accuracy, outcome.suite.rows) == (pytest.approx(100 * sum(kept) / 24), 24)
    assert outcome.suite.interval == wilson(sum(kept), 24)
    assert outcome.aua == outcome.suite.accuracy

    # The case is worth testing: every threat model takes rows that the ones before left.
    left = [sum(each.survived) for each in outcome.attacks]
    assert left[0] > left[-1] > 0
    assert left[-1] <= min(sum(each.survived) for each in alone.attacks)
    assert outcome.suite.accuracy < alone.aua

    # Each row that a later threat model attacks is attacked as it would be alone, with the same text.
    narrowed = attacked_records(together.stages, Store(store_url))
    for threat in THREATS[1:]:
        whole = {record.index: record for record in records[threat]}
        assert all(record == whole[record.index] for record in narrowed[threat])
        assert len(narrowed[threat]) < 24
    own = [record for record in narrowed[THREATS[-1]] if record.status != "skipped"]
    assert outcome.attacks[-1].queries == pytest.approx(sum(record.queries for record in own) / len(own))

    metrics = outcome.metrics()
    assert metrics["aua"] == outcome.suite.accuracy
    assert (metrics["low/aua"], metrics["high/aua"]) == outcome.suite.interval
    assert metrics[f"aua_after/{THREATS[-1]}"] == metrics["aua"]
    assert f"aua/{THREATS[0]}" not in metrics
    assert f"queries/{THREATS[1]}" in metrics
    assert "low/aua" not in alone.metrics()


@pytest.mark.integration
def test_an_early_exit_of_a_suite_is_exact_and_a_later_full_attack_continues(suite):
    seen = []

    def watch(metrics):
        seen.append(metrics["aua"])

    kept = suite(True, shard=5).find_ticket(ignore, watch)
    assert kept == suite(True, shard=24).find_ticket(ignore), "neither the order nor the size of shards matters"
    assert all(later <= earlier for earlier, later in pairwise(seen)), "bounds only fall"
    assert seen[-1] >= kept.suite.accuracy

    worst = min(seen)
    flow = suite(True, shard=7)
    with pytest.raises(Beaten) as beaten:
        flow.find_ticket(ignore, lambda metrics: (0.1,) if metrics["aua"] <= worst else None)
    assert kept.suite.accuracy <= worst, "what was given up could not have been better"
    again = suite(True, shard=7)
    assert again.find_ticket(ignore) == kept
    attacks = [stage.cached for stage in again.stages if stage.name == "attack"]
    assert attacks == sorted(attacks, reverse=True)
    assert beaten.value.rows > 0
    assert attacks[0]


@pytest.mark.integration
def test_a_suite_is_measured_after_every_epoch(suite, store_url):
    flow = suite(True, THREATS[:2], rows=12, shard=12)
    retraining = flow.settings.retraining.model_copy(update={"epochs": 2})
    flow.settings = flow.settings.model_copy(update={"retraining": retraining})
    outcome = flow.dense_control(ignore)
    stage = Store(store_url).recipe(StageKey("retrain", outcome.retrain_digest, outcome.retrain_digest))
    assert isinstance(stage, Retrain)
    first, last = flow.after_every_epoch(stage, outcome)
    assert last.suite == outcome.suite
    assert first.suite.survived == first.attacks[-1].survived
    assert first.metrics()["aua"] == first.suite.accuracy
