"""Cost of checkpoints: training that loses at most one mini-epoch, compared with training without checkpoints."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from benches.masks import dense_training, network_of, rows_of
from benches.timing import Json, compared, interleaved, write_json
from tune_tickets.config.training import Adversary
from tune_tickets.engine.checkpoint import Keeper
from tune_tickets.engine.store import Store
from tune_tickets.methods.stages import Corpus
from tune_tickets.training.schedule import LEAST_STEPS
from tune_tickets.training.trainer import Trainer

_ADVERSARIES = (Adversary(kind="none"), Adversary(kind="freelb", steps=3))


def bench(
    model: Annotated[str, typer.Option(help="Backbone: 'bundled' or a folder")] = "bundled",
    tokens: Annotated[int, typer.Option(help="Tokens per row")] = 64,
    batch: Annotated[int, typer.Option(help="Rows per step")] = 32,
    mini_epoch: Annotated[list[int], typer.Option(help="Steps that may be lost; can be repeated")] = [  # noqa: B006
        LEAST_STEPS,
        16,
    ],
    rounds: Annotated[int, typer.Option(help="Measured rounds of two mini-epochs each")] = 3,
    warmup: Annotated[int, typer.Option(help="Rounds before the measured ones")] = 1,
    store: Annotated[
        str | None, typer.Option(help="Where checkpoints are written; default: a temporary folder")
    ] = None,
    json: Json = None,
) -> None:
    """Compare training with checkpoints, written in parallel or by waiting, with training without checkpoints."""
    with TemporaryDirectory() as folder:
        rows = [
            _compare(model, tokens, batch, steps, adversary, (rounds, warmup), store or folder)
            for steps in mini_epoch
            for adversary in _ADVERSARIES
        ]
    report = {"bench": "checkpoints", "model": model, "threads": torch.get_num_threads(), "batch": batch, "rows": rows}
    _show(report)
    write_json(report, json)


def _compare(
    model: str, tokens: int, batch: int, mini_epoch: int, adversary: Adversary, rounds: tuple[int, int], store: str
) -> dict[str, Any]:
    keepers = {
        name: Keeper(Store(store), Corpus(fingerprint=name), mini_epoch, seconds=0.0, started=0)
        for name in ("kept", "waiting")
    }

    def steps(name: str) -> Iterator[None]:
        network = network_of(model)
        training = dense_training(network, rows_of(network, batch, tokens), batch, adversary)
        for step, _ in training.steps():
            if name == "kept":
                keepers[name].after(step, partial(_files, training))
            elif name == "waiting" and step % mini_epoch == 0:
                keepers[name].now(step, partial(_files, training))
            yield

    running = {name: steps(name) for name in ("alone", *keepers)}
    actions = {name: partial(_some, training, 2 * mini_epoch) for name, training in running.items()}
    timings = interleaved(actions, *rounds)
    for keeper in keepers.values():
        keeper.close()
    ratios = {name: compared(timings, name, "alone") for name in keepers}
    return {"mini_epoch": mini_epoch, "passes": adversary.passes, **ratios}


def _files(training: Trainer) -> dict[str, Any]:
    return {"state.pt": training.state()}


def _some(training: Iterator[None], steps: int) -> None:
    for _ in islice(training, steps):
        pass


def _show(report: dict[str, Any]) -> None:
    table = Table("mini-epoch", "training", "ms per step", "in parallel", "median", "waiting", "median")
    for row in report["rows"]:
        kept, waiting = row["kept"], row["waiting"]
        table.add_row(
            f"{row['mini_epoch']} steps",
            "plain" if row["passes"] == 1 else f"FreeLB-{row['passes']}",
            f"{kept['alone']['minimum'] / (2 * row['mini_epoch']):.0f}",
            *(f"{each[figure]:.3f}x" for each in (kept, waiting) for figure in ("ratio", "median_ratio")),
        )
    Console().print(table)
