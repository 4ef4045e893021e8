"""Attacks in shards: their sum, what remains after an early exit, and what is reused afterwards."""

from itertools import pairwise

import pytest

from tests.flow.conftest import POINT, ignore
from tests.stages import Stage
from tune_tickets.attacks.threat import get_threat
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import StageKey, StageResult
from tune_tickets.methods.attacking import Beaten, ShardedAttack, bounds
from tune_tickets.methods.base import Flow


def shard(*statuses, first=0, rejected=0):
    rows = [
        {"index": first + place, "status": status, "queries": 10 + place, "words_changed": 20.0, "similarity": 0.9}
        for place, status in enumerate(statuses)
    ]
    record = {"rows": rows, "candidates": 8, "rejected": {"SentenceSimilarity": rejected}}
    return StageResult(StageKey("attack", "d", "d"), record, {}, [], 1.0)


def attack(*done, attackable=(True, True, False, True, True, True)):
    stages = tuple(Stage("attack", {"shard": [start, start + 2]}) for start in (0, 2, 4))
    record = {"attackable": list(attackable), "attacked_sample": "rows"}
    evaluated = StageResult(StageKey("evaluate", "e", "e"), record, {}, [], 1.0)
    return ShardedAttack(get_threat("textfooler/minilm"), stages, evaluated, None, list(done))


def test_shards_cover_every_row_once_and_do_not_depend_on_who_computes_them():
    assert bounds(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert bounds(3, 64) == [(0, 3)]
    assert [row for start, end in bounds(7, 3) for row in range(start, end)] == list(range(7))


def test_the_bound_counts_rows_not_attacked_yet_as_withstood_unless_they_are_wrong_from_the_start():
    first, second, third = shard("failed", "successful"), shard("skipped", "successful"), shard("failed", "successful")
    assert attack().best_possible() == pytest.approx(100 * 5 / 6)
    assert attack(first).best_possible() == pytest.approx(100 * (1 + 3) / 6)
    assert attack(first, second).best_possible() == pytest.approx(100 * (1 + 2) / 6)
    assert attack(first, second, third).best_possible() == pytest.approx(100 * 2 / 6)


def test_the_figures_are_those_of_all_rows_together():
    whole = attack(shard("failed", "successful", rejected=2), shard("skipped", "failed"), shard("failed", "failed"))
    figures = whole.figures()
    assert (figures.rows, figures.skipped, figures.accuracy_under_attack) == (6, 1, pytest.approx(100 * 4 / 6))
    assert figures.survived == (True, False, False, True, True, True)
    assert figures.success_rate == pytest.approx(100 / 5)
    assert (figures.candidates, figures.sample) == (24, "rows")
    assert figures.rejected == {"SentenceSimilarity": pytest.approx(100 * 2 / 24)}


def test_there_is_no_figure_before_the_last_shard():
    with pytest.raises(AssertionError):
        attack(shard("failed", "failed")).figures()


@pytest.fixture
def sharded(experiment, world, store_url):
    """A pipeline with shards of a few rows."""

    def make(size):
        settings = experiment.at(POINT)
        evaluation = settings.evaluation.model_copy(update={"shard": size})
        settings = settings.model_copy(update={"evaluation": evaluation})
        return Flow(settings, world, LocalRunner(store_url, settings.resources))

    return make


@pytest.mark.integration
def test_shards_of_any_size_give_the_same_figures(sharded):
    whole, parts = sharded(64), sharded(2)
    first, second = whole.dense_control(ignore), parts.dense_control(ignore)
    assert [stage.name for stage in whole.stages].count("attack") == 1
    assert [stage.name for stage in parts.stages].count("attack") == len(bounds(whole.settings.evaluation.rows, 2))
    assert first.attacks == second.attacks


@pytest.mark.integration
def test_a_ticket_given_up_keeps_its_finished_shards_for_a_later_full_attack(sharded):
    seen = []

    def rival(metrics):
        assert metrics["aua"] == metrics["aua/textbugger/minilm"]
        seen.append([metrics["aua"]])
        return (0.25,) if len(seen) > 2 else None

    pipeline = sharded(2)
    with pytest.raises(Beaten) as beaten:
        pipeline.find_ticket(ignore, rival)
    assert (beaten.value.bound, beaten.value.rows) == ((0.25,), 4)
    assert [stage.name for stage in pipeline.stages].count("attack") == 2
    assert all(later[0] <= earlier[0] for earlier, later in pairwise(seen)), "bounds only fall"
    again = sharded(2)
    outcome = again.find_ticket(ignore)
    attacks = [stage for stage in again.stages if stage.name == "attack"]
    assert [stage.cached for stage in attacks[:3]] == [True, True, False]
    assert outcome.attacks[0].accuracy_under_attack <= seen[-1][0]


@pytest.mark.integration
def test_a_ticket_that_no_rival_beats_is_measured_in_full(sharded):
    kept = sharded(4).find_ticket(ignore, lambda metrics: None)
    assert kept == sharded(4).find_ticket(ignore)
