"""Which tickets get random controls, how these are named, and that only the winner's are compared with it."""

import pytest
import torch

from tests.reports.conftest import make_attack, make_outcome, make_trial
from tests.search.test_gallery import Folder
from tune_tickets.config import load_experiment
from tune_tickets.results.records import ControlRecord
from tune_tickets.search import controls as random_controls
from tune_tickets.search.closing import close_search
from tune_tickets.search.controls import matched
from tune_tickets.search.trainable import TrialContext
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import UnstructuredMask

TWO_AND_ONE, ONE_AND_TWO = [[1, 1, 0], [1, 0, 0]], [[0, 1, 0], [1, 0, 1]]
"""Heads of two layers: as many in all, other counts per layer."""
SEARCHED = "method={kind: {choice: [earlyrobust, random]}}"


class Drawn(Folder):
    """A folder whose trials have masks."""

    def trial(self, number, heads=TWO_AND_ONE, mask=None, **changes):
        mask = mask or StructuredMask(torch.tensor(heads).bool(), torch.ones(2, 4, dtype=torch.bool))
        record = {"structured": isinstance(mask, StructuredMask)}
        drawn = self.keep("draw", {"mask": number}, {"mask.safetensors": mask.to_bytes()}, record)
        outcome = make_outcome(attacks=[make_attack(aua=30.0)])
        outcome = outcome.model_copy(update={"draw_digest": drawn.digest, "mask": f"m{number}"})
        fields = {"params": {"method.kind": "earlyrobust"}, "outcome": outcome}
        return make_trial(number, **fields | {"metrics": outcome.metrics()} | changes)

    def like(self, which, trials, *overrides):
        experiment = load_experiment(self.yaml, [SEARCHED, f"controls.random_of={which}", *overrides])
        return [trial.id for trial in matched(experiment, trials, self.store)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "x.yaml").write_text("controls: {random: true}\n", encoding="utf-8")
    found = Drawn(tmp_path / "x.yaml", tmp_path / "out")
    found.yaml = tmp_path / "x.yaml"
    return found


def test_the_winner_alone_its_front_or_all_get_random_tickets(folder):
    worse = make_outcome(60.0, attacks=[make_attack(aua=10.0)]).metrics()
    barred = folder.trial(2, [[1, 1, 1], [1, 0, 0]], feasible=False)
    trials = [
        folder.trial(0, ONE_AND_TWO, metrics=worse),
        folder.trial(1, TWO_AND_ONE),
        barred,
        make_trial(3, status="pruned", outcome=None, params={"method.kind": "earlyrobust"}),
    ]
    assert folder.like("winner", trials) == ["t1"]
    assert folder.like("front", trials) == ["t1"]
    assert folder.like("all", trials) == ["t1", "t0", "t2"], "the winner first, also what may not win, nothing pruned"


def test_equal_counts_in_every_layer_get_random_tickets_once(folder):
    turned = [[0, 1, 1], [0, 0, 1]]
    trials = [folder.trial(0, turned), folder.trial(1, TWO_AND_ONE), folder.trial(2, ONE_AND_TWO)]
    assert folder.like("all", trials) == ["t2", "t1"], "t0 keeps two heads and one, like the better t1"


def test_single_weights_are_counted_by_matrix(folder):
    masks = [UnstructuredMask({"a": torch.tensor(a).bool(), "b": torch.tensor(b).bool()}) for a, b in WEIGHTS]
    trials = [folder.trial(number, mask=mask) for number, mask in enumerate(masks)]
    assert folder.like("all", trials) == ["t2", "t1"]


WEIGHTS = (([1, 0, 0], [1, 1, 0]), ([0, 0, 1], [1, 0, 1]), ([1, 1, 0], [1, 0, 0]))


def test_random_and_ablated_tickets_need_no_random_ones_unless_they_win(folder):
    random = folder.trial(0, ONE_AND_TWO, params={"method.kind": "random"})
    found = folder.trial(1, TWO_AND_ONE)
    assert folder.like("all", [random, found]) == ["t1"]
    assert folder.like("all", [folder.trial(2, [[1, 0, 0]] * 2, params={"method.kind": "random"}), found]) == [
        "t2",
        "t1",
    ]
    assert folder.like("all", [random, found], "ablation.weights=reinitialised") == ["t1"]
    winner = folder.trial(3, TWO_AND_ONE, params={"method.kind": "random"})
    assert folder.like("all", [found, winner]) == ["t3", "t1"], "random ones like the winner are no match for t1"


class FakePipeline:
    def __init__(self, settings, world, runner) -> None:
        self.settings, self.stages = settings, []

    def random_control(self, like, seed, on_record, others):
        return make_outcome().model_copy(update={"mask": f"{like.content}/{seed}"})


def test_a_random_ticket_is_named_after_its_trial_unless_that_has_won(folder, monkeypatch):
    monkeypatch.setattr(random_controls, "Flow", FakePipeline)
    settings = ["controls.random_of=all", "controls.random_seeds=2", SEARCHED]
    context = TrialContext(load_experiment(folder.yaml, settings), None, folder.results.store_url, "broker")
    trials = [folder.trial(0, ONE_AND_TWO), folder.trial(1, TWO_AND_ONE), folder.trial(2, [[1, 0, 0]] * 2)]
    found = random_controls.random_controls(context, None, trials, lambda event: None, lambda: False)
    names = ["random-0", "random-1", "random-t1-0", "random-t0-0", "random-t1-1", "random-t0-1"]
    assert [control.name for control in found] == names, "every ticket has one before any has its second"
    assert [control.outcome.mask for control in found] == ["m2/0", "m2/1", "m1/0", "m0/0", "m1/1", "m0/1"]


def test_the_winner_is_compared_with_its_own_random_tickets_alone(folder):
    trial = folder.trial(0)
    controls = [
        ControlRecord(kind="random", seed=0, like=like, outcome=trial.outcome, stages=()) for like in (None, "t1")
    ]
    summary = close_search(folder.experiment, (), folder.results, [trial, folder.trial(1)], controls, "finished", 1.0)
    assert {comparison.other for comparison in summary.selected.comparisons} == {"random-0", "the next in rank, t0"}
