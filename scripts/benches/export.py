"""Speed of an exported ticket compared with the dense model, both in onnxruntime."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import PreTrainedModel

from benches.timing import Json, compared, interleaved, write_json
from tune_tickets.config.task import Model
from tune_tickets.export.onnx_model import check_installed, session, to_onnx
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.families import family_of
from tune_tickets.models.surgery import prune, relative_flops
from tune_tickets.tickets.drawing import draw, random_scores

TEXT = "the film was a gripping and beautifully acted story with very little that is dull in it"
_NAMES = ("input_ids", "attention_mask", "token_type_ids")


def bench(
    model: Annotated[str, typer.Option(help="Backbone: 'bundled' or a folder")] = "bundled",
    heads: Annotated[float, typer.Option(help="Share of heads to cut")] = 1 / 6,
    neurons: Annotated[float, typer.Option(help="Share of neurons to cut")] = 0.3,
    batch: Annotated[list[int], typer.Option(help="Texts per batch; can be repeated")] = [1, 32],  # noqa: B006
    words: Annotated[int, typer.Option(help="Words per text")] = 30,
    rounds: Annotated[int, typer.Option(help="Measured rounds per comparison")] = 40,
    warmup: Annotated[int, typer.Option(help="Rounds before the measured ones")] = 3,
    threads: Annotated[int | None, typer.Option(help="Threads of both runtimes; default: chosen by torch")] = None,
    json: Json = None,
) -> None:
    """Compare an exported structured ticket with the dense model, in onnxruntime and in torch, on the same texts."""
    check_installed()
    torch.set_num_threads(threads or torch.get_num_threads())
    networks, tokenizer = _networks(model, heads, neurons)
    names = tuple(name for name in _NAMES if name in tokenizer("a"))
    with tempfile.TemporaryDirectory() as scratch:
        sessions = {}
        for name, network in networks.items():
            to_onnx(network, names, Path(scratch) / f"{name}.onnx", {})
            sessions[name] = session(Path(scratch) / f"{name}.onnx", torch.get_num_threads())
        sizes = {name: (Path(scratch) / f"{name}.onnx").stat().st_size for name in networks}
        rows = [_compare(networks, sessions, _texts(tokenizer, size, words), rounds, warmup) for size in batch]
    report = {
        "bench": "export",
        "model": model,
        "heads_cut": heads,
        "neurons_cut": neurons,
        "torch": torch.__version__,
        "onnxruntime": _version(),
        "threads": torch.get_num_threads(),
        "bytes": sizes,
        "flops_percent": round(relative_flops(networks["ticket"], rows[0]["tokens"]), 2),
        "rows": rows,
    }
    _show(report)
    write_json(report, json)


def _networks(model: str, heads: float, neurons: float) -> tuple[dict[str, PreTrainedModel], Any]:
    (dense, tokenizer), (ticket, _) = (load_backbone(Model(source=model), ("neg", "pos"), seed=0) for _ in range(2))
    anatomy = family_of(ticket).anatomy(ticket)
    scores = random_scores(anatomy.layers, anatomy.heads, anatomy.neurons, seed=0)
    prune(ticket, draw(*scores, heads=heads, neurons=neurons))
    return {"ticket": ticket, "dense": dense}, tokenizer


def _texts(tokenizer: Any, batch: int, words: int) -> dict[str, Tensor]:  # noqa: ANN401 - of transformers
    """Return texts of equal length, so that padding does not matter. Every text starts with another word."""
    known = TEXT.split()
    texts = [" ".join(known[(start + index) % len(known)] for index in range(words)) for start in range(batch)]
    return dict(tokenizer(texts, padding=True, truncation=True, return_tensors="pt"))


def _compare(
    networks: Mapping[str, PreTrainedModel],
    sessions: Mapping[str, Any],
    inputs: dict[str, Tensor],
    rounds: int,
    warmup: int,
) -> dict[str, Any]:
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    onnx = {f"onnx {name}": partial(opened.run, None, arrays) for name, opened in sessions.items()}
    plain = {f"torch {name}": partial(network, **inputs) for name, network in networks.items()}
    with torch.inference_mode():
        apart = max(
            float((torch.from_numpy(sessions[name].run(None, arrays)[0]) - network(**inputs).logits).abs().max())
            for name, network in networks.items()
        )
        # One runtime after the other: the threads of a runtime keep spinning for a while and would slow down the other.
        timings = interleaved(onnx, rounds, warmup) | interleaved(plain, rounds, warmup)
    batch, tokens = inputs["input_ids"].shape
    return {
        "batch": batch,
        "tokens": tokens,
        "logits_apart": apart,
        "onnxruntime": compared(timings, "onnx ticket", "onnx dense"),
        "torch": compared(timings, "torch ticket", "torch dense"),
        "onnx_over_torch": compared(timings, "onnx ticket", "torch ticket")["ratio"],
    }


def _version() -> str:
    from importlib.metadata import version

    return version("onnxruntime")


def _show(report: dict[str, Any]) -> None:
    table = Table("runtime", "batch", "tokens", "ticket ms", "dense ms", "ratio", "median", "CPU")
    for row in report["rows"]:
        for runtime, prefix in (("onnxruntime", "onnx"), ("torch", "torch")):
            figures = row[runtime]
            milliseconds = (f"{figures[f'{prefix} {name}']['minimum']:.2f}" for name in ("ticket", "dense"))
            ratios = (f"{figures[key]:.3f}" for key in ("ratio", "median_ratio", "cpu_ratio"))
            table.add_row(runtime, str(row["batch"]), str(row["tokens"]), *milliseconds, *ratios)
    console = Console()
    console.print(table)
    for row in report["rows"]:
        ratio = row["onnxruntime"]["ratio"]
        verdict = "faster" if ratio < 1 else "NOT faster"
        console.print(
            f"In onnxruntime, batch {row['batch']}: the ticket takes {ratio:.3f}x the dense model's time ({verdict}), "
            f"with {report['flops_percent']:.1f}% of its FLOPs; logits within {row['logits_apart']:.1e} of torch's"
        )
