"""All pictures of a search: order, reasons, files, and that the same evidence gives the same bytes."""

import colorsys
import io
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.legend import Legend
from PIL import Image

from tests.reports.pictures.conftest import EPOCHS, make_curve, make_evidence, make_measured
from tune_tickets.reports.pictures import draw_gallery, drawing, save_pictures
from tune_tickets.reports.pictures.evidence import Evidence
from tune_tickets.reports.pictures.style import LOOKS, house_style, saved_pictures

NAMES = [
    "front",
    "sparsity-heads",
    "sparsity-neurons",
    "sparsity-weights",
    "patterns",
    "mask-distances",
    "gamma",
    "mask-training",
    "ood-sparsity",
    "mask-start",
    "mask-schedule",
    "epochs",
    "epochs-attacked",
    "losses",
    "importance",
    "parallel",
    "examples",
]


@pytest.fixture(scope="module")
def gallery():
    return draw_gallery(make_evidence())


def test_a_full_search_has_every_picture(gallery):
    assert [picture.name for picture in gallery.pictures] == NAMES
    assert (gallery.left_out, gallery.failed) == ({}, {})


def beyond(figure):
    """Return headings, labels and legends that are not completely inside the picture."""
    figure.draw_without_rendering()
    parts = [each.get_texts() for each in figure.findobj(Legend)]
    parts += [(axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts) for axes in figure.axes]
    left, bottom, right, top = figure.bbox.extents
    boxes = [(text.get_text(), text.get_window_extent()) for part in parts for text in part if text.get_text().strip()]
    return [text for text, box in boxes if min(box.x0 - left, box.y0 - bottom, right - box.x1, top - box.y1) < 0]


@pytest.mark.parametrize("plan", drawing.PLANS, ids=lambda plan: plan.name)
def test_no_text_is_cut_off_when_there_are_several_attacks_and_many_trials(plan):
    threats = ("textfooler/minilm", "textbugger/minilm", "bae-counterfitted")
    trials = tuple(
        make_measured(
            f"t{number:03}",
            80.0 + number,
            30.0,
            title="earlyrobust + FreeLB + InfoBERT",
            threats=threats,
            cut=20.0 + number,
            params={"method.gamma": number / 10, "method.drawing.heads": 1 / 6},
            settings={"method.gamma": number / 10, "retraining.epochs": number},
        )
        for number in range(1, 9)
    )
    curves = tuple(make_curve(models=(trial.name,), title=trial.title, records=EPOCHS) for trial in trials)
    full = make_evidence()
    evidence = replace(full, measured=(*trials, *full.measured), curves=(*curves, *full.curves))
    with house_style():
        assert beyond(plan.figure(evidence)) == []


def test_pictures_are_vector_with_real_text_and_pixels(gallery):
    for picture in gallery.pictures:
        root = ElementTree.fromstring(picture.svg)
        words = "".join(text for node in root.iter() if node.tag.endswith("}text") for text in node.itertext())
        assert len(words) > 10, picture.name
        assert b"<dc:date>" not in picture.svg
        width, height = Image.open(io.BytesIO(picture.png)).size
        assert min(width, height) > 150
        assert picture.title
        assert picture.caption.endswith(".")


def test_the_same_evidence_gives_the_same_bytes(gallery):
    again = {picture.name: picture for picture in draw_gallery(make_evidence()).pictures}
    assert all(again[picture.name] == picture for picture in gallery.pictures)


def test_nothing_of_matplotlib_is_changed_for_others():
    before = dict(matplotlib.rcParams)
    draw_gallery(Evidence((), examples=make_evidence().examples))
    assert dict(matplotlib.rcParams) == before


def test_an_empty_search_has_a_reason_for_every_picture():
    found = draw_gallery(
        Evidence((), missing={"importances": "only 2 trials are complete", "patterns": "store is gone"})
    )
    assert found.pictures == ()
    assert found.failed == {}
    assert list(found.left_out) == NAMES
    assert found.left_out["importance"] == "only 2 trials are complete"
    assert found.left_out["patterns"] == "store is gone"
    assert "no trial was measured under attack" in found.left_out["front"]


def test_a_picture_that_fails_costs_no_other(monkeypatch):
    def broken(evidence):
        raise ZeroDivisionError("what nobody thought of")

    monkeypatch.setattr(drawing, "PLANS", (drawing.Plan("front", "t", "c", broken), drawing.PLANS[-1]))
    found = draw_gallery(make_evidence())
    assert found.failed == {"front": "ZeroDivisionError: what nobody thought of"}
    assert [picture.name for picture in found.pictures] == NAMES[-1:]


def test_files_replace_those_of_an_earlier_drawing(gallery, tmp_path):
    save_pictures(gallery.pictures, tmp_path)
    first, *_ = gallery.pictures
    files = save_pictures([first], tmp_path, {"gamma": "one value only"})
    names = ["front.png", "front.svg", "index.json", "left_out.txt"]
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == names
    assert files["pictures/front.svg"].read_bytes() == first.svg
    assert (tmp_path / "pictures/left_out.txt").read_text(encoding="utf-8") == "gamma: one value only\n"


def test_files_are_pictures_again_with_titles_and_captions_unless_some_are_gone(gallery, tmp_path):
    files = save_pictures(gallery.pictures, tmp_path)
    assert saved_pictures(tmp_path) == gallery.pictures
    files["pictures/front.png"].unlink()
    assert saved_pictures(tmp_path) == ()


def test_series_differ_in_lightness_marker_and_line():
    lightness = []
    for look in LOOKS:
        red, green, blue = (int(look.colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
        lightness.append(colorsys.rgb_to_yiq(red, green, blue)[0])
    assert all(later - earlier > 0.07 for earlier, later in pairwise(lightness))
    assert len({look.marker for look in LOOKS}) == len({str(look.line) for look in LOOKS}) == len(LOOKS)
