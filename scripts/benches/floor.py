"""What the models are asked in an attack, and how long the forward passes of the same texts take by themselves."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from tune_tickets.attacks.batching import Tokens, batches
from tune_tickets.attacks.cores import spread
from tune_tickets.attacks.encoder import load_encoder
from tune_tickets.attacks.victim import Victim
from tune_tickets.models.first_token import first_token_only

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM


@dataclass
class Heard:
    """The texts that a model was given, to be passed through it once more without anything around."""

    victim: list[str] = field(default_factory=list)
    encoder: dict[str, None] = field(default_factory=dict)
    masked_lm: dict[str, None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: {"victim": 0.0, "encoder": 0.0, "masked_lm": 0.0})


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = action()
    return time.perf_counter() - started, found


@contextmanager
def fresh_memory(masked_lm: "MaskedLM | None") -> Iterator[None]:
    """Nothing is known from an earlier attack, neither on disk nor in this process."""
    if masked_lm is not None:
        vars(masked_lm).pop("_channel", None)
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


def forget_in_process(victim: Victim) -> None:
    """As in another worker of the machine: what is shared is on disk."""
    load_encoder.cache_clear()
    load_encoder(victim.model.device, victim.exact)


@contextmanager
def listening(heard: Heard, victim: Victim, masked_lm: "MaskedLM | None") -> Iterator[None]:
    """Note what the models are asked, and how long their answers take with all that is around the forward passes."""
    channel, encoder = victim._channel, load_encoder(victim.model.device, victim.exact)
    answer, compute = channel.answer, encoder._compute

    def queried(texts: Sequence[Any]) -> Any:  # noqa: ANN401
        heard.victim.extend(texts)
        seconds, found = timed(lambda: answer(texts))
        heard.seconds["victim"] += seconds
        return found

    def encoded(texts: Sequence[str]) -> Any:  # noqa: ANN401
        heard.encoder.update(dict.fromkeys(texts))
        seconds, found = timed(lambda: compute(texts))
        heard.seconds["encoder"] += seconds
        return found

    def proposed(questions: Sequence[tuple[str, int]]) -> Any:  # noqa: ANN401
        heard.masked_lm.update(dict.fromkeys(text for text, _ in questions))
        assert masked_lm is not None
        seconds, found = timed(lambda: type(masked_lm)._compute(masked_lm, questions))
        heard.seconds["masked_lm"] += seconds
        return found

    channel.answer, encoder._compute = queried, encoded  # type: ignore[method-assign]
    if masked_lm is not None:
        vars(masked_lm)["_compute"] = proposed
    try:
        yield
    finally:
        channel.answer = answer
        del encoder._compute
        if masked_lm is not None:
            del vars(masked_lm)["_compute"]


Forward = Callable[[PreTrainedModel, list[dict[str, torch.Tensor]]], None]


def one_by_one(model: PreTrainedModel, ready: list[dict[str, torch.Tensor]]) -> None:
    """The bare passes: every batch on all cores, every token through all layers."""
    for batch in ready:
        model(**batch)


def as_we_do(model: PreTrainedModel, ready: list[dict[str, torch.Tensor]]) -> None:
    """The passes with what we leave out left out: a core per batch, one token through a classifier's last layer."""
    with first_token_only(model):
        list(spread(lambda batch: model(**batch), ready, model.device))


def floor(victim: Victim, masked_lm: "MaskedLM | None", heard: Heard, forward: Forward) -> float:
    """Seconds of the forward passes, all texts known beforehand, tokenised and sorted by length."""
    encoder = load_encoder(torch.device("cpu"), torch.float32)
    tokens = Tokens(victim.tokenizer, victim.max_length)
    seconds = _forward(victim.model, tokens, heard.victim, victim.batch_size, forward)
    seconds += _forward(encoder._model, encoder._tokens, list(heard.encoder), 64, forward)
    if masked_lm is not None:
        seconds += _forward(masked_lm.model, masked_lm.tokens, list(heard.masked_lm), 16, forward)
    return seconds


@torch.inference_mode()
def _forward(model: PreTrainedModel, tokens: Tokens, texts: Sequence[str], rows: int, forward: Forward) -> float:
    encoded = tokens.encode(texts)
    ready = [batch for _, batch in batches(encoded, tokens.tokenizer, model.device, rows)] if texts else []
    return timed(lambda: forward(model, ready))[0]
