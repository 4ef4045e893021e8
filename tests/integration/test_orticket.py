"""ORTicket with two tasks: the scores are found once, and the summary shows it."""

import json

import pytest

from tune_tickets import load_ticket

pytestmark = pytest.mark.integration
YAML = """\
name: two-tasks
model: {{source: {model}}}
task: {{source: {data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
transfer:
  second:
    task: {{source: {data}, max_length: 16, rows: {{train: 64, select: 40, report: 32}}}}
    drawing: {{heads: 1/4, neurons: 0.5}}
    attacked_rows: 4
method:
  kind: orticket
  corpus: {corpus}
  block: 16
  head: {{held_out: 20, max_length: 16}}
  learning_rate: 1.0e-3
  batch_size: 8
  mini_epoch: 0.25
  gamma: 1.0
  patience: 1
  adversary: {{steps: 2}}
  drawing: {{heads: {{choice: [1/4, 3/8]}}, neurons: 0.25}}
retraining: {{epochs: 8, learning_rate: 3.0e-3, batch_size: 16}}
evaluation: {{attacks: [textbugger/minilm], rows: 6, probe: {{rows: 16}}}}
controls: {{random: true}}
objective: {{floor_points: null, near_constant: 1.0}}
search:
  trials: 2
  scheduler: {{kind: none}}
  warm_starts: [{{method.drawing.heads: 1/4}}, {{method.drawing.heads: 3/8}}]
"""


def test_an_experiment_with_two_tasks_runs_one_search_and_the_summary_shows_it(cli, tiny_backbone, tiny_data, tmp_path):
    corpus = tmp_path / "corpus.txt"
    lines = tiny_data.read_text(encoding="utf-8").splitlines()[1:121]
    corpus.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines), encoding="utf-8")
    path, out = tmp_path / "two.yaml", tmp_path / "out"
    path.write_text(YAML.format(model=tiny_backbone, data=tiny_data, corpus=corpus), encoding="utf-8")
    code, printed = cli("run", path, "--output", out)
    assert code == 0, printed
    summary = json.loads((out / "summary.json").read_text())
    assert [trial["status"] for trial in summary["trials"]] == ["complete"] * 2
    use = {name: (stage["asked"], stage["computed"]) for name, stage in summary["stages"].items()}
    assert use["mlm_search"] == (2, 1)
    assert use["masked_lm"] == (2, 1)
    for model in (*summary["trials"], *summary["controls"]):
        [second] = model["outcome"]["transfers"]
        assert second["outcome"]["clean"]["rows"] == 40
        assert second["outcome"]["attacks"][0]["rows"] == 4
    assert [control["kind"] for control in summary["controls"]] == ["dense", "random"]
    assert [trial["metrics"]["sparsity/heads"] for trial in summary["trials"]] == [25.0, 37.5]
    assert [trial["metrics"]["transfer/second/sparsity/heads"] for trial in summary["trials"]] == [25.0, 25.0]
    assert "The same tickets on every task. mlm_search: 1 computed for 2 trials" in printed
    assert "second: trial 0" in printed
    assert "one was fitted before the search" in printed
    assert load_ticket(out / "best_ticket.second.safetensors").metadata.max_length == 16
    assert load_ticket(out / "best_ticket.safetensors").metadata.max_length == 24
    attacked = {file.name for file in (out / "attacked").iterdir()}
    assert {"t000-textbugger-minilm.parquet", "t000-second-textbugger-minilm.parquet"} <= attacked
