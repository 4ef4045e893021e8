"""The data of pictures, read from real stores and databases that were filled by hand."""

import optuna
import pytest
import torch

from tests.reports.conftest import make_attack, make_outcome, make_summary, make_trial, make_twin
from tests.stages import Stage
from tune_tickets.attacks.records import AttackRecord, write_parquet
from tune_tickets.config import load_experiment
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.reports import gallery
from tune_tickets.reports.gallery import draw_pictures, gather
from tune_tickets.reports.pictures import draw_gallery
from tune_tickets.results.folder import place_results
from tune_tickets.results.records import (
    Confirmation,
    ConfirmedModel,
    ControlRecord,
    EpochFigures,
    EpochsRecord,
    SeedRun,
    StageRecord,
    TransferFigures,
)
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.mask import StructuredMask

POINT = {"method.gamma": 0.2, "method.drawing.heads": 0.25, "method.drawing.neurons": 0.5}
KEPT = torch.tensor([[True, True, True, False], [True, True, True, False]])
OTHER = torch.tensor([[True, True, False, True], [True, True, True, False]])
NEURONS = torch.tensor([[True, False], [True, True]])


class Folder:
    """A results folder with a store, filled stage by stage."""

    def __init__(self, yaml, path):
        self.experiment = load_experiment(yaml)
        self.results = place_results(self.experiment, path)
        self.results.open(self.experiment)
        self.store = Store(self.results.store_url)

    def keep(self, name, inputs, files=(), record=None, history=(), goal=None, upstream=None):
        stage = Stage(name, inputs, upstream or {}, goal)
        attempt = self.store.begin(stage)
        for file, content in dict(files).items():
            attempt.put(file, content)
        for entry in history:
            attempt.report(entry)
        attempt.finish(record or {}, seconds=1.0)
        return StageRecord(name=name, digest=stage.digest, cached=False, seconds=1.0)

    def keep_mask(self, heads, number=0):
        content = StructuredMask(heads, NEURONS).to_bytes()
        return self.keep("draw", {"mask": number}, {"mask.safetensors": content}, {"structured": True})


@pytest.fixture
def folder(tiny_yaml, tmp_path):
    return Folder(tiny_yaml, tmp_path / "out")


def make_measured_trial(folder, number=0, heads=KEPT, params=POINT, stages=(), **outcome):
    drawn = folder.keep_mask(heads, number)
    measured = make_outcome(**outcome).model_copy(update={"draw_digest": drawn.digest, "retrain_digest": "r"})
    return make_trial(number, params=params, outcome=measured, stages=(drawn, *stages))


def test_trials_and_controls_are_measured_with_their_settings(folder):
    pruned = make_trial(1, status="pruned", outcome=None, params=POINT)
    twin = make_twin()
    trial = make_measured_trial(folder, attacks=[make_attack(aua=30.0)], ood=[twin])
    found = gather(folder.results, make_summary([trial, pruned]))
    measured, dense = found.measured
    assert (measured.name, measured.kind, dense.kind) == ("t0", "trial", "dense")
    assert measured.metrics["aua"] == 30.0
    assert measured.metrics["ood/hans"] == 50.0
    assert measured.settings["method.gamma"] == 0.2
    assert measured.settings["retraining.epochs"] == 8
    assert found.selected == "t0"
    assert {axis.name: axis.choices for axis in found.axes} == {
        "method.gamma": (0.2, 0.4),
        "method.drawing.heads": (0.25, 0.375),
        "method.drawing.neurons": None,
    }


def test_figures_on_further_tasks_are_kept_apart(folder):
    trial = make_measured_trial(folder, attacks=[make_attack(aua=30.0)])
    there = TransferFigures(name="qnli", outcome=make_outcome(attacks=[make_attack(aua=12.0)]), stages=())
    trial = trial.model_copy(update={"outcome": trial.outcome.model_copy(update={"transfers": (there,)})})
    measured, dense = gather(folder.results, make_summary([trial])).measured
    assert (measured.metrics["aua"], measured.tasks["qnli"]["aua"], dense.tasks) == (30.0, 12.0, {})


def test_epochs_attacked_are_taken_from_the_summary(folder):
    figures = [make_outcome(clean, attacks=[make_attack(aua=30.0)]) for clean in (70.0, 80.0)]
    epochs = tuple(
        EpochFigures(epoch=number, clean=one.clean, attacks=one.attacks) for number, one in enumerate(figures, start=1)
    )
    records = (EpochsRecord(model="t0", title="robustt", epochs=epochs), EpochsRecord(model="dense", left_out="why"))
    winner, dense = gather(folder.results, make_summary([make_measured_trial(folder)], epochs=records)).epochs
    assert (winner.model, winner.title, [one["clean"] for one in winner.metrics]) == ("t0", "robustt", [70.0, 80.0])
    assert (dense.metrics, dense.left_out) == ((), "why")


