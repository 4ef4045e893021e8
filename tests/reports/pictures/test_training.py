"""Curves of trainings."""

from dataclasses import replace

import pytest

from tests.reports.pictures.conftest import EPOCHS, THREAT, make_curve, make_epochs, make_evidence, make_measured
from tune_tickets.reports.pictures import draw_gallery
from tune_tickets.reports.pictures.evidence import Epochs, Evidence, NothingToDraw
from tune_tickets.reports.pictures.training import MOST_NAMED, attacked_epochs_figure, epoch_figure, loss_figure


def test_clean_and_probe_per_epoch_are_called_what_they_are():
    figure = epoch_figure(make_evidence())
    clean, probe = figure.axes
    assert clean.get_ylabel() == "clean accuracy, %"
    assert probe.get_ylabel() == "accuracy under the PGD probe, %"
    assert "stand-in" in probe.get_title()
    assert clean.get_xlabel() == probe.get_xlabel() == "epoch of retraining"
    lines = {line.get_label(): line.get_xydata().tolist() for line in probe.lines}
    assert lines["t0: earlyrobust"] == [[1, 32], [2, 34], [3, 36]]
    assert set(lines) == {"t0: earlyrobust", "dense: finetune"}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(lines)


def test_winner_and_dense_control_have_lines_of_their_own_the_rest_is_grey():
    others = [make_curve(models=(f"x{number}",), records=EPOCHS) for number in range(8)]
    last = [make_curve(models=("t1", "t2"), records=EPOCHS), make_curve(models=("dense",), records=EPOCHS)]
    figure = epoch_figure(make_evidence(curves=(*others, *last)))
    labels = [line.get_label() for line in figure.axes[0].lines if line.get_label()[0] != "_"]
    assert "t1, t2: earlyrobust, selected" in labels
    assert "dense: earlyrobust" in labels
    assert f"{10 - MOST_NAMED} more" in labels
    assert len(figure.axes[0].lines) == 10


def test_real_attacks_after_every_epoch_stand_with_their_intervals():
    figure = attacked_epochs_figure([make_epochs(), make_epochs("dense", "finetune", (5.0, 6.0))], "t1")
    clean, aua = figure.axes
    assert (clean.get_ylabel(), aua.get_ylabel()) == ("clean accuracy, %", f"accuracy under {THREAT}, %")
    lines = {line.get_label(): line for line in aua.lines if line.get_label()[0] != "_"}
    assert set(lines) == {"t1: earlyrobust, selected", "dense: finetune"}
    winner = lines["t1: earlyrobust, selected"]
    assert winner.get_xdata().round().tolist() == [1, 2, 3]
    assert winner.get_ydata().tolist() == [10.0, 20.0, 34.0]
    bars = [segment[:, 1].tolist() for bar in aua.collections for segment in bar.get_segments()]
    assert bars == [[6.0, 14.0], [16.0, 24.0], [30.0, 38.0], [1.0, 9.0], [2.0, 10.0]]


def picture(evidence):
    gallery = draw_gallery(evidence)
    found = [each for each in gallery.pictures if each.name == "epochs-attacked"]
    return found[0].caption if found else gallery.left_out["epochs-attacked"]


def test_attacks_after_every_epoch_go_before_trials_of_more_and_fewer_epochs():
    longer = make_measured("t1", 84.0, 34.0, settings={"retraining.epochs": 5})
    trials = (make_measured("t0", 86.0, 30.0), longer)
    assert "after every epoch" in picture(Evidence(trials, epochs=(make_epochs(),)))
    assert "for fewer epochs" in picture(Evidence(trials))
    as_it_is = Epochs("t0", "srnets", (), left_out="it was not trained")
    assert "for fewer epochs" in picture(Evidence(trials, epochs=(as_it_is,)))
    assert picture(Evidence(trials[:1], epochs=(as_it_is,))) == (
        "retraining.epochs has fewer than two values among the measured trials; t0: it was not trained"
    )


def test_every_kind_of_training_has_a_panel_for_its_loss():
    figure = loss_figure(make_evidence())
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["mask training (RobustT)", "mask training (SRNets)", "retraining"]
    retraining = figure.axes[-1]
    assert retraining.lines[0].get_ydata().tolist() == pytest.approx([1.0, 1 / 2, 1 / 3])
    assert all(axes.get_ylabel() == "mean training loss" and axes.get_xlabel() for axes in figure.axes)
    assert all(axes.get_legend().get_texts() for axes in figure.axes)


def test_looks_between_epochs_are_no_epochs():
    looks = ({"step": 10.0, "look": 50.0}, *EPOCHS)
    figure = epoch_figure(make_evidence(curves=(make_curve(records=looks),)))
    assert figure.axes[0].lines[0].get_xdata().tolist() == [1, 2, 3]


def test_no_curves_no_picture_and_those_of_other_seeds_are_not_drawn_as_trials_of_this_search():
    for curves in ((), (replace(make_curve(records=EPOCHS), own=False),)):
        for draw in (epoch_figure, loss_figure):
            with pytest.raises(NothingToDraw):
                draw(make_evidence(curves=curves))
