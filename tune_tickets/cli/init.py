"""The verb `init`: write an experiment that is ready to run from a file of labelled texts."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tune_tickets.errors import ConfigError

if TYPE_CHECKING:
    from tune_tickets.data.guess import Guess

_ATTACKED_ROWS = 50
_PROBED_ROWS = 64
_RARE = 10
_TWINS: dict[tuple[str, ...], tuple[str, str]] = {
    ("premise", "hypothesis"): ("hans", "word overlap"),
    ("question1", "question2"): ("paws-wiki", "word overlap"),
}
"""For a pair of columns: the preset of an OOD twin that fits, and the bias that it shows."""


def init(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A csv, jsonl or parquet file of labelled texts")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The YAML file to write")] = None,
    force: Annotated[bool, typer.Option(help="Replace an existing file")] = False,
) -> Path:
    """Read a file of labelled texts and write an experiment that is ready to run."""
    from tune_tickets.data.files import read_file
    from tune_tickets.data.guess import guess_task

    target = output or Path(f"{_identifier(_stem(data))}.yaml")
    if target.is_dir():
        raise ConfigError(f"{target} is a folder: name the YAML file to write, such as {target / 'experiment.yaml'}")
    if target.exists() and not force:
        raise ConfigError(f"{target} exists already: name another file with --output, or replace it with --force")
    guess = guess_task(read_file(data))
    findings = _findings(data, guess)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_document(target, findings, guess), encoding="utf-8")
    command = _command(target)
    print("\n".join([*findings, "", f"Wrote {target}. Check it, then start the search:", f"  {command}"]))
    return target


def _stem(data: Path) -> str:
    """Return 'reviews' for reviews.csv.gz."""
    plain = data.with_suffix("") if data.suffix.lower() == ".gz" else data
    return plain.stem


def _identifier(text: str) -> str:
    """Turn a text into a valid name of an experiment."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100] or "experiment"


def _command(target: Path) -> str:
    return f"tune-tickets run {shlex.quote(str(target))}"


def _findings(data: Path, guess: Guess) -> list[str]:
    """Return what was guessed, and what the user should check."""
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
        lines.append(f"Models of such pairs often rely on {twin[1]}: task.ood: [{{preset: {twin[0]}}}] measures it.")
    rare = [name for name, n in counts.items() if n < _RARE]
    if rare:
        lines.append(f"Please check the rare labels, with fewer than {_RARE} rows each: {', '.join(rare)}.")
    return [re.sub(r"\s+", " ", line) for line in lines]  # names may contain line breaks, YAML comments must not


def _document(target: Path, findings: list[str], guess: Guess) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from tune_tickets.config.evaluation import Evaluation

    task = guess.task
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the output is YAML, and every text is quoted for YAML
    )
    templates.filters |= {"quoted": _quoted, "list": _list}
    return templates.get_template("experiment.yaml.j2").render(
        command=_command(target),
        findings=findings,
        name=_identifier(target.stem),
        task=task,
        attacks=tuple(map(str, Evaluation().attacks)),
        attacked_rows=min(_ATTACKED_ROWS, task.rows.select),
        probed_rows=min(_PROBED_ROWS, task.rows.select),
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"
