"""Cost of an attack: stock TextAttack, the same with less padding, our executor, and the plain forward passes."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from benches.floor import Heard, floors, forget_in_process, fresh_memory, listening, timed
from benches.stock import by_stock
from benches.timing import Json, write_json
from tune_tickets.attacks.run import AttackRow, attack_rows
from tune_tickets.attacks.threat import ThreatModel, get_threat, named
from tune_tickets.attacks.victim import Victim
from tune_tickets.config.evaluation import MaskedLM as MaskedLMSettings
from tune_tickets.config.task import Model, Rows, Task
from tune_tickets.config.training import Adversary
from tune_tickets.data.task import TaskData, attack_sample, load_task
from tune_tickets.methods.bodies.start import encode_rows
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.masked_lm import load_masked_lm_backbone
from tune_tickets.training.batches import Batches
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.masked_lm import (
    MaskedBatches,
    Masking,
    build_masked_lm_optimizer,
    encode_texts,
    masked_cross_entropy,
    start_from_frequencies,
)
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.trainer import Recipe, Trainer

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM

LIMIT, SPEEDUP = 1.2, 20.0
"""Our executor may take LIMIT times as long as the plain forward passes, and must be SPEEDUP times as fast as stock."""
_LABELS = ("negative", "positive")
_SEED = 0


def bench(
    model: Annotated[str, typer.Option(help="Backbone: 'bundled' or a folder")] = "bundled",
    data: Annotated[str, typer.Option(help="Task of the attacked rows")] = "bundled/rotten-tomatoes",
    held_out: Annotated[str | None, typer.Option(help="Source of the attacked rows, if not `data`")] = None,
    threat: Annotated[list[str], typer.Option(help="Threat model; can be repeated")] = [  # noqa: B006
        "textfooler/minilm",
        "textbugger/minilm",
        "bert-attack/minilm",
    ],
    rows: Annotated[int, typer.Option(help="Number of rows to attack")] = 48,
    stock_rows: Annotated[int, typer.Option(help="How many of them stock TextAttack attacks too")] = 12,
    train_rows: Annotated[int, typer.Option(help="Training rows of the attacked models")] = 600,
    epochs: Annotated[int, typer.Option(help="Training epochs of the attacked models")] = 2,
    rounds: Annotated[int, typer.Option(help="How often our executor and the forward passes are timed, in turn")] = 3,
    threads: Annotated[int | None, typer.Option(help="Number of torch threads; default: chosen by torch")] = None,
    json: Json = None,
) -> None:
    """Compare our executor with stock TextAttack, with stock and less padding, and with the plain forward passes."""
    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    logging.disable(logging.WARNING)  # TextAttack warns about every model
    sizes = Rows(train=train_rows, select=rows, report=2)
    task = load_task(Task(source=data, held_out=held_out, max_length=128, rows=sizes), _SEED)
    victims = []
    for seed in (0, 1):
        console.print(f"fine-tuning victim {seed + 1} of 2 on {train_rows} rows", style="dim")
        victims.append(_victim(model, task, epochs, seed))
    sample = attack_sample(task.select, rows, _SEED)
    attacked = [AttackRow(index, row.texts, row.label) for index, row in sample]
    report: dict[str, Any] = {
        "bench": "attack",
        "model": model,
        "data": data,
        "held_out": held_out,
        "rows": rows,
        "stock_rows": stock_rows,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "limits": {"over_floor": LIMIT, "over_stock": SPEEDUP},
        "threats": [],
    }
    for name in threat:
        console.print(f"{name}: {stock_rows} rows by stock, {rows} rows by ours", style="dim")
        masked_lm = _masked_lm(model, task) if named(name).fits_masked_lm else None
        found = get_threat(name, masked_lm=masked_lm.identity if masked_lm is not None else None)
        report["threats"].append(_compare(found, victims, attacked, stock_rows, rounds, masked_lm))
    _show(report, console)
    write_json(report, json)


def _victim(model: str, task: TaskData, epochs: int, seed: int) -> Victim:
    network, tokenizer = load_backbone(Model(source=model), _LABELS, seed)
    encoded = Batches(encode_rows(tokenizer, task.train, 128), 16, seed)
    optimizer = build_optimizer(network, 2e-4, 0.01)
    steps = epochs * encoded.steps_per_epoch
    recipe = Recipe(encoded, cross_entropy, Adversary(kind="none"), steps, 0.1, 1.0, seed=seed)
    for _ in Trainer(network, optimizer, recipe).steps():
        pass
    network.train(False)
    return Victim(network, tokenizer, min(128, network.config.max_position_embeddings), 64)


def _masked_lm(model: str, task: TaskData) -> "MaskedLM":
    """Fit a masked language model for one epoch. It is inaccurate, but as slow as a good one."""
    from tune_tickets.attacks.masked_words import MaskedLM

    backbone = load_masked_lm_backbone(Model(source=model), _SEED)
    settings = MaskedLMSettings()
    rows = encode_texts(backbone.tokenizer, [row.texts[0] for row in task.train], 128, blocks=False)
    masking = Masking.of(backbone.tokenizer, settings.mask_probability)
    start_from_frequencies(backbone.model, rows, masking.special_ids)
    masked = MaskedBatches(rows, 16, _SEED, masking, torch.device("cpu"))
    optimizer = build_masked_lm_optimizer(backbone.model, settings)
    steps = masked.steps_per_epoch
    recipe = Recipe(masked, masked_cross_entropy, Adversary(kind="none"), steps, 0.1, 1.0, seed=_SEED)
    for _ in Trainer(backbone.model, optimizer, recipe).steps():
        pass
    return MaskedLM(backbone.model.train(False), backbone.tokenizer, "fitted for the bench")


def _compare(
    threat: ThreatModel,
    victims: Sequence[Victim],
    rows: list[AttackRow],
    stock_rows: int,
    rounds: int,
    masked_lm: "MaskedLM | None",
) -> dict[str, Any]:
    victim, other = victims
    few = rows[:stock_rows]
    for fixed in (False, True):
        by_stock(victim, threat, few[:1], _SEED, masked_lm, fixed)  # warm-up: the first row loads resources
    stock, stock_results = by_stock(victim, threat, few, _SEED, masked_lm, fixed=False)
    fixed_stock, fixed_results = by_stock(victim, threat, few, _SEED, masked_lm, fixed=True)
    ours, bare, shares, queries = [], [], [], 0
    for _ in range(rounds):
        heard = Heard()
        with fresh_memory(masked_lm), listening(heard, victim, masked_lm):
            seconds, records = timed(lambda: _attack(victim, threat, rows, masked_lm))
        queries = sum(record.queries for record in records)
        ours.append(seconds)
        bare.append(floors(victim, masked_lm, heard))
        shares.append(heard.shares(seconds))
    mine = [(record.status, record.perturbed_texts[0], record.queries) for record in records[:stock_rows]]
    first, second = _second_trial(victim, other, threat, rows, rounds, masked_lm)
    best = ours.index(min(ours))
    speed = {
        "stock": sum(row[2] for row in stock_results) / stock,
        "padding_fixed": sum(row[2] for row in fixed_results) / fixed_stock,
        "ours": queries / min(ours),
    }
    over_floor = [one / floor.bare for one, floor in zip(ours, bare, strict=True)]
    return {
        "threat": threat.name,
        "fingerprint": threat.fingerprint,
        "queries": queries,
        "queries_per_second": speed,
        "over_stock": speed["ours"] / speed["stock"],
        "over_padding_fixed": speed["ours"] / speed["padding_fixed"],
        "most_over_stock": queries / bare[best].arithmetic / speed["stock"],
        "over_floor": min(over_floor),
        "over_floor_all": over_floor,
        "over_quick_floor_all": [one / floor.ours for one, floor in zip(ours, bare, strict=True)],
        "seconds": {"ours": min(ours), "floor": bare[best].bare, "arithmetic": bare[best].arithmetic},
        "share_of_time": shares[best],
        "compared_rows": len(few),
        "mismatches": sum(a != b for a, b in zip(stock_results, mine, strict=True)),
        "second_trial": {"alone": first, "after_another": second, "ratio": second / first},
    }


def _attack(victim: Victim, threat: ThreatModel, rows: list[AttackRow], masked_lm: "MaskedLM | None") -> Any:  # noqa: ANN401
    return attack_rows(victim, rows, threat, ("text",), "text", _LABELS, _SEED, masked_lm=masked_lm).records


def _second_trial(
    victim: Victim,
    other: Victim,
    threat: ThreatModel,
    rows: list[AttackRow],
    rounds: int,
    masked_lm: "MaskedLM | None",
) -> tuple[float, float]:
    """Return the seconds to attack another model: with empty caches, and after a first trial on the same rows."""
    alone, after = [], []
    for _ in range(rounds):
        with fresh_memory(masked_lm):
            alone.append(timed(lambda: _attack(other, threat, rows, masked_lm))[0])
        with fresh_memory(masked_lm):
            _attack(victim, threat, rows, masked_lm)
            forget_in_process(victim)
            after.append(timed(lambda: _attack(other, threat, rows, masked_lm))[0])
    return min(alone), min(after)


def _show(report: dict[str, Any], console: Console) -> None:
    table = Table(Column("threat", no_wrap=True), "queries", box=SIMPLE, pad_edge=False)
    for heading in ("stock q/s", "fixed q/s", "ours q/s", "x stock", "x fixed", "x floor", "differ"):
        table.add_column(heading, justify="right")
    for row in report["threats"]:
        speed = row["queries_per_second"]
        table.add_row(
            row["threat"],
            str(row["queries"]),
            *(f"{speed[name]:.0f}" for name in ("stock", "padding_fixed", "ours")),
            *(f"{row[name]:.2f}" for name in ("over_stock", "over_padding_fixed", "over_floor")),
            f"{row['mismatches']}/{row['compared_rows']}",
        )
    console.print(table)
    console.print("x floor: our time divided by that of the plain forward passes of the same texts, in ideal batches")
    for row in report["threats"]:
        shares = ", ".join(f"{name} {100 * share:.0f}%" for name, share in row["share_of_time"].items() if share)
        second = row["second_trial"]["ratio"]
        console.print(f"{row['threat']}: share of time: {shares}; a second model on the same rows takes {second:.2f}x")
        console.print(
            f"  {row['most_over_stock']:.1f}x stock would be reached if our passes ran at the speed of a large matrix "
            f"product, and everything else took no time"
        )
        for name, what in (("over_floor_all", "the plain passes"), ("over_quick_floor_all", "our own passes")):
            rounds = ", ".join(f"{ratio:.2f}" for ratio in row[name])
            console.print(f"  our time divided by {what}, per round: {rounds}")
