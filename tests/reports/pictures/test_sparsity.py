"""Clean accuracy and Aua over sparsity, γ, and in and out of distribution."""

import pytest

from tests.reports.pictures.conftest import DENSE, RANDOM, THREAT, make_confirmation, make_evidence, make_measured
from tune_tickets.reports.pictures.evidence import Evidence, NothingToDraw
from tune_tickets.reports.pictures.sparsity import (
    CUT,
    epochs_figure,
    gamma_figure,
    series_figure,
    sparsity_panels,
    spreads,
)


def lines_of(axes):
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines if line.get_label()[0] != "_"}


def test_values_at_one_place_become_a_mean_and_a_standard_deviation():
    first, second = spreads([(30.0, 10.0), (10.0, 5.0), (30.0, 14.0), (30.0, 12.0)])
    assert (first.x, first.mean, first.std) == (10.0, 5.0, 0.0)
    assert (second.x, second.mean, second.std) == (30.0, 12.0, 2.0)  # of 10, 12, 14


def test_small_values_keep_their_places():
    assert [spread.x for spread in spreads([(1e-5, 1.0), (2e-5, 1.0)])] == [1e-5, 2e-5]


def test_tickets_against_random_ones_and_the_dense_control():
    models = (
        make_measured("t0", 86.0, 30.0, cut=20.0),
        make_measured("t1", 84.0, 34.0, cut=40.0),
        make_measured("t2", 80.0, 30.0, cut=40.0),
        make_measured("p", 85.0, 33.0, cut=0.0, title="PGD", settings={"method.kind": "finetune"}),
        DENSE,
        RANDOM,
    )
    panels = sparsity_panels(Evidence(models), "neurons")
    figure = series_figure(panels, CUT["neurons"], columns=2)
    clean, aua = figure.axes
    assert clean.get_xlabel() == aua.get_xlabel() == "intermediate neurons cut, %"
    assert (clean.get_ylabel(), aua.get_ylabel()) == ("clean accuracy, %", f"accuracy under {THREAT}, %")
    assert lines_of(clean)["earlyrobust"] == [[20.0, 86.0], [40.0, 82.0]]
    assert lines_of(clean)["random tickets"] == [[30.0, 80.0]]
    assert {y for _, y in lines_of(aua)["dense control"]} == {12.0}
    assert "PGD" not in lines_of(aua), "a whole model has no place on this axis"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["earlyrobust", "random tickets", "dense control"]


def test_random_tickets_like_every_trial_are_a_line():
    like = [make_measured(f"random-t{n}-0", 80.0 - n, 14.0, kind="random", title="random", cut=cut) for n, cut in CUTS]
    tickets = [make_measured(f"t{n}", 86.0 - n, 30.0, cut=cut) for n, cut in CUTS]
    clean = series_figure(sparsity_panels(Evidence((*tickets, *like)), "heads"), CUT["heads"], columns=2).axes[0]
    assert lines_of(clean)["random tickets"] == [[20.0, 80.0], [40.0, 79.0]]


CUTS = ((0, 20.0), (1, 40.0))


def test_once_confirmed_every_seed_counts_on_report_rows():
    confirmation = make_confirmation({"t0": [30.0, 32.0, 34.0], "random like t0": [20.0, 24.0]}, f"aua/{THREAT}")
    models = (make_measured("t0", 86.0, 30.0, cut=20.0), make_measured("t1", 84.0, 34.0, cut=40.0))
    panels = sparsity_panels(Evidence(models, confirmation=confirmation), "heads")
    heading, label, (tickets, random) = panels[-1]
    assert heading == "confirmed: report rows, 3 seeds"
    assert label == f"accuracy under {THREAT}, %"
    assert [(one.x, one.mean, one.std) for one in tickets.spreads] == [(20.0, 32.0, 2.0)]
    assert random.spreads[0].values == (20.0, 24.0)


def test_no_axis_goes_below_zero_percent():
    models = [make_measured(f"t{number}", 60.0, aua, cut=cut) for number, (aua, cut) in enumerate([(0, 20), (9, 20)])]
    models.append(make_measured("t2", 60.0, 4.0, cut=40.0))
    _, aua = series_figure(sparsity_panels(Evidence(tuple(models)), "heads"), CUT["heads"], columns=2).axes
    assert aua.get_ylim()[0] == 0.0, "4.5 less the deviation of 0 and 9 is below"


@pytest.mark.parametrize(
    ("models", "why"),
    [
        ((DENSE,), "no ticket was cut in its heads"),
        ((make_measured("t0", 86.0, 30.0), RANDOM), "the same share of heads"),
    ],
)
def test_nothing_to_compare_is_no_picture(models, why):
    with pytest.raises(NothingToDraw, match=why):
        sparsity_panels(Evidence(models), "heads")


def test_aua_over_gamma():
    models = [
        make_measured(f"t{number}", 80.0, aua, settings={"method.gamma": gamma})
        for number, (gamma, aua) in enumerate([(0.05, 30.0), (0.1, 28.0), (0.1, 32.0)])
    ]
    figure = gamma_figure(models)
    (axes,) = figure.axes
    assert axes.get_xlabel().startswith("γ")
    assert axes.get_ylabel() == f"accuracy under {THREAT}, %"
    assert lines_of(axes)["earlyrobust"] == [[0.05, 30.0], [0.1, 30.0]]
    with pytest.raises(NothingToDraw, match="fewer than two values"):
        gamma_figure(models[1:])


def test_real_attacks_over_the_epochs_of_retraining():
    models = [
        make_measured(f"t{epochs}", 70.0 + epochs, 20.0 + 2 * epochs, settings={"retraining.epochs": epochs})
        for epochs in (1, 2, 4)
    ]
    clean, aua = epochs_figure([*models, DENSE]).axes
    assert clean.get_xlabel() == "epochs of retraining"
    assert (clean.get_ylabel(), aua.get_ylabel()) == ("clean accuracy, %", f"accuracy under {THREAT}, %")
    assert lines_of(clean)["earlyrobust"] == [[1, 71], [2, 72], [4, 74]]
    assert lines_of(aua)["earlyrobust"] == [[1, 22], [2, 24], [4, 28]]
    with pytest.raises(NothingToDraw, match=r"retraining\.epochs has fewer than two values"):
        epochs_figure(models[:1])


def test_the_pictures_of_the_evidence_are_those_of_its_kinds():
    assert len(sparsity_panels(make_evidence(), "weights")) == 2, "only SRNets cut weights, and none is confirmed"
