"""Heat maps of masks, and mask training."""

from dataclasses import replace

import pytest

from tests.reports.pictures.conftest import LOOKS, MASKS, STARTS, TWIN_LOOKS, make_curve, make_evidence
from tune_tickets.reports.pictures.evidence import MaskDistances, NothingToDraw, Pattern
from tune_tickets.reports.pictures.masks import distance_figure, mask_figure, mask_trainings, pattern_figure
from tune_tickets.reports.pictures.subnetworks import (
    ood_panels,
    schedule_figure,
    schedules,
    start_figure,
    start_panels,
)


def test_a_pattern_shows_every_head_and_the_mlp_of_every_layer():
    heads, mlp = ((100.0, 0.0, 50.0), (25.0, 75.0, 100.0)), (70.0, 40.0)
    figure = pattern_figure([Pattern("t3", "earlyrobust", 4, heads, mlp, structured=True)])
    left, right, bar = figure.axes
    assert left.images[0].get_array().tolist() == [list(row) for row in heads]
    assert right.images[0].get_array().tolist() == [[70.0], [40.0]]
    assert [text.get_text() for text in left.texts] == ["100", "0", "50", "25", "75", "100"]
    assert (left.get_xlabel(), left.get_ylabel(), bar.get_ylabel()) == ("attention head", "layer", "surviving, %")
    assert [label.get_text() for label in left.get_xticklabels()] == ["1", "2", "3"]
    assert right.get_xlabel() == "neurons"
    assert "mean of 4 seeds" in left.get_title(loc="left")


def test_a_distance_matrix_shows_where_the_search_was_left():
    heads = ((0.0, 0.25, 0.5), (0.25, 0.0, 0.25), (0.5, 0.25, 0.0))
    found = MaskDistances("t0", "earlyrobust", heads, heads, 3, False, mini_epoch=0.05, gamma=0.1)
    figure = distance_figure([found])
    axes = [one for one in figure.axes if one.images]
    for one in axes:
        assert one.images[0].get_array().tolist() == [list(row) for row in heads]
        assert one.get_xlabel() == one.get_ylabel() == "mini-epoch (0.05 epoch each)"
        assert [3, 3] in [list(line.get_xdata()) for line in one.lines]
    assert "γ = 0.1, not reached" in axes[0].get_title()
    assert {one.get_ylabel() for one in figure.axes if one not in axes} == {"normalised mask distance"}
    assert figure.legends[0].get_texts()[0].get_text() == "stop: the ticket is drawn here"


def test_r_of_m_and_exact_masks_by_lambda():
    stronger = make_curve("masks", ("t1",), records=MASKS, **{"method.penalty": 0.5})
    weaker = make_curve("masks", records=MASKS[:2], **{"method.penalty": 0.1})
    figure = mask_figure(mask_trainings([stronger, weaker, weaker]))
    penalty, zero, one = figure.axes
    assert [line.get_label() for line in penalty.lines] == ["λ = 0.1", "λ = 0.5"]
    assert penalty.lines[1].get_ydata().tolist() == pytest.approx([0.8, 0.7, 0.6])
    assert zero.lines[0].get_xydata().tolist() == [[1, 10.0], [2, 20.0]]
    assert (zero.get_ylabel(), one.get_ylabel()) == ("masks exactly 0, %", "masks exactly 1, %")
    assert penalty.get_xlabel() == "epoch of the mask training"
    with pytest.raises(NothingToDraw, match="robustt"):
        mask_trainings([replace(weaker, own=False)])


def test_in_and_out_of_distribution_over_sparsity():
    inside, outside = ood_panels(make_evidence().measured)
    assert (inside[1], outside[1]) == ("clean accuracy, %", "hans (OOD), %")
    (line,) = outside[2]
    # s0 and s1 at 50%: 50 and 51; s2 and s3 at 70%: 52 and 53.
    assert [(one.x, one.mean) for one in line.spreads] == [(50.0, 50.5), (70.0, 52.5)]
    assert line.spreads[0].std == pytest.approx(0.5**0.5)


FIFTY = {"method.start.at": "steps", "method.start.steps": 50}
MASK_TRAININGS = [
    make_curve("srnets_masks", records=LOOKS, **STARTS),
    make_curve("srnets_masks", records=LOOKS, **STARTS, **FIFTY),
    make_curve("srnets_masks", records=LOOKS, **(STARTS | {"method.debiasing.loss": "poe"})),
]


def test_mask_trainings_are_told_apart_by_their_start():
    heading, drawn = start_panels(MASK_TRAININGS)
    figure = start_figure(heading, drawn)
    assert figure.get_suptitle() == "loss ce, 50% sparse"
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["fine-tuned to the end", "fine-tuned for 50 steps"]
    assert axes.lines[0].get_xydata().tolist() == [[25, 61], [50, 62], [75, 63]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step of the mask training", "clean accuracy, %")
    assert axes.get_title() == "in distribution"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [line.label for line in drawn[0][2]]
    with pytest.raises(NothingToDraw, match="srnets"):
        start_panels([])


def test_twins_have_panels_of_their_own_beside_the_mask_training():
    seed = tuple({"step": record["step"], "ood/hans": record["ood/hans"] + 4.0} for record in TWIN_LOOKS)
    followed = [
        make_curve("ood_curve", records=TWIN_LOOKS, **STARTS),
        make_curve("ood_curve", records=seed, **STARTS),
        make_curve("ood_curve", records=[{"step": 3, "ood/flipped": 9.0}], **STARTS, **FIFTY),
        make_curve("ood_curve", records=[{"step": 1, "ood/paws": 1.0}], **(STARTS | {"method.debiasing.loss": "poe"})),
    ]
    inside, hans, flipped = start_figure(*start_panels([*MASK_TRAININGS, *followed])).axes
    assert [axes.get_title() for axes in (inside, hans, flipped)] == [
        "in distribution",
        "out of distribution: hans",
        "out of distribution: flipped",
    ]
    assert (hans.get_ylabel(), flipped.get_ylabel()) == ("hans (OOD), %", "flipped (OOD), %")
    assert {axes.get_xlabel() for axes in (inside, hans, flipped)} == {"step of the mask training"}
    # Two trainings with this start: the mean, and one standard deviation of 42 and 46, 44 and 48, 46 and 50.
    assert hans.lines[0].get_xydata().tolist() == [[25, 44], [50, 46], [75, 48]]
    band = hans.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((44 - 8**0.5, 48 + 8**0.5))
    assert flipped.lines[0].get_xydata().tolist() == [[75, 9]]
    looks = {axes: axes.lines[0].get_color() for axes in (inside, hans, flipped)}
    assert looks[hans] == looks[inside] != looks[flipped] == inside.lines[1].get_color(), "one look for a start"


def test_fixed_and_gradual_sparsity_side_by_side():
    sparsity, found = schedules(make_evidence().measured)
    assert sparsity == 0.5
    assert found["fixed sparsity"] == {"clean": (70.0, 72.0), "ood/hans": (50.0, 52.0)}
    assert found["gradual increase"] == {"clean": (71.0, 73.0), "ood/hans": (51.0, 53.0)}
    (axes,) = schedule_figure(sparsity, found).axes
    assert sorted(bar.get_height() for bar in axes.patches) == [51.0, 52.0, 71.0, 72.0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["clean (ID)", "hans (OOD)"]
    assert axes.get_ylabel() == "accuracy, %"
    with pytest.raises(NothingToDraw, match="both fixed and gradual"):
        schedules([])
