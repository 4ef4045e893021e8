"""Record the queries of an attack, and time the plain forward passes of the same texts."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from tune_tickets.attacks.lockstep import Tokens, batches, spread
from tune_tickets.attacks.neighbours import load_encoder
from tune_tickets.attacks.victim import Victim

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM


@dataclass
class Heard:
    """The texts that each model was given, so that they can be timed again in plain forward passes."""

    victim: list[str] = field(default_factory=list)
    encoder: dict[str, None] = field(default_factory=dict)
    masked_lm: dict[str, None] = field(default_factory=dict)
    busy: dict[str, list[float]] = field(default_factory=lambda: {"victim": [], "encoder": [], "masked_lm": []})
    """Core-seconds of every pass."""

    def shares(self, seconds: float) -> dict[str, float]:
        """Return the share of all cores' time that the passes of each model took, and the rest."""
        found = {name: sum(spent) / torch.get_num_threads() / seconds for name, spent in self.busy.items()}
        return {**found, "rest": 1 - sum(found.values())}


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = action()
    return time.perf_counter() - started, found


@contextmanager
def fresh_memory(masked_lm: "MaskedLM | None") -> Iterator[None]:
    """Run without answers of earlier attacks, neither on disk nor in this process."""
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
    """Empty the caches of this process but not those on disk, as for another worker of the machine."""
    load_encoder.cache_clear()
    load_encoder(victim.model.device, victim.exact)


@contextmanager
def listening(heard: Heard, victim: Victim, masked_lm: "MaskedLM | None") -> Iterator[None]:
    """Record the queries to the models and the duration of their passes."""
    encoder = load_encoder(victim.model.device, victim.exact)
    listeners = [
        _instead(victim._channel, "answer", _noting(heard.victim.extend)),
        _instead(encoder, "_compute", _noting(lambda texts: heard.encoder.update(dict.fromkeys(texts)))),
        _instead(victim, "_forward", _clocked(heard.busy["victim"])),
        _instead(encoder, "_pooled", _clocked(heard.busy["encoder"])),
    ]
    if masked_lm is not None:
        note = _noting(lambda questions: heard.masked_lm.update(dict.fromkeys(text for text, _ in questions)))
        listeners += [
            _instead(masked_lm, "_compute", note),
            _instead(masked_lm, "_likeliest", _clocked(heard.busy["masked_lm"])),
        ]
    with ExitStack() as stack:
        for listener in listeners:
            stack.enter_context(listener)
        yield


Listener = Callable[[Callable[[Any], Any], Any], Any]
"""Called with a method and its argument."""


@contextmanager
def _instead(owner: object, name: str, listener: Listener) -> Iterator[None]:
    """Replace a method of one object by a listener that calls it."""
    before, work = vars(owner).get(name), getattr(owner, name)
    vars(owner)[name] = partial(listener, work)
    try:
        yield
    finally:
        if before is None:
            del vars(owner)[name]
        else:
            vars(owner)[name] = before


def _noting(note: Callable[[Any], None]) -> Listener:
    def listener(work: Callable[[Any], Any], asked: Any) -> Any:  # noqa: ANN401
        note(asked)
        return work(asked)

    return listener


def _clocked(spent: list[float]) -> Listener:
    def listener(work: Callable[[Any], Any], item: Any) -> Any:  # noqa: ANN401
        seconds, found = timed(lambda: work(item))
        spent.append(seconds)
        return found

    return listener


@dataclass(frozen=True)
class Floors:
    """Seconds for the same texts if all are known in advance, tokenised and sorted by length."""

    bare: float
    """Each batch on all cores, every token through all layers."""
    ours: float
    """With our shortcuts, one core per batch."""
    arithmetic: float
    """The floating-point operations of `ours` at the speed of this machine's best matrix product."""


def floors(victim: Victim, masked_lm: "MaskedLM | None", heard: Heard) -> Floors:
    """Time the forward passes without anything else."""
    encoder = load_encoder(torch.device("cpu"), torch.float32)
    asked = [
        _Asked(
            victim.model, Tokens(victim.tokenizer, victim.max_length), heard.victim, victim._forward, victim.batch_size
        ),
        _Asked(encoder._model, encoder._tokens, list(heard.encoder), encoder._pooled, 64),
    ]
    if masked_lm is not None:
        model: PreTrainedModel = masked_lm.model
        texts = list(heard.masked_lm)
        asked.append(_Asked(model, masked_lm.tokens, texts, lambda batch: model(**batch), 16))
    return Floors(
        bare=sum(each.seconds(lambda one, ready: [one.model(**batch) for batch in ready]) for each in asked),
        ours=sum(each.seconds(lambda one, ready: list(spread(one.ours, ready, one.model.device))) for each in asked),
        arithmetic=sum(each.flops() for each in asked) / _flops_per_second(),
    )


@dataclass(frozen=True)
class _Asked:
    model: PreTrainedModel
    tokens: Tokens
    texts: Sequence[str]
    ours: Callable[[dict[str, torch.Tensor]], Any]
    rows: int

    def seconds(self, passes: Callable[["_Asked", list[dict[str, torch.Tensor]]], Any]) -> float:
        with torch.inference_mode():
            ready = self._batches()
            return timed(lambda: passes(self, ready))[0]

    def flops(self) -> int:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            for batch in self._batches():
                self.ours(batch)
        return int(counter.get_total_flops())

    def _batches(self) -> list[dict[str, torch.Tensor]]:
        encoded = self.tokens.encode(self.texts)
        made = batches(encoded, self.tokens.tokenizer, self.model.device, self.rows) if self.texts else []
        return [batch for _, batch in made]


def _flops_per_second() -> float:
    """Measure a matrix product that is large enough for all cores."""
    left, right = torch.rand(2048, 1536), torch.rand(1536, 1536)
    best = min(timed(lambda: left @ right)[0] for _ in range(10))
    return 2 * 2048 * 1536 * 1536 / best
