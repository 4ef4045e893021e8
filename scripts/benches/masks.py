"""Cost of RobustT's masks: time and memory of a training step, and a ticket's forward pass, compared with dense."""

from collections.abc import Iterator
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel

from benches.timing import Json, compared, interleaved, write_json
from tune_tickets.config.task import Model
from tune_tickets.config.training import Adversary
from tune_tickets.methods.robustt import RobustT
from tune_tickets.methods.robustt.masks import Search
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.families import family_of
from tune_tickets.tickets.drawing import draw_unstructured
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.losses import cross_entropy, logits_of
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.trainer import Recipe, Trainer

LIMIT = 1.15
"""A masked training step may take this many times as long as a dense one, at the first size."""
_PLAIN = Adversary(kind="none")
_ADVERSARIES = (_PLAIN, Adversary(kind="freelb", steps=3))
_EPOCHS = 1000


def bench(
    model: Annotated[str, typer.Option(help="Backbone: 'bundled' or a folder")] = "bundled",
    tokens: Annotated[list[int], typer.Option(help="Tokens per row; can be repeated")] = [64, 32],  # noqa: B006
    batch: Annotated[int, typer.Option(help="Rows per step")] = 32,
    rounds: Annotated[int, typer.Option(help="Measured rounds per comparison")] = 12,
    warmup: Annotated[int, typer.Option(help="Rounds before the measured ones")] = 2,
    threads: Annotated[int | None, typer.Option(help="Number of torch threads; default: chosen by torch")] = None,
    json: Json = None,
) -> None:
    """Compare RobustT's masked training step and the folded ticket with the dense model, in time and memory."""
    if threads is not None:
        torch.set_num_threads(threads)
    report = {
        "bench": "masks",
        "model": model,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "batch": batch,
        "limit": LIMIT,
        "steps": [
            _step(model, batch, size, adversary, rounds, warmup) for size in tokens for adversary in _ADVERSARIES
        ],
        "memory": _memory(model, batch, tokens[0]),
        "attack": [_attack(model, batch, size, rounds, warmup) for size in tokens],
    }
    _show(report)
    write_json(report, json)


def rows_of(network: PreTrainedModel, batch: int, tokens: int) -> EncodedRows:
    """Return rows without padding: exactly batch x tokens."""
    ids = torch.randint(5, network.config.vocab_size, (batch, tokens), dtype=torch.int32)
    return EncodedRows(ids, None, torch.full((batch,), tokens), torch.arange(batch) % 2)


def network_of(model: str) -> PreTrainedModel:
    """Load the backbone with a new classifier."""
    return load_backbone(Model(source=model), ("negative", "positive"), seed=0)[0]


def dense_training(network: PreTrainedModel, rows: EncodedRows, batch: int, adversary: Adversary) -> Trainer:
    """The plain training of all weights."""
    recipe = Recipe(Batches(rows, batch, 0), cross_entropy, adversary, _EPOCHS, 0.1, 1.0, seed=0)
    return Trainer(network, build_optimizer(network, 2e-5, 0.01), recipe)


def _masked(network: PreTrainedModel, rows: EncodedRows, batch: int, adversary: Adversary) -> Iterator[object]:
    method = RobustT(adversary=adversary, batch_size=batch, epochs=float(_EPOCHS), penalty_start=0.0)
    search = Search(method, network, rows, seed=0, device="cpu")
    with search.attached():
        yield from search.steps()


def _step(model: str, batch: int, tokens: int, adversary: Adversary, rounds: int, warmup: int) -> dict[str, Any]:
    networks = network_of(model), network_of(model)
    rows = rows_of(networks[0], batch, tokens)
    dense = dense_training(networks[0], rows, batch, adversary).steps()
    masked = _masked(networks[1], rows, batch, adversary)
    timings = interleaved({"dense": lambda: next(dense), "masked": lambda: next(masked)}, rounds, warmup)
    passes = adversary.steps if adversary.kind == "freelb" else 1
    return {"tokens": tokens, "passes": passes, **compared(timings, "masked", "dense")}


def _memory(model: str, batch: int, tokens: int) -> dict[str, Any]:
    """Return the bytes of the gradients and of AdamW's state after one backward pass and one step."""
    found = {}
    for name in ("dense", "masked"):
        network = network_of(model)
        rows = rows_of(network, batch, tokens)
        if name == "dense":
            optimizer = build_optimizer(network, 2e-5, 0.01)
            gradients = _gradient_bytes(network, rows, batch)
        else:
            search = Search(RobustT(), network, rows, seed=0, device="cpu")
            optimizer = build_optimizer(search.gates, 0.05, 1e-6)
            with search.attached():
                gradients = _gradient_bytes(network, rows, batch)
        optimizer.step()
        found[name] = {"gradients": gradients, "optimizer_state": _state_bytes(optimizer)}
    ratios = {f"{kind}_ratio": round(found["masked"][kind] / found["dense"][kind], 4) for kind in found["dense"]}
    return {**found, **ratios}


def _gradient_bytes(network: PreTrainedModel, rows: EncodedRows, batch: int) -> int:
    torch.autograd.backward(cross_entropy(network, Batches(rows, batch, 0)[0]))
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    return sum(gradient.numel() * gradient.element_size() for gradient in gradients)


def _state_bytes(optimizer: torch.optim.Optimizer) -> int:
    tensors = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _attack(model: str, batch: int, tokens: int, rounds: int, warmup: int) -> dict[str, Any]:
    """Time the forward pass of an attack: a ticket with 30% of the weights set to zero, and the dense model."""
    dense, folded = network_of(model), network_of(model)  # loaded in eval mode
    weights = {name: linear.weight for name, linear in family_of(folded).weight_matrices(folded).items()}
    draw_unstructured({name: weight.detach().abs() for name, weight in weights.items()}, 0.3).fold(weights)
    inputs = Batches(rows_of(dense, batch, tokens), batch, 0)[0]
    with torch.inference_mode():
        actions = {"dense": lambda: logits_of(dense, inputs), "folded": lambda: logits_of(folded, inputs)}
        timings = interleaved(actions, rounds, warmup)
    return {"tokens": tokens, **compared(timings, "folded", "dense")}


def _show(report: dict[str, Any]) -> None:
    table = Table("masked or folded, against dense", "tokens", "ms", "dense ms", "ratio", "median", "CPU")
    for step in report["steps"]:
        _add(table, "training step" if step["passes"] == 1 else f"FreeLB-{step['passes']} step", step, "masked")
    for forward in report["attack"]:
        _add(table, "forward in an attack", forward, "folded")
    console = Console()
    console.print(table)
    memory = report["memory"]
    console.print(
        f"Training only masks needs {memory['gradients_ratio']:.2f}x the gradient bytes of full training and "
        f"{memory['optimizer_state_ratio']:.2f}x its optimizer state."
    )
    first = report["steps"][0]
    verdict = "within" if first["ratio"] <= LIMIT else "over"
    console.print(
        f"{first['ratio']:.3f}x at {report['batch']} x {first['tokens']} tokens: {verdict} the limit of {LIMIT}x"
    )


def _add(table: Table, name: str, row: dict[str, Any], one: str) -> None:
    milliseconds = (f"{row[key]['minimum']:.1f}" for key in (one, "dense"))
    ratios = (f"{row[key]:.3f}" for key in ("ratio", "median_ratio", "cpu_ratio"))
    table.add_row(name, str(row["tokens"]), *milliseconds, *ratios)