def test_random_controls_become_one_pattern_over_their_seeds(folder):
    trial = make_measured_trial(folder)
    controls = []
    for seed, heads in enumerate((KEPT, OTHER, OTHER)):
        drawn = folder.keep_mask(heads, 10 + seed)
        outcome = make_outcome().model_copy(update={"draw_digest": drawn.digest})
        controls.append(ControlRecord(kind="random", seed=seed, outcome=outcome, stages=()))
    other = folder.keep_mask(~KEPT, 20)  # like another trial: other counts
    outcome = make_outcome().model_copy(update={"draw_digest": other.digest})
    controls.append(ControlRecord(kind="random", seed=0, like="t1", outcome=outcome, stages=()))
    winner, random = gather(folder.results, make_summary([trial], controls=tuple(controls))).patterns
    assert (winner.name, winner.tickets, winner.structured) == ("t0", 1, True)
    assert winner.heads == ((100.0, 100.0, 100.0, 0.0), (100.0, 100.0, 100.0, 0.0))
    assert winner.mlp == (50.0, 100.0)
    assert random.tickets == 3
    assert random.heads[0] == pytest.approx((100.0, 100.0, 100 / 3, 200 / 3))


def test_a_point_that_was_drawn_twice_is_no_second_seed(folder):
    first = make_measured_trial(folder)
    again = first.model_copy(update={"id": "t1", "number": 1})
    (winner,) = gather(folder.results, make_summary([first, again])).patterns
    assert (winner.name, winner.tickets) == ("t0", 1)


def test_the_random_tickets_of_a_confirmation_join_the_mean(folder):
    trial = make_measured_trial(folder)
    runs = []
    for seed, heads in enumerate((KEPT, OTHER)):
        drawn = folder.keep_mask(heads, 20 + seed)
        above = {"draw": StageKey("draw", drawn.digest, drawn.digest)}
        trained = folder.keep("retrain", {"seed": seed}, upstream=above)
        runs.append(SeedRun(model="r", seed=seed, status="complete", retrain_digest=trained.digest))
    model = ConfirmedModel(
        name="r", kind="random", trial="t0", title="random", params={}, failed=0, estimates={}, runs=tuple(runs)
    )
    confirmation = Confirmation(
        experiment="tiny",
        config_digest="d",
        report_fingerprint="f",
        rows=8,
        attacked_rows=4,
        seeds=(1, 2),
        tickets=("t0",),
        models=(model,),
        tests=(),
        total_seconds=1.0,
    )
    folder.results.confirmation.write_text(confirmation.model_dump_json(), encoding="utf-8")
    found = gather(folder.results, make_summary([trial]))
    assert found.confirmation == confirmation
    assert found.patterns[-1].heads[0] == (100.0, 100.0, 50.0, 50.0)


def test_the_same_experiment_with_other_seeds_gives_means_over_seeds(folder, tiny_yaml, tmp_path):
    beside = Folder(tiny_yaml, tmp_path / "seed-1")
    summary, other = (
        make_summary([make_measured_trial(one, heads=heads)], seed=seed)
        for seed, (one, heads) in enumerate(((folder, KEPT), (beside, OTHER)))
    )
    found = gather(folder.results, summary, [(beside.results, other)])
    assert [(one.name, one.seed, one.own) for one in found.measured if one.kind == "trial"] == [
        ("t0", 0, True),
        ("t0", 1, False),
    ]
    assert found.patterns[0].tickets == 2
    assert found.patterns[0].heads[0] == (100.0, 100.0, 50.0, 50.0)


