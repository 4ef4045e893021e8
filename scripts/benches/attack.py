"""What an attack costs: stock TextAttack, the same without its padding, and ours, beside the bare forward passes."""

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import copy
from dataclasses import dataclass, field
from io import StringIO
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel

from benches.timing import Json, write_json
from tune_tickets.attacks.batching import Tokens, batches
from tune_tickets.attacks.encoder import SentenceEncoder, load_encoder
from tune_tickets.attacks.resources import import_textattack
from tune_tickets.attacks.run import AttackRow, attack_rows, row_seed
from tune_tickets.attacks.threat import ThreatModel, get_threat
from tune_tickets.attacks.victim import Victim
from tune_tickets.config.adversary import Adversary
from tune_tickets.config.model import Model
from tune_tickets.config.task import Rows, Task
from tune_tickets.data.task import TaskData, attack_sample, load_task
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.bundled import bundled_encoder_path
from tune_tickets.training.batches import Batches
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.state import TrainState
from tune_tickets.trial.backbone import encode_rows

LIMIT, SPEEDUP = 1.2, 20.0
"""Ours may take this many times the bare forward passes, and must be this many times as fast as stock."""
_LABELS = ("negative", "positive")
_SEED = 0


@dataclass
class Heard:
    """The texts that a model was given, to be passed through it once more without anything around."""

    victim: list[str] = field(default_factory=list)
    encoder: dict[str, None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: {"victim": 0.0, "encoder": 0.0})


def bench(
    model: Annotated[str, typer.Option(help="Backbone: 'bundled' or a folder")] = "bundled",
    data: Annotated[str, typer.Option(help="Task of the attacked rows")] = "bundled/rotten-tomatoes",
    threat: Annotated[list[str], typer.Option(help="Threat models; may be given several times")] = [  # noqa: B006
        "textfooler/minilm",
        "textbugger/minilm",
    ],
    rows: Annotated[int, typer.Option(help="Rows attacked")] = 64,
    stock_rows: Annotated[int, typer.Option(help="Of these, rows that stock TextAttack attacks too")] = 12,
    train_rows: Annotated[int, typer.Option(help="Rows the victims are fine-tuned on")] = 600,
    epochs: Annotated[int, typer.Option(help="Epochs of that")] = 2,
    rounds: Annotated[int, typer.Option(help="How often ours and the floor are measured, in turn")] = 3,
    threads: Annotated[int | None, typer.Option(help="Threads of torch; default: its own choice")] = None,
    json: Json = None,
) -> None:
    """Queries per second of stock, padding-fixed stock and our executor, and ours over the bare forward passes."""
    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    logging.disable(logging.WARNING)  # TextAttack has something to say about every victim
    task = load_task(Task(source=data, max_length=128, rows=Rows(train=train_rows, select=rows, report=2)), _SEED)
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
        "rows": rows,
        "stock_rows": stock_rows,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "limits": {"over_floor": LIMIT, "over_stock": SPEEDUP},
        "threats": [],
    }
    for name in threat:
        console.print(f"{name}: {stock_rows} rows by stock, {rows} rows by ours", style="dim")
        report["threats"].append(_compare(get_threat(name), victims, attacked, stock_rows, rounds))
    _show(report, console)
    write_json(report, json)


def _victim(model: str, task: TaskData, epochs: int, seed: int) -> Victim:
    network, tokenizer = load_backbone(Model(source=model), _LABELS, seed)
    encoded = Batches(encode_rows(tokenizer, task.train, 128), 16, seed)
    state = TrainState(network, build_optimizer(network, 2e-4, 0.01))
    steps = epochs * encoded.steps_per_epoch
    for _ in train(state, Recipe(encoded, cross_entropy, Adversary(kind="none"), steps, 0.1, 1.0, seed=seed)):
        pass
    network.train(False)
    return Victim(network, tokenizer, min(128, network.config.max_position_embeddings), 64)


