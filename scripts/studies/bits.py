"""`python scripts/studies/bits.py`: sha256 of all that one tiny trial of every method writes.

Two versions of the code that print the same compute the same, to the last bit, on one machine and one set of libraries.

    python scripts/studies/bits.py > before.json
    python scripts/studies/bits.py --against before.json        # exits with 1 and the differences
"""

import hashlib
import json
import random
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from tune_tickets import Experiment
from tune_tickets.engine.runner import LocalRunner, OnRecord, unheard
from tune_tickets.engine.stage import Stage, StageResult
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.search.preflight import preflight

_GOOD = ("good", "great", "fine", "superb", "lovely", "bright")
_BAD = ("bad", "poor", "awful", "dull", "weak", "bleak")
_FILLER = ("film", "plot", "actor", "scene", "story", "music", "the", "a", "was", "with", "very", "quite")
_ADVERSARY = "adversary: {kind: freelb, steps: 2, step_size: 0.1}"
_SEARCH = f"learning_rate: 1.0e-3, batch_size: 16, mini_epoch: 0.25, gamma: 0.4, patience: 1, {_ADVERSARY}"
_MASKS = f"epochs: 1, batch_size: 16, finetuning: {{epochs: 1, batch_size: 16}}, {_ADVERSARY}"
_SUBNETWORK = "epochs: 1, batch_size: 16, finetuning: {epochs: 1, batch_size: 16}"
_ATTACKED = "evaluation.attacks=[textbugger/minilm]"
METHODS: dict[str, tuple[str, ...]] = {
    "finetune": ("method={kind: finetune}", _ATTACKED),
    "pgd": ("method={kind: finetune}", "retraining.adversary={kind: pgd, steps: 2, step_size: 0.1}"),
    "freelb": ("method={kind: finetune}", "retraining.adversary={kind: freelb, steps: 2, step_size: 0.1}"),
    "infobert": (
        "method={kind: finetune}",
        "retraining.adversary={kind: freelb, steps: 2, step_size: 0.1}",
        "retraining.regulariser={kind: infobert}",
    ),
    "random": ("method={kind: random, drawing: {heads: 1/4, neurons: 0.3}}",),
    "earlyrobust": (f"method={{kind: earlyrobust, drawing: {{heads: 1/4, neurons: 0.3}}, {_SEARCH}}}", _ATTACKED),
    "orticket": (
        f"method={{kind: orticket, drawing: {{heads: 1/4, neurons: 0.3}}, {_SEARCH}, corpus: ./texts.txt, "
        "rows: 96, block: 16, head: {held_out: 8, blocks: true, max_length: 16, epochs: 1}}",
    ),
    "robustt": (f"method={{kind: robustt, sparsity: 0.3, {_MASKS}}}",),
    "robustt structured": (f"method={{kind: robustt, sparsity: 0.25, grouping: structured, {_MASKS}}}",),
    "imp": ("method={kind: imp, sparsity: 0.2, epochs: 1.0, batch_size: 16}",),
    "srnets masks": (
        f"method={{kind: srnets, sparsity: 0.3, {_SUBNETWORK}, debiasing: {{loss: poe}}}}",
        "method.debiasing.bias={features: marker, markers: [film, plot]}",
    ),
    "srnets imp": (f"method={{kind: srnets, pruning: imp, sparsity: 0.2, {_SUBNETWORK}}}",),
}
"""Overrides of the tiny experiment, by the name of what they compute."""
_TIMES = {"seconds", "training", "passes_per_second", "rows_per_second"}
"""Entries of records that differ from run to run."""
_YAML = """\
name: bits
model: {source: ./model}
task: {source: ./rows.csv, max_length: 24, rows: {train: 96, select: 32, report: 16}}
retraining: {epochs: 8, learning_rate: 3.0e-3, batch_size: 8}
evaluation: {attacks: [deepwordbug/local], rows: 4, probe: {rows: 8}}
resources: {cpus: 1}
"""  # relative paths: a ticket file says what it was made from


