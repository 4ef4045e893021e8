"""What `plan` counts: upper bounds of the stages that trials need."""

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.engine.store import Store
from tune_tickets.search.plan import plan
from tune_tickets.search.preflight import look, preflight, world_of

YAML = """\
model: {{source: {model}}}
task: {{source: {data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
method: {{kind: {{choice: [finetune, earlyrobust, robustt]}}}}
retraining: {{epochs: 2, batch_size: 16, adversary: {{kind: {{choice: [none, pgd, freelb]}}, steps: 3}}}}
evaluation: {{attacks: [textbugger/minilm], rows: 8}}
search: {{trials: 3}}
"""


@pytest.fixture
def planned(tiny_yaml, tmp_path):
    """Stages asked for and their work, by name, with the method replaced."""

    def counted(method: str, *overrides: str) -> dict[str, tuple[int, str]]:
        text = tiny_yaml.read_text(encoding="utf-8")
        before, after = text.split("method:\n")[0], text.split("retraining:")[1]
        path = tmp_path / "planned.yaml"
        content = f"{before}method: {method}\nretraining:{after}".split("  warm_starts:")[0]
        path.write_text(content, encoding="utf-8")
        experiment = load_experiment(path, overrides)
        store = Store(str(tmp_path / "store"))
        stages = plan(experiment, preflight(experiment, store), store, train_rows=128)
        return {stage.name: (stage.asked, stage.work) for stage in stages}

    return counted


def test_imp_asks_for_the_rounds_of_its_sparsest_trial(planned):
    stages = planned("{kind: imp, sparsity: {choice: [0.1, 0.45]}, epochs: 2.0, batch_size: 32}")
    # 3 trials; 10, 20, 30, 40 and 45%; 2 epochs of 4 steps.
    assert stages["imp"] == (15, "<= 8 passes of 32 rows")
    assert stages["draw"][0] == 15
    assert stages["retrain"][0] == 4


def test_magnitude_needs_no_passes_and_a_shuffled_mask_one_more_drawing(planned):
    stages = planned("{kind: robustt, scores: magnitude}", "ablation.mask=shuffled")
    assert stages["masks"] == (3, "magnitudes")
    assert stages["draw"][0] == 6


def test_a_search_over_methods_is_bounded_by_the_dearest_of_them(tiny_backbone, tiny_data, tmp_path):
    (tmp_path / "x.yaml").write_text(YAML.format(model=tiny_backbone, data=tiny_data), encoding="utf-8")
    experiment = load_experiment(tmp_path / "x.yaml")
    store = Store(str(tmp_path / "store"))
    planned = {stage.name: stage for stage in plan(experiment, world_of(experiment, look(experiment)), store, 128)}
    # Three trials and the dense control; each trial may be one by masks, which fine-tunes first.
    asked = [(name, stage.asked) for name, stage in planned.items() if name != "attack"]
    assert sorted(asked) == [("draw", 3), ("evaluate", 4), ("masks", 3), ("retrain", 7), ("search", 3)]
    # Two epochs of 8 steps with PGD-3's four passes.
    assert planned["retrain"].work == "64 passes of 16 rows"


def test_warm_starts_that_name_their_method_are_counted_as_they_are(tiny_backbone, tiny_data, tmp_path):
    starts = "[{method.kind: finetune}, {method.kind: robustt}, {retraining.adversary.kind: pgd}]"
    text = YAML.format(model=tiny_backbone, data=tiny_data).replace("trials: 3", f"trials: 3, warm_starts: {starts}")
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    experiment = load_experiment(tmp_path / "x.yaml")
    stages = plan(experiment, None, Store(str(tmp_path / "store")), 128)
    # The third may become any: a search or a ticket by masks. Models: three and the dense control.
    asked = {stage.name: stage.asked for stage in stages if stage.name != "attack"}
    assert asked == {"search": 1, "masks": 2, "draw": 2, "retrain": 4 + 2, "evaluate": 4}


def test_a_searched_loss_may_ask_for_a_bias_model_and_a_teacher_each_time(planned):
    bias = "{features: marker, markers: [good, bad]}"
    stages = planned("{kind: finetune}", f"retraining.debiasing={{loss: {{choice: [ce, confidence]}}, bias: {bias}}}")
    # Three trials and, as `ce` is the first choice, a dense control without experts.
    assert {name: stages[name][0] for name in ("bias", "teacher", "retrain")} == {"bias": 3, "teacher": 3, "retrain": 7}


