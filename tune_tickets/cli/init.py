"""`tune-tickets init data.csv`: look at a file of labelled texts and write an experiment that is ready to run."""

import json
import re
import shlex
from pathlib import Path

from tune_tickets.config.evaluation import Evaluation
from tune_tickets.data.files import read_file
from tune_tickets.data.guess import Guess, guess_task
from tune_tickets.errors import ConfigError

_ATTACKED_ROWS = 50
_PROBED_ROWS = 64
_RARE = 10
_TWINS: dict[tuple[str, ...], tuple[str, str]] = {
    ("premise", "hypothesis"): ("hans", "word overlap"),
    ("question1", "question2"): ("paws-wiki", "word overlap"),
}
"""Pairs of columns, the preset of a twin that fits them, and the bias it shows."""


def init(data: Path, output: Path | None, force: bool) -> Path:
    """Write the experiment for `data` to `output`, by default a YAML of the same name here; print what was guessed."""
    target = output or Path(f"{_identifier(_stem(data))}.yaml")
    if target.is_dir():
        raise ConfigError(f"{target} is a folder: name the YAML file to write, such as {target / 'experiment.yaml'}")
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already: name another file with --output, or replace it with --force")
    guess = guess_task(read_file(data))
    findings = _findings(data, guess)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_document(target, findings, guess), encoding="utf-8")
    command = _command(target)
    print("\n".join([*findings, "", f"Wrote {target}. Check it, then start the search:", f"  {command}"]))
    return target


def _stem(data: Path) -> str:
    """'reviews' for reviews.csv.gz."""
    plain = data.with_suffix("") if data.suffix.lower() == ".gz" else data
    return plain.stem


def _identifier(text: str) -> str:
    """The text as a name an experiment may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100] or "experiment"


def _command(target: Path) -> str:
    return f"tune-tickets run {shlex.quote(str(target))}"


def _findings(data: Path, guess: Guess) -> list[str]:
    """What was guessed, and what deserves a second look."""
    task, counts = guess.task, guess.counts
    columns = " and ".join(task.columns)
    lines = [
        f"Guessed from {data.name}, {guess.usable} usable rows without duplicates:",
        f"- text: {columns}, at most {guess.words} words in 95% of the rows",
        f"- label: {task.label}, {len(counts)} labels: {', '.join(f'{name} ({n})' for name, n in counts.items())}",
        f"- not used: {', '.join(guess.others) or 'no other column'}",
        "Please check the text and label columns, and the order of the labels.",
    ]
    if len(task.columns) == 2:
        lines.append(
            f"Please check task.attacked: attacks may change {task.attacked} only; {task.columns[0]} is locked."
        )
    twin = _TWINS.get(task.columns)
    if twin is not None:
        lines.append(f"Models of such pairs often lean on {twin[1]}: task.ood: [{{preset: {twin[0]}}}] measures it.")
    rare = [name for name, n in counts.items() if n < _RARE]
    if rare:
        lines.append(f"Please check the rare labels, with less than {_RARE} rows each: {', '.join(rare)}.")
    return [re.sub(r"\s+", " ", line) for line in lines]  # names may hold line breaks, comments must not


def _document(target: Path, findings: list[str], guess: Guess) -> str:
    task = guess.task
    text = _quoted(task.text) if isinstance(task.text, str) else _list(task.text)
    attacked_rows, probed_rows = min(_ATTACKED_ROWS, task.rows.select), min(_PROBED_ROWS, task.rows.select)
    train = "null" if task.rows.train is None else str(task.rows.train)
    return f"""\
# {_command(target)}
#
{"".join(f"# {line}{chr(10)}" for line in findings)}
name: {_quoted(_identifier(target.stem))}
seed: 0

model:
  source: bundled  # MiniLM, installed with the package; with a GPU and a hub, try bert-base-uncased
  layers: 3  # the first 3 of its 6 layers, quick on a laptop; null keeps all

task:
  source: {_quoted(task.source)}  # seen from the folder the command is run in
  text: {text}
  label: {_quoted(task.label)}
  labels: {_list(task.labels or ())}  # in class order
  attacked: {_quoted(task.attacked or task.columns[0])}  # the column that attacks may change
  max_length: {task.max_length}  # tokens; longer texts are cut
  rows:
    train: {train}  # null takes all rows that are left
    select: {task.rows.select}  # steer the search
    report: {task.rows.report}  # kept back for the final report
  # Out-of-distribution twins, on which every model is measured too: a preset, or a file with the same columns.
  # ood: [{{name: shifted, source: other.csv}}]

# In method and retraining a value may be a search domain:
# {{uniform: [a, b]}}, {{log_uniform: [a, b]}}, {{int: [a, b]}} or {{choice: [a, b, ...]}}.
method:
  kind: earlyrobust
  learning_rate: 2.0e-4
  batch_size: 16
  # Trials that differ only in drawing share one search; any other value of this section that differs costs a new one.
  coefficient_learning_rate: {{choice: [1.0e-3, 1.0e-2]}}
  adversary:
    kind: freelb
    steps: 3
    step_size: {{choice: [0.02, 0.05]}}
  drawing:
    heads: {{uniform: [0.1, 0.4]}}  # share of attention heads removed
    neurons: {{uniform: [0.1, 0.5]}}  # share of intermediate neurons removed

retraining:
  learning_rate: {{log_uniform: [5.0e-5, 5.0e-4]}}
  batch_size: 16
  epochs: 3
  adversary:
    kind: {{choice: [none, freelb]}}
    steps: 2

evaluation:
  attacks: {_list(tuple(map(str, Evaluation().attacks)))}
  rows: {attacked_rows}  # of the select rows; more rows, narrower intervals, longer attacks
  probe:
    rows: {probed_rows}

controls:
  dense: true  # the whole model, trained and attacked in the same way
  random: true  # a random ticket as sparse as the winner

objective:
  kind: weighted  # mean of clean accuracy and accuracy under attack
  floor_points: 2.0  # points of clean accuracy a ticket may lose to the dense control

search:
  trials: 6
  concurrency: 2
  warm_starts:  # the first point is tried first, and the controls are trained with its retraining
    - {{retraining.learning_rate: 2.0e-4, retraining.adversary.kind: none}}

resources:
  cpus: 1
"""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"
