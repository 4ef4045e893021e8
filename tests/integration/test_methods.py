"""Every method runs through the one command and lands in MLflow under the same metric names."""

import json
from pathlib import Path

import pytest

from tests.integration.test_search import runs_of
from tune_tickets import load_ticket

pytestmark = pytest.mark.integration
YAML = """\
name: methods
model: {{source: {model}}}
task: {{source: {data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
method:
  kind: {{choice: [earlyrobust, robustt, imp, srnets, random, finetune]}}
  scores: {{choice: [masks, magnitude], when: {{method.kind: robustt}}}}
  epochs: {{choice: [1.0], when: {{method.kind: [robustt, imp, srnets]}}}}
  paradigm: {{choice: [finetuned, isolated], when: {{method.kind: srnets}}}}
  pruning: {{choice: [mask_training, imp], when: {{method.paradigm: finetuned}}}}
  adversary: {{kind: {{choice: [freelb, none], when: {{method.kind: earlyrobust}}}}}}
ablation:
  mask: {{choice: [found, shuffled]}}
  weights: {{choice: [pretrained, reinitialised]}}
  structure: {{choice: [kept, discarded]}}
retraining:
  epochs: 8
  learning_rate: 3.0e-3
  batch_size: 16
  adversary: {{kind: {{choice: [none, freelb, pgd]}}, steps: 2}}
  regulariser: {{kind: {{choice: [none, infobert]}}, critic_width: 16}}
evaluation: {{attacks: [textbugger/minilm], rows: 6, probe: {{rows: 16}}}}
controls: {{random: true}}
objective: {{floor_points: null}}
search:
  trials: {trials}
  scheduler: {{kind: none}}
  warm_starts: [{starts}]
"""
WANTED = {"clean", "aua", "aua/textbugger/minilm", "suc/textbugger/minilm", "queries/textbugger/minilm", "objective"}
WHOLE = {"ablation.mask": "found", "ablation.weights": "pretrained", "ablation.structure": "kept"}
WHOLE |= {"retraining.adversary.kind": "none", "retraining.regulariser.kind": "none"}
FREELB = {"method.kind": "finetune", "retraining.adversary.kind": "freelb"}
MASKS = {"method.kind": "robustt", "method.scores": "masks", "method.epochs": 1.0}
SRNETS = {"method.kind": "srnets", "method.epochs": 1.0}
STARTS = [
    {"method.kind": "earlyrobust", "method.adversary.kind": "freelb"},
    MASKS,
    {"method.kind": "imp", "method.epochs": 1.0},
    {"method.kind": "random"},
    {"method.kind": "finetune"},
    MASKS | {"method.scores": "magnitude", "ablation.mask": "shuffled"},
    MASKS | {"ablation.weights": "reinitialised"},
    MASKS | {"ablation.structure": "discarded"},
    {"method.kind": "earlyrobust", "method.adversary.kind": "none"},  # EarlyBERT
    {"method.kind": "finetune", "retraining.adversary.kind": "pgd"},
    FREELB,
    FREELB | {"retraining.regulariser.kind": "infobert"},
    SRNETS | {"method.paradigm": "finetuned", "method.pruning": "mask_training"},
    SRNETS | {"method.paradigm": "finetuned", "method.pruning": "imp"},
    SRNETS | {"method.paradigm": "isolated"},
]


def test_all_methods_and_ablations_in_one_experiment(cli, tiny_backbone, tiny_data, tmp_path):
    path = tmp_path / "methods.yaml"
    points = [WHOLE | start for start in STARTS]
    starts = ", ".join(json.dumps(point) for point in points)
    text = YAML.format(model=tiny_backbone, data=tiny_data, starts=starts, trials=len(points))
    path.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    code, printed = cli("run", path, "--output", out)
    assert code == 0, printed
    summary = json.loads((out / "summary.json").read_text())
    trials = summary["trials"]
    assert [trial["params"] for trial in trials] == points
    assert [trial["status"] for trial in trials] == ["complete"] * len(points)
    assert summary["stages"]["masks"]["computed"] == 2, "masks once for all ablations, and magnitudes"
    assert summary["stages"]["imp"]["computed"] == 3, "10, 20 and 30%"
    masks = [trial["outcome"]["mask"] for trial in trials]
    assert masks[1] == masks[6] == masks[7]
    assert len(set(masks[:8])) == 6
    cut = [round(trial["metrics"]["sparsity/weights"]) for trial in trials]
    assert cut == [0, 30, 30, 0, 0, 30, 30, 0] + [0] * 4 + [50] * 3
    baselines = {trials[index]["outcome"]["retrain_digest"] for index in (4, 9, 10, 11)}
    assert len(baselines) == 4, "fine-tuning, PGD, FreeLB and InfoBERT are four models"
    assert (masks[8] is None, masks[9:12]) == (False, [None] * 3), "EarlyBERT draws a ticket, the other baselines none"
    assert masks[12] == masks[14] != masks[13], "one mask training serves both paradigms"
    own = [trial["cost"]["retraining"]["passes"] for trial in trials[12:]]
    assert own == [0.0, 0.0, 8.0], "two are taken as they are, the third is retrained"
    assert summary["stages"]["srnets_masks"]["computed"] == 1
    assert summary["stages"]["srnets_imp"]["computed"] == 5, "after each of five cuts"
    assert load_ticket(out / "best_ticket.safetensors").predict(["a good film"])
    logged = [set(run.data.metrics) for run in runs_of(Path(out)) if run.info.run_name.startswith("trial")]
    assert len(logged) == len(points)
    assert all(metrics >= WANTED for metrics in logged)