def _compare(
    threat: ThreatModel, victims: Sequence[Victim], rows: list[AttackRow], stock_rows: int, rounds: int
) -> dict[str, Any]:
    victim, other = victims
    few = rows[:stock_rows]
    stock, stock_results = _stock(victim, threat, few, fixed=False)
    fixed, fixed_results = _stock(victim, threat, few, fixed=True)
    ours, floors, rests, queries = [], [], [], 0
    for _ in range(rounds):
        heard = Heard()
        with _fresh_memory(), _listening(heard, victim):
            seconds, records = _timed(lambda: _attack(victim, threat, rows))
        queries = sum(record.queries for record in records)
        ours.append(seconds)
        floors.append(_floor(victim, heard))
        rests.append({name: spent / seconds for name, spent in heard.seconds.items()})
    mine = [(record.status, record.perturbed_texts[0], record.queries) for record in records[:stock_rows]]
    first, second = _second_trial(victim, other, threat, rows, rounds)
    best = ours.index(min(ours))
    return {
        "threat": threat.name,
        "fingerprint": threat.fingerprint,
        "queries": queries,
        "queries_per_second": {
            "stock": sum(row[2] for row in stock_results) / stock,
            "padding_fixed": sum(row[2] for row in fixed_results) / fixed,
            "ours": queries / min(ours),
        },
        "over_stock": (queries / min(ours)) / (sum(row[2] for row in stock_results) / stock),
        "over_padding_fixed": (queries / min(ours)) / (sum(row[2] for row in fixed_results) / fixed),
        "over_floor": min(one / floor for one, floor in zip(ours, floors, strict=True)),
        "over_floor_all": [one / floor for one, floor in zip(ours, floors, strict=True)],
        "seconds": {"ours": min(ours), "floor": floors[best]},
        "share_of_time": {**rests[best], "rest": 1 - sum(rests[best].values())},
        "compared_rows": len(few),
        "mismatches": sum(a != b for a, b in zip(stock_results, mine, strict=True)),
        "second_trial": {"alone": first, "after_another": second, "ratio": second / first},
    }


def _attack(victim: Victim, threat: ThreatModel, rows: list[AttackRow]) -> Any:  # noqa: ANN401
    return attack_rows(victim, rows, threat, ("text",), "text", _LABELS, _SEED).records


def _second_trial(
    victim: Victim, other: Victim, threat: ThreatModel, rows: list[AttackRow], rounds: int
) -> tuple[float, float]:
    """Seconds of attacking another model: with nothing known, and after a first trial on the same rows."""
    alone, after = [], []
    for _ in range(rounds):
        with _fresh_memory():
            alone.append(_timed(lambda: _attack(other, threat, rows))[0])
        with _fresh_memory():
            _attack(victim, threat, rows)
            _forget_in_process(victim)
            after.append(_timed(lambda: _attack(other, threat, rows))[0])
    return min(alone), min(after)


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = action()
    return time.perf_counter() - started, found


@contextmanager
def _fresh_memory() -> Iterator[None]:
    """Nothing is known from an earlier attack, neither on disk nor in this process."""
    before = os.environ.get("TUNE_TICKETS_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUNE_TICKETS_CACHE"] = folder
        load_encoder.cache_clear()
        try:
            load_encoder(torch.device("cpu"), torch.float32)
            yield
        finally:
            load_encoder.cache_clear()
            if before is None:
                del os.environ["TUNE_TICKETS_CACHE"]
            else:
                os.environ["TUNE_TICKETS_CACHE"] = before


def _forget_in_process(victim: Victim) -> None:
    """As in another worker of the machine: what is shared is on disk."""
    load_encoder.cache_clear()
    load_encoder(victim.model.device, victim.exact)


@contextmanager
def _listening(heard: Heard, victim: Victim) -> Iterator[None]:
    """Note what the models are asked, and how long their answers take with all that is around the forward passes."""
    channel, encoder = victim._channel, load_encoder(victim.model.device, victim.exact)
    answer, compute = channel.answer, encoder._compute

    def queried(texts: Sequence[Any]) -> Any:  # noqa: ANN401
        heard.victim.extend(texts)
        seconds, found = _timed(lambda: answer(texts))
        heard.seconds["victim"] += seconds
        return found

    def encoded(texts: Sequence[str]) -> Any:  # noqa: ANN401
        heard.encoder.update(dict.fromkeys(texts))
        seconds, found = _timed(lambda: compute(texts))
        heard.seconds["encoder"] += seconds
        return found

    channel.answer, encoder._compute = queried, encoded  # type: ignore[method-assign]
    try:
        yield
    finally:
        channel.answer = answer
        del encoder._compute


def _floor(victim: Victim, heard: Heard) -> float:
    """Seconds of the bare forward passes, all texts known beforehand, tokenised and sorted by length."""
    encoder = load_encoder(torch.device("cpu"), torch.float32)
    tokens: Tokens = encoder._tokens
    return _forward(victim.model, Tokens(victim.tokenizer, victim.max_length), heard.victim, victim.batch_size) + (
        _forward(encoder._model, tokens, list(heard.encoder), 64)
    )


