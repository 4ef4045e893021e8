"""What a search would do."""

from tune_tickets.config import load_experiment
from tune_tickets.trial.store import Store
from tune_tickets.tuning.plan import plan
from tune_tickets.tuning.preflight import check, world_of

YAML = """\
model: {{source: {model}}}
task: {{source: {data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
method: {{kind: {{choice: [finetune, earlyrobust, robustt]}}}}
retraining: {{epochs: 2, batch_size: 16, adversary: {{kind: {{choice: [none, pgd, freelb]}}, steps: 3}}}}
evaluation: {{attacks: [textbugger/minilm], rows: 8}}
search: {{trials: 3}}
"""


def test_a_search_over_methods_is_bounded_by_the_dearest_of_them(tiny_backbone, tiny_data, tmp_path):
    (tmp_path / "x.yaml").write_text(YAML.format(model=tiny_backbone, data=tiny_data), encoding="utf-8")
    experiment = load_experiment(tmp_path / "x.yaml")
    data, anatomy = check(experiment)
    store = Store(str(tmp_path / "store"))
    planned = {stage.name: stage for stage in plan(experiment, world_of(experiment, data, anatomy), store, 128)}
    # Three trials and the dense control; each trial may be one by masks, which fine-tunes first.
    asked = [(name, stage.asked) for name, stage in planned.items() if name != "attack"]
    assert asked == [("search", 3), ("masks", 3), ("draw", 3), ("retrain", 7), ("evaluate", 4)]
    # Two epochs of 8 steps with PGD-3's four passes.
    assert planned["retrain"].work == "64 passes of 16 rows"