def prepare(folder: Path) -> Path:
    """Write a 2-layer, 32-wide BERT with random weights, a csv file of short reviews, and an experiment on both."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_GOOD, *_BAD, *_FILLER]
    words += [letter for letter in letters if letter not in words] + [f"##{letter}" for letter in letters]
    model, rows = folder / "model", folder / "rows.csv"
    model.mkdir(parents=True)
    (model / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(str(model / "vocab.txt")).save_pretrained(model)  # type: ignore[no-untyped-call]
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(words), max_position_embeddings=40, **sizes)  # type: ignore[no-untyped-call]
    BertModel(config).save_pretrained(model, safe_serialization=True)  # type: ignore[no-untyped-call]
    dice, texts = random.Random(0), dict[str, str]()
    while len(texts) < 160:
        label = len(texts) % 2
        parts = dice.choices(_FILLER, k=dice.randint(4, 8))
        parts.insert(dice.randrange(len(parts)), dice.choice(_GOOD if label else _BAD))
        texts[" ".join(parts)] = "pos" if label else "neg"
    rows.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in texts.items()), encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    (folder / "bits.yaml").write_text(_YAML, encoding="utf-8")
    return folder / "bits.yaml"


class Noting:
    """Computes stages in this process and remembers their results."""

    def __init__(self, runner: LocalRunner) -> None:
        self._runner = runner
        self.results: list[StageResult] = []

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Compute a stage."""
        result = self._runner.run(stage, on_record)
        self.results.append(result)
        return result

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """Compute stages one after the other."""
        return [self.run(stage) for stage in stages]


def bits(yaml: Path, name: str, store: Path) -> dict[str, Any]:
    """Run the trial of one method.

    Args:
        yaml: what `prepare` has written.
        name: one of `METHODS`.
        store: a folder for the stages.

    Returns:
        The metrics, and of every stage the sha256 of its files, its record and its history, times aside.
    """
    kept, experiment = Store(str(store)), Experiment.load(yaml, METHODS[name])
    runner = Noting(LocalRunner(str(store), experiment.settings.resources))
    with chdir(yaml.parent):
        outcome = Flow(experiment.settings, preflight(experiment, kept), runner).find_ticket(unheard)
    stages = [
        {
            "stage": result.key.name,
            "files": {file: _sha256(kept.read(result, file)) for file in sorted(result.files)},
            "record": _sha256(_canonical(_timeless(result.record))),
            "history": _sha256(_canonical(_timeless(result.history))),
        }
        for result in runner.results
    ]
    return {"metrics": outcome.metrics(), "stages": stages}


def _timeless(value: Any) -> Any:  # noqa: ANN401 - anything JSON can hold
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _TIMES}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def _canonical(value: Any) -> bytes:  # noqa: ANN401 - anything JSON can hold
    return json.dumps(value, sort_keys=True).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Where two outputs differ, by method, in words."""
    found = [f"{name}: only {'before' if name in before else 'now'}" for name in sorted(before.keys() ^ now.keys())]
    for name in sorted(before.keys() & now.keys()):
        one, other = before[name], now[name]
        names = [[stage["stage"] for stage in each["stages"]] for each in (one, other)]
        if names[0] != names[1]:
            found.append(f"{name}: stages {names[0]} -> {names[1]}")
            continue
        for number, (old, new) in enumerate(zip(one["stages"], other["stages"], strict=True)):
            found += [f"{name}, stage {number}, {old['stage']}: {key} differ" for key in old if old[key] != new[key]]
        metrics = one["metrics"].keys() | other["metrics"].keys()
        values = [(key, one["metrics"].get(key), other["metrics"].get(key)) for key in sorted(metrics)]
        found += [f"{name}: {key} {old} -> {new}" for key, old, new in values if old != new]
    return found


def study(
    methods: Annotated[list[str] | None, typer.Argument(metavar="[METHOD]...")] = None,
    against: Annotated[Path | None, typer.Option(metavar="FILE", help="Compare with an earlier output")] = None,
) -> None:
    """Run a tiny trial per method and print what it wrote as JSON, or compare that with an earlier output."""
    with TemporaryDirectory() as folder:
        yaml = prepare(Path(folder) / "tiny")
        found = {name: bits(yaml, name, Path(folder) / "stores" / name) for name in methods or METHODS}
    if against is None:
        typer.echo(json.dumps(found, indent=1, sort_keys=True))
        return
    before = json.loads(against.read_text(encoding="utf-8"))
    changed = differences({name: before[name] for name in before if not methods or name in methods}, found)
    for difference in changed:
        typer.echo(difference)
    typer.echo(f"{len(found)} methods, {len(changed)} differences")
    raise typer.Exit(1 if changed else 0)


if __name__ == "__main__":
    typer.run(study)