MARKED = "debiasing: {loss: poe, bias: {features: marker, markers: [good, bad]}}"


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # Three trials: fine-tuning, masks on 2 epochs of 4 steps, no retraining; and the dense control.
        ("", {"srnets_masks": (3, "8 passes of 32 rows"), "retrain": 3 * 2 + 1, "draw": 3, "evaluate": 4}),
        (f", {MARKED}", {"srnets_masks": 3, "bias": 3, "retrain": 7}),
        # Cuts at 10, 20 and 30%; a tenth of 8 steps after each, the last one included.
        (", pruning: imp, sparsity: 0.3", {"srnets_imp": (9, "1 passes of 32 rows"), "draw": 9, "retrain": 7}),
        (", pruning: imp_rewind, paradigm: isolated, sparsity: 0.3", {"srnets_imp": 6, "draw": 9, "retrain": 4}),
        (", paradigm: pretrained", {"srnets_masks": 3, "draw": 3, "retrain": 4}),
    ],
)
def test_srnets_ask_for_what_their_paradigm_needs(planned, method, expected):
    stages = planned(f"{{kind: srnets, epochs: 2.0, batch_size: 32{method}}}")
    for name, wanted in expected.items():
        assert stages[name] == wanted if isinstance(wanted, tuple) else stages[name][0] == wanted, name


TWINS = "task.planted={markers: [x, z], rows: {select: 16, report: 8}}"


def test_masks_are_followed_on_every_twin_once_per_mask_training(planned):
    method = "{kind: srnets, epochs: 2.0, batch_size: 32, eval_interval: 3}"
    stages = planned(method, TWINS, "controls.random=true")
    assert stages["ood_curve"] == (3, "<= 20 masks, reversed 16 rows")
    assert stages["ood"] == (3 + 2, "reversed 16 rows"), "controls have figures, and no curve"
    assert "ood_curve" not in planned(method)
    assert "ood_curve" not in planned("{kind: srnets, pruning: imp, sparsity: 0.3}", TWINS)


def test_a_random_subnetwork_is_cut_from_the_weights_that_pruning_starts_from(planned):
    without = planned("{kind: srnets}")
    stages = planned("{kind: srnets}", "controls.random=true", "controls.random_seeds=2")
    assert stages["retrain"][0] - without["retrain"][0] == 2 * 2
    assert stages["draw"][0] - without["draw"][0] == 2


def test_every_trial_may_get_random_tickets_of_its_own(planned):
    method, controls = "{kind: robustt}", ("controls.random=true", "controls.random_seeds=2", "controls.random_of=all")
    without, stages = planned(method), planned(method, *controls)
    more = {name: stages[name][0] - without[name][0] for name in ("draw", "retrain", "evaluate", "attack")}
    assert set(more.values()) == {3 * 2}, "three trials, two seeds"


def test_winner_and_dense_control_are_attacked_after_all_epochs_but_the_last(planned):
    # 5 epochs at most for the winner, 2 for the dense control, as in the first choice; 8 rows in shards of 3.
    overrides = ("retraining.epochs={choice: [2, 5]}", "evaluation.shard=3")
    without = planned("{kind: robustt}", *overrides)
    stages = planned("{kind: robustt}", *overrides, "controls.epochs=true")
    assert stages["epochs"] == (2, "40 passes of 16 rows"), "of the longest one"
    assert stages["evaluate"][0] - without["evaluate"][0] == 4 + 1
    assert stages["attack"][0] - without["attack"][0] == (4 + 1) * 3
    assert "epochs" not in without


def test_methods_that_lack_a_setting_are_not_planned_with_it(planned):
    stages = planned(
        "{kind: {choice: [finetune, srnets]}, epochs: {choice: [2.0], when: {method.kind: srnets}}, "
        "paradigm: {choice: [finetuned, isolated], when: {method.kind: srnets}}, "
        "pruning: {choice: [mask_training, imp], when: {method.paradigm: finetuned}}}"
    )
    # Each of three trials may have 5 cuts, or masks.
    assert (stages["srnets_masks"][0], stages["srnets_imp"][0]) == (3, 15)
