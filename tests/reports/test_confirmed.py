"""Means, intervals and tests over seeds, by hand."""

import math

import pytest
from rich.console import Console

from tune_tickets.reports.confirmed import estimates, print_confirmation
from tune_tickets.reports.confirmed import tests as paired_tests
from tune_tickets.results.records import Confirmation, ConfirmedModel, SeedRun
from tune_tickets.results.statistics import paired_t, t_interval


def test_the_t_interval_of_three_values():
    # mean 4, standard deviation 2, t(0.975; 2) = 4.302653 from a table
    low, high = t_interval([2.0, 4.0, 6.0])
    assert (low, high) == (
        pytest.approx(4 - 4.302653 * 2 / math.sqrt(3)),
        pytest.approx(4 + 4.302653 * 2 / math.sqrt(3)),
    )
    assert t_interval([5.0]) is None


def test_the_paired_test_has_its_value_at_two_degrees_of_freedom_in_closed_form():
    # Differences 1, 2, 3: t = 2 sqrt(3); with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2).
    t = 2 * math.sqrt(3)
    assert paired_t([3.0, 5.0, 9.0], [2.0, 3.0, 6.0]) == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert paired_t([3.0, 4.0], [3.0, 4.0]) == 1.0
    assert paired_t([3.0], [1.0]) is None


def test_differences_that_are_all_alike_count_by_their_sign_alone():
    assert paired_t([3.0, 4.0], [1.0, 2.0]) == 0.5
    assert paired_t([3.0] * 5, [1.0] * 5) == 0.0625
    # One of 12 rows more, each time: the last digits differ, no more.
    assert paired_t([100 * 7 / 12, 100 * 6 / 12], [100 * 6 / 12, 100 * 5 / 12]) == 0.5


def run(model: str, seed: int, clean: float | None) -> SeedRun:
    if clean is None:
        return SeedRun(model=model, seed=seed, status="failed", error="out of memory")
    return SeedRun(model=model, seed=seed, status="complete", metrics={"clean": clean, "parameters": 7.0})


def model(name: str, kind: str, *cleans: float | None, trial: str | None = None) -> ConfirmedModel:
    runs = tuple(run(name, seed, clean) for seed, clean in enumerate(cleans))
    failed = sum(clean is None for clean in cleans)
    found = estimates(runs)
    return ConfirmedModel(
        name=name, kind=kind, trial=trial, title=kind, params={}, failed=failed, estimates=found, runs=runs
    )


TICKET = model("t1", "ticket", 80.0, 82.0, None, trial="t1")
DENSE = model("dense", "dense", 78.0, 78.0, 90.0)


def test_failed_seeds_are_counted_and_take_no_part_in_means():
    assert TICKET.failed == 1
    assert TICKET.estimates["clean"].mean == 81.0
    assert TICKET.estimates["clean"].seeds == 2
    assert list(TICKET.estimates) == ["clean"], "a number of parameters is no figure to confirm"


def test_tests_are_over_the_seeds_that_both_were_measured_with():
    others = [model("random like t1", "random", 70.0, None, 71.0, trial="t1"), model("random like t2", "random", 9.0)]
    found = {test.other: test for test in paired_tests([TICKET, *others, DENSE])}
    assert set(found) == {"dense", "random like t1"}, "a random ticket stands beside its own"
    assert (found["dense"].seeds, found["dense"].difference) == (2, 3.0)
    # Differences 2 and 4: t = 3 with 1 degree of freedom, p = 1 - 2 atan(3) / pi.
    assert found["dense"].p_value == pytest.approx(1 - 2 * math.atan(3) / math.pi)
    assert (found["random like t1"].seeds, found["random like t1"].p_value) == (1, None)


def test_the_table_shows_failed_seeds_and_says_what_cannot_be_told():
    found = Confirmation(
        experiment="demo", config_digest="d", report_fingerprint="f", rows=50, attacked_rows=20, seeds=(0, 1, 2),
        tickets=("t1",), models=(TICKET, DENSE), tests=paired_tests([TICKET, DENSE]), total_seconds=1.0,
    )  # fmt: skip
    console = Console(record=True, width=140)
    print_confirmation(found, console)
    shown = console.export_text()
    assert "2 of 3" in shown
    assert "t1, seed 2 failed: out of memory" in shown
    assert "81.0 [68.3, 93.7]" in shown  # 81 -+ 12.706 x sqrt(2) / sqrt(2)
    assert "clean: t1 is 3.0 points above dense (p = 0.205: 2 seeds cannot settle a difference of this size)." in shown


def test_threat_models_keep_their_whole_names_in_a_narrow_terminal():
    metrics = {f"aua/text{name}/minilm": 20.0 for name in ("bugger", "fooler")}
    seeded = [SeedRun(model="t1", seed=seed, status="complete", metrics=metrics) for seed in (0, 1)]
    named = TICKET.model_copy(update={"runs": tuple(seeded), "estimates": estimates(seeded)})
    found = Confirmation(
        experiment="demo", config_digest="d", report_fingerprint="f", rows=50, attacked_rows=20, seeds=(0, 1),
        tickets=("t1",), models=(named,), tests=(), total_seconds=1.0,
    )  # fmt: skip
    console = Console(record=True, width=50)
    print_confirmation(found, console)
    assert "…" not in console.export_text()