def test_distances_are_those_of_the_masks_of_every_two_mini_epochs(folder):
    # A quarter of 8 heads is cut, half of 4 neurons: the smallest scores.
    heads = torch.tensor(
        [[[1.0, 2, 3, 4], [5, 6, 7, 8]], [[9.0, 9, 3, 4], [5, 6, 7, 8]], [[9.0, 9, 3, 4], [5, 6, 7, 8]]]
    )
    neurons = torch.tensor([[[1.0, 2], [3, 4]], [[1.0, 2], [3, 4]], [[4.0, 3], [2, 1]]])
    goal = folder.experiment.at(POINT).method.stop_rule()
    record = {"stop": 3, "converged": True}
    files = {"trajectory.safetensors": Trajectory(heads, neurons).to_bytes()}
    history = [{"step": number, "loss": 1.0 / number} for number in (1, 2, 3)]
    stage = folder.keep("search", {"a": 1}, files, record, history, goal)
    found = gather(folder.results, make_summary([make_measured_trial(folder, stages=(stage,))]))
    (one,) = found.distances
    # Cut at first: heads 1 and 2 of layer 1; then heads 3 and 4: 4 of 8 differ.
    assert one.heads == ((0.0, 0.5, 0.5), (0.5, 0.0, 0.0), (0.5, 0.0, 0.0))
    assert one.neurons == ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0))
    assert (one.stop, one.converged, one.gamma, one.mini_epoch) == (3, True, 0.2, 0.125)
    (curve,) = found.curves
    assert (curve.stage, curve.models) == ("search", ("t0",))
    assert [entry["loss"] for entry in curve.records] == pytest.approx([1, 1 / 2, 1 / 3])


def test_trials_share_curves_and_a_first_retraining_is_a_fine_tuning(folder):
    epochs = [{"epoch": 1, "step": 1, "loss": 0.5, "clean": 70.0, "probe": 30.0}]
    finetuned, own, other = (folder.keep("retrain", {"number": n}, history=epochs) for n in range(3))
    masks = folder.keep("masks", {"a": 1}, history=[{"step": 1, "penalty": 0.9, "masks_zero": 1.0, "masks_one": 2.0}])
    trials = [make_measured_trial(folder, 0, stages=(finetuned, masks, own))]
    trials.append(make_measured_trial(folder, 1, stages=(finetuned, masks, other)))
    found = gather(folder.results, make_summary(trials)).curves
    assert [(curve.stage, curve.models) for curve in found] == [
        ("finetuning", ("t0", "t1")),
        ("masks", ("t0", "t1")),
        ("retrain", ("t0",)),
        ("retrain", ("t1",)),
    ]


def test_looks_on_a_twin_are_a_curve_and_those_of_other_seeds_are_marked(folder, tiny_yaml, tmp_path):
    beside = Folder(tiny_yaml, tmp_path / "seed-1")
    summaries = []
    for seed, place in enumerate((folder, beside)):
        followed = place.keep("ood_curve", {"seed": seed}, history=[{"step": 1, "ood/hans": 50.0 + seed}])
        summaries.append(make_summary([make_measured_trial(place, stages=(followed,))], seed=seed))
    found = gather(folder.results, summaries[0], [(beside.results, summaries[1])]).curves
    assert [(curve.stage, curve.own, curve.records) for curve in found] == [
        ("ood_curve", True, ({"step": 1.0, "ood/hans": 50.0},)),
        ("ood_curve", False, ({"step": 1.0, "ood/hans": 51.0},)),
    ]
    assert gather(folder.results, summaries[0]).curves == found[:1]


@pytest.mark.parametrize(
    ("titles", "shown"),
    [
        (("srnets, PoE pruned", "srnets"), "srnets"),
        (("imp, FreeLB rounds", "imp, FreeLB rounds + PGD"), "imp, FreeLB rounds"),
        (("robustt", "imp"), "several methods"),
    ],
)
def test_a_shared_curve_is_called_what_all_of_its_models_are(folder, titles, shown):
    finetuned = folder.keep("retrain", {"number": 0}, history=[{"epoch": 1, "step": 1, "loss": 0.5}])
    rest = folder.keep("retrain", {"number": 1})
    trials = [make_measured_trial(folder, number, stages=(finetuned, rest)) for number in range(2)]
    trials = [trial.model_copy(update={"title": title}) for trial, title in zip(trials, titles, strict=True)]
    (curve,) = gather(folder.results, make_summary(trials)).curves
    assert (curve.models, curve.title) == (("t0", "t1"), shown)


def test_a_trial_that_was_ended_early_has_its_curve_as_far_as_it_got(folder):
    stage = Stage("retrain", {"a": 1})
    folder.store.begin(stage).report({"epoch": 1, "step": 1, "loss": 0.5, "clean": 60.0, "probe": 20.0})
    record = StageRecord(name="retrain", digest=stage.digest, cached=False, seconds=1.0)
    pruned = make_trial(0, status="pruned", outcome=None, params=POINT, stages=(record,))
    (curve,) = gather(folder.results, make_summary([pruned], selected=None)).curves
    assert curve.records[0]["clean"] == 60.0


