"""Rows and threat models of a search as inputs and tags of its runs."""

import json

import pytest

from tests.tracking.conftest import make_control, make_trial
from tune_tickets.results.records import ThreatRecord
from tune_tickets.tracking.protocol import RowsRecord, SearchInputs

pytestmark = pytest.mark.integration

INPUTS = SearchInputs(
    (
        RowsRecord("reviews (train)", "train", "0123456789abcdef", "reviews.csv", 100, ("text",), ("neg", "pos")),
        RowsRecord("reviews (select)", "select", "f" * 64, "reviews.csv", 40, ("text",), ("neg", "pos")),
    ),
    (ThreatRecord(name="textfooler/minilm", fingerprint="f00d", resources={"neighbours": "minilm"}),),
)


def inputs_of(run):
    return {
        one.dataset.name: (one.dataset.digest, one.tags[0].value, json.loads(one.dataset.profile)["num_rows"])
        for one in run.inputs.dataset_inputs
    }


def test_parent_trials_and_controls_name_their_rows_and_threat_models(open_again, runs):
    tracker = open_again()
    tracker.log_inputs(INPUTS)
    tracker.start_trial("t0", 0, {"method.gamma": 0.1})
    tracker.log_control(make_control(), {})
    assert tracker.problems == ()
    for run in runs().values():
        assert inputs_of(run) == {
            "reviews (train)": ("0123456789abcdef", "train", 100),
            "reviews (select)": ("f" * 36, "select", 40),
        }
        assert run.data.tags["threat.textfooler/minilm"] == "f00d"


def test_inputs_are_not_doubled_by_a_resume(open_again, runs):
    for _ in range(2):
        tracker = open_again()
        tracker.log_inputs(INPUTS)
        tracker.start_trial("t0", 0, {})
        tracker.finish_trial(make_trial(0), {})
        assert tracker.problems == ()
    assert [len(run.inputs.dataset_inputs) for run in runs().values()] == [2, 2]