@torch.inference_mode()
def _forward(model: PreTrainedModel, tokens: Tokens, texts: Sequence[str], rows: int) -> float:
    encoded = tokens.encode(texts)
    ready = [batch for _, batch in batches(encoded, tokens.tokenizer, model.device, rows)] if texts else []
    return _timed(lambda: [model(**batch) for batch in ready])[0]


class _PlainEncoder(SentenceEncoder):
    """As the stock constraint has it: all windows of all candidates are encoded, again and again."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        self._plain = SentenceTransformer(str(bundled_encoder_path()), device="cpu")

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        vectors = self._plain.encode([text for pair in zip(*pairs, strict=True) for text in pair])
        half = len(pairs)
        return [float(a @ b) for a, b in zip(vectors[:half], vectors[half:], strict=True)]


def _stock(
    victim: Victim, threat: ThreatModel, rows: list[AttackRow], fixed: bool
) -> tuple[float, list[tuple[str, str, int]]]:
    """Seconds and results of TextAttack's own Attacker with its own wrapper and default arguments."""
    import_textattack()
    from textattack import Attack, AttackArgs, Attacker
    from textattack.datasets import Dataset
    from textattack.goal_functions import UntargetedClassification
    from textattack.models.wrappers import HuggingFaceModelWrapper
    from textattack.search_methods import GreedyWordSwapWIR

    from tune_tickets.attacks.parts import Bugs, SentenceSimilarity
    from tune_tickets.attacks.recipes import attack_maker

    maker = attack_maker(victim, threat, 0, None)
    plain = _PlainEncoder()
    for constraint in maker.constraints:
        if isinstance(constraint, SentenceSimilarity):
            constraint._encoder = plain
    tokenizer = copy(victim.tokenizer)
    tokenizer.model_max_length = min(tokenizer.model_max_length, victim.model.config.max_position_embeddings)

    class Longest(HuggingFaceModelWrapper):  # type: ignore[misc]
        """The stock wrapper, padding to the longest text of the batch."""

        @torch.no_grad()
        def __call__(self, texts: list[str]) -> torch.Tensor:
            inputs = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
            logits: torch.Tensor = self.model(**inputs).logits
            return logits

    wrapper = (Longest if fixed else HuggingFaceModelWrapper)(victim.model, tokenizer)
    results, sink = [], StringIO()
    started = time.perf_counter()
    for row in rows:
        seed = row_seed(_SEED, row.index)
        if isinstance(maker.transformation, Bugs):
            maker.transformation.row_seed = seed
        goal = UntargetedClassification(wrapper)
        attack = Attack(goal, maker.constraints, maker.transformation, GreedyWordSwapWIR(wir_method=threat.ranking))
        arguments = AttackArgs(num_examples=1, disable_stdout=True, silent=True, random_seed=seed)
        with redirect_stdout(sink), redirect_stderr(sink):
            [result] = Attacker(attack, Dataset([(row.texts[0], row.label)]), arguments).attack_dataset()
        kind = type(result).__name__.removesuffix("AttackResult").lower()
        results.append((kind, result.perturbed_result.attacked_text.text, int(result.num_queries)))
    return time.perf_counter() - started, results


def _show(report: dict[str, Any], console: Console) -> None:
    table = Table(
        "threat", "queries", "stock q/s", "fixed q/s", "ours q/s", "x stock", "x fixed", "x floor", "mismatches"
    )
    for row in report["threats"]:
        speed = row["queries_per_second"]
        table.add_row(
            row["threat"],
            str(row["queries"]),
            *(f"{speed[name]:.0f}" for name in ("stock", "padding_fixed", "ours")),
            *(f"{row[name]:.2f}" for name in ("over_stock", "over_padding_fixed", "over_floor")),
            f"{row['mismatches']} of {row['compared_rows']}",
        )
    console.print(table)
    console.print("x floor: our time over that of the bare forward passes of the same texts, in ideal batches")
    for row in report["threats"]:
        shares = ", ".join(f"{name} {100 * share:.0f}%" for name, share in row["share_of_time"].items())
        second = row["second_trial"]["ratio"]
        console.print(f"{row['threat']}: time goes to {shares}; a second model on the same rows takes {second:.2f}x")