def test_attacked_texts_of_the_winner(folder, tmp_path):
    changed = AttackRecord(4, "successful", 9, 50.0, 0.9, ("a good film",), ("a fine film",), 1, 1, 0)
    failed = AttackRecord(2, "failed", 9, 50.0, 0.9, ("a bad film",), ("a poor film",), 0, 0, 0)
    skipped = AttackRecord(1, "skipped", 0, 0.0, None, ("the plot",), ("the plot",), 0, 1, 1)
    write_parquet([changed, failed, skipped], tmp_path / "a.parquet")
    files = {"attacked.parquet": (tmp_path / "a.parquet").read_bytes()}
    stage = folder.keep("attack", {"a": 1}, files, {"threat": "textbugger/minilm"})
    found = gather(folder.results, make_summary([make_measured_trial(folder, stages=(stage,))])).examples
    assert [(one.row, one.successful, one.before, one.after) for one in found] == [
        (4, True, "label 1", "label 0"),
        (2, False, "label 0", "label 0"),
    ]
    assert found[0].pieces == (("a ", "a "), ("good", "fine"), (" film", " film"))


def make_study(folder, points, digest="digest"):
    storage = optuna.storages.RDBStorage(f"sqlite:///{folder.results.optuna}")
    study = optuna.create_study(storage=storage, study_name=f"tiny-{digest}", direction="maximize")
    spread = optuna.distributions.FloatDistribution(0.0, 1.0)
    for point, value in points:
        study.add_trial(
            optuna.trial.create_trial(params=point, distributions=dict.fromkeys(point, spread), value=value)
        )


def test_what_the_objective_depends_on_is_found_important(folder):
    grid = [(x / 4, y / 4) for x in range(5) for y in range(5)]
    make_study(folder, [({"method.gamma": x, "method.drawing.neurons": y}, 10 * x + y / 10) for x, y in grid])
    found = gather(folder.results, make_summary([make_measured_trial(folder)])).importances["objective"]
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["method.gamma"] > 0.9


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ([({"a": 0.1}, 1.0)] * 3, "only 3 trials are complete"),
        ([({"a": 0.1 * n}, 1.0) for n in range(5)], "the same objective"),
        ([({"a": 0.1}, float(n)) for n in range(5)], "no setting"),
    ],
)
def test_importances_that_mean_nothing_are_left_out_with_the_reason(folder, points, why):
    make_study(folder, points)
    found = gather(folder.results, make_summary([make_measured_trial(folder)]))
    assert found.importances == {}
    assert why in found.missing["importances"]
    assert why in draw_gallery(found).left_out["importance"]


def test_a_store_that_is_gone_costs_only_what_lay_in_it(folder):
    trial = make_measured_trial(folder)
    folder.store.remove(folder.results.store_url)
    (folder.results.confirmation).write_text("{", encoding="utf-8")
    found = gather(folder.results, make_summary([trial]))
    assert (found.patterns, found.curves, found.distances, found.examples) == ((), (), (), ())
    assert found.confirmation is None
    assert "confirmation" in found.missing
    assert "there is no optuna.db" in found.missing["importances"]
    assert {"front"} <= {picture.name for picture in draw_gallery(found).pictures}


def test_pictures_are_saved_for_mlflow_and_a_failure_is_one_line(folder):
    summary = make_summary([make_measured_trial(folder)])
    files, problems = draw_pictures(folder.results, summary)
    assert problems == ()
    assert {"pictures/front.svg", "pictures/front.png", "pictures/patterns.svg", "pictures/left_out.txt"} <= set(files)
    assert all(path.is_file() and path.parent == folder.results.pictures for path in files.values())
    assert "gamma: method.gamma has fewer than two values" in files["pictures/left_out.txt"].read_text(encoding="utf-8")
    folder.results.config.unlink()
    files, (problem,) = draw_pictures(folder.results, summary)
    assert files == {}
    assert problem.startswith("The pictures could not be drawn (")


def test_an_impatient_ctrl_c_costs_the_pictures_alone(folder, monkeypatch):
    def interrupted(evidence):
        raise KeyboardInterrupt

    monkeypatch.setattr(gallery, "draw_gallery", interrupted)
    files, (problem,) = draw_pictures(folder.results, make_summary([make_measured_trial(folder)]))
    assert files == {}
    assert problem == f"The pictures were not drawn; to draw them: tune-tickets pictures {folder.results.folder}"
