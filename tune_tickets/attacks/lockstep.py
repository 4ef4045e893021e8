"""Many attacks in lock-step: each runs until it needs a model, then waits; the questions of all are answered at once.

An attack is ordinary code that does not know this. It runs in a greenlet, and a `Channel` stands in for the model and
passes its questions on. Attacks see the same answers, in the same order, as if each ran alone.
"""

import logging
import math
import random
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from threading import Barrier, Lock
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from greenlet import getcurrent, greenlet
from transformers import PreTrainedTokenizerBase

_Value = TypeVar("_Value", bytes, str)
_log = logging.getLogger(__name__)
_AT_ONCE = 500
_WAIT_SECONDS = 5.0
_REMEMBERED = 2**16
"""Answers kept in the process; the others are read again from disk."""


class Memory(Generic[_Value]):
    """Answers by question, in one SQLite file. It only saves time: if it fails, attacks continue without it."""

    def __init__(self, path: Path) -> None:
        self._known: dict[bytes, _Value] = {}
        self._disk = _opened(path)

    def answers(
        self, questions: Sequence[tuple[str, ...]], compute: Callable[[list[int]], list[_Value]]
    ) -> list[_Value]:
        """Return the answer to each question. `compute` gets the places of the new questions."""
        keys = [_key(question) for question in questions]
        if len(self._known) + len(keys) > _REMEMBERED:
            self._known.clear()
        self._recall([key for key in dict.fromkeys(keys) if key not in self._known])
        place = {key: place for place, key in enumerate(keys) if key not in self._known}
        if place:
            new = dict(zip(place, compute(list(place.values())), strict=True))
            self._known.update(new)
            self._keep(new)
        return [self._known[key] for key in keys]

    def _recall(self, keys: Sequence[bytes]) -> None:
        for start in range(0, len(keys) if self._disk else 0, _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            self._known.update(self._ask(f"SELECT key, value FROM answers WHERE key IN ({marks})", some))

    def _ask(self, statement: str, keys: Sequence[bytes]) -> list[tuple[bytes, _Value]]:
        try:
            return self._disk.execute(statement, keys).fetchall() if self._disk else []
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _keep(self, new: dict[bytes, _Value]) -> None:
        if self._disk:
            try:
                with self._disk:
                    self._disk.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", list(new.items()))
            except sqlite3.Error as error:
                self._give_up(error)

    def _give_up(self, error: sqlite3.Error) -> None:
        _log.warning("the memory of the attacks is no longer used in this process: %s", error)
        self._disk = None


def _key(question: tuple[str, ...]) -> bytes:
    parts = "\0".join(f"{len(part)} {part}" for part in question)
    return blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _opened(path: Path) -> sqlite3.Connection | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
        disk.execute("PRAGMA journal_mode=WAL")
        disk.execute("PRAGMA synchronous=OFF")  # what a crash loses is computed again
        disk.execute("CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, value) WITHOUT ROWID")
        return disk
    except (OSError, sqlite3.Error) as error:
        _log.warning("attacks continue without a memory on disk, %s cannot be used: %s", path, error)
        return None


Text = str | tuple[str, ...]

_CPU_TOKENS, _FEWEST_TOKENS = 256, 128
"""Tokens a batch may hold on a CPU: more of them are no faster and leave a core idle at the end, fewer are slower."""
_CPU_OVERHEAD, _GPU_OVERHEAD = 24, 1024
"""Cost of a batch in addition to its tokens, in tokens. A rough number that decides between padding and batches."""
_REMEMBERED_TOKENS = 2**17

_encodings: dict[tuple[str, int], dict[Text, dict[str, list[int]]]] = {}
"""By tokenizer and maximum length: attacks on the same rows ask for much the same texts, trial after trial."""
_one_at_a_time = Lock()


class Tokens:
    """A tokenizer with a memory that all of its kind in this process share."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        self.tokenizer = tokenizer
        self._max_length = max_length
        backend = getattr(tokenizer, "backend_tokenizer", None)
        name = backend.to_str() if backend is not None else str(id(tokenizer))
        self._known = _encodings.setdefault((name, max_length), {})

    def encode(self, texts: Sequence[Text]) -> list[dict[str, list[int]]]:
        """What the model reads of each text, without padding."""
        with _one_at_a_time:
            new = list(dict.fromkeys(text for text in texts if text not in self._known))
            if len(self._known) + len(new) > _REMEMBERED_TOKENS:
                self._known.clear()
                new = list(dict.fromkeys(texts))
            if new:
                columns = zip(*((text,) if isinstance(text, str) else text for text in new), strict=True)
                found = self.tokenizer(*map(list, columns), truncation=True, max_length=self._max_length)
                for row, text in enumerate(new):
                    self._known[text] = {name: values[row] for name, values in found.items()}
            return [self._known[text] for text in texts]


def batches(
    encoded: Sequence[dict[str, list[int]]], tokenizer: PreTrainedTokenizerBase, device: torch.device, rows: int
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Batches of at most `rows` rows, each with the places its rows have in `encoded`; the longest first, so that
    cores that share them are done at about the same time."""
    by_length = sorted(range(len(encoded)), key=lambda place: len(encoded[place]["input_ids"]))
    lengths = [len(encoded[place]["input_ids"]) for place in by_length]
    budget, overhead = (_for_each_core(sum(lengths)), _CPU_OVERHEAD) if device.type == "cpu" else (None, _GPU_OVERHEAD)
    for start, stop in reversed(_cheapest(lengths, rows, budget, overhead)):
        places = by_length[start:stop]
        yield places, _padded([encoded[place] for place in places], tokenizer, device)


def _for_each_core(tokens: int) -> int:
    """Tokens of a batch on a CPU, so that few texts still are batches enough for all cores."""
    return min(_CPU_TOKENS, max(_FEWEST_TOKENS, math.ceil(tokens / torch.get_num_threads())))


def _cheapest(lengths: Sequence[int], rows: int, budget: int | None, overhead: int) -> list[tuple[int, int]]:
    """Where to cut sorted texts into batches so that padded tokens, and a batch's own cost in tokens, are fewest."""
    cost, cut = [0], [0]
    for stop in range(1, len(lengths) + 1):
        longest = lengths[stop - 1]
        most = rows if budget is None else max(1, min(rows, budget // longest))
        starts = range(max(0, stop - most), stop)
        least, best = min((cost[start] + overhead + (stop - start) * longest, start) for start in starts)
        cost.append(least)
        cut.append(best)
    found: list[tuple[int, int]] = []
    stop = len(lengths)
    while stop:
        found.append((cut[stop], stop))
        stop = cut[stop]
    return found[::-1]


def _padded(
    rows: Sequence[dict[str, list[int]]], tokenizer: PreTrainedTokenizerBase, device: torch.device
) -> dict[str, torch.Tensor]:
    filling = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    length = len(rows[-1]["input_ids"])  # the longest: rows come sorted
    return {
        name: torch.tensor([row[name] + [filling.get(name, 0)] * (length - len(row[name])) for row in rows]).to(device)
        for name in rows[0]
    }


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def spread(work: Callable[[_Item], _Result], items: Iterable[_Item], device: torch.device) -> Iterator[_Result]:
    """The results in the order of the items, several under way at once on a CPU; one by one elsewhere."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield from map(_without_gradients(work), items)
    else:
        yield from _single_threads(threads).map(_without_gradients(work), items)


def _without_gradients(work: Callable[[_Item], _Result]) -> Callable[[_Item], _Result]:
    """Inference mode belongs to a thread, so each call enters it by itself."""

    def quietly(item: _Item) -> _Result:
        with torch.inference_mode():
            return work(item)

    return quietly


@cache
def _single_threads(count: int) -> ThreadPoolExecutor:
    """Return threads in which torch uses one core each. Other threads of the process keep their setting."""
    together = Barrier(count)

    def settle() -> None:
        torch.get_num_threads()  # or the default of the process would come over the setting at the first operation
        torch.set_num_threads(1)
        together.wait()

    pool = ThreadPoolExecutor(count, "one-core", initializer=settle)
    for _ in range(count):
        pool.submit(int)
    pool.submit(int).result()
    torch.set_num_threads(count)  # for threads yet to come: the setting is kept per thread, its default per process
    return pool


_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")


class Channel(Generic[_Question, _Answer]):
    """Stands for a model: questions in, one answer for each out. Outside of `in_lockstep` it answers at once."""

    def __init__(self, answer: Callable[[Sequence[_Question]], Sequence[_Answer]]) -> None:
        self.answer = answer

    def ask(self, questions: Sequence[_Question]) -> Sequence[_Answer]:
        """Return the answers, after all attacks that run at the same time have asked theirs."""
        attack = getcurrent()
        if not questions:
            return []
        if not isinstance(attack, _Attack):
            return self.answer(questions)
        answers: Sequence[_Answer] = attack.parent.switch(_Asked(self, questions))
        return answers


def in_lockstep(jobs: Iterable[Callable[[], _Result]], width: int) -> Iterator[tuple[int, _Result]]:
    """Run the jobs, at most `width` at a time; yields (number, result) as they finish. An exception in one ends all.

    Every job has random generators of its own, which start where the caller's are when the job starts.
    """
    waiting = deque(enumerate(jobs))
    ready: deque[_Attack] = deque()
    asking: list[_Attack] = []
    while waiting or ready or asking:
        while waiting and len(ready) + len(asking) < width:
            ready.append(_Attack(*waiting.popleft()))
        if not ready:
            _answer_all(asking)
            ready.extend(asking)
            asking.clear()
        attack = ready.popleft()
        attack.go_on()
        if attack.dead:
            yield attack.number, attack.result
        else:
            asking.append(attack)


@dataclass
class _Asked:
    """What an attack waits for."""

    channel: Channel[Any, Any]
    questions: Sequence[Any]


@dataclass
class _Generators:
    """The state of the global random generators, which TextAttack draws from."""

    states: tuple[Any, Any] = field(default_factory=lambda: (random.getstate(), np.random.get_state()))

    def install(self) -> None:
        """Make them the global ones."""
        random.setstate(self.states[0])
        np.random.set_state(self.states[1])


class _Attack(greenlet):  # type: ignore[misc]
    """One job, its random generators, and what it waits for."""

    def __init__(self, number: int, job: Callable[[], Any]) -> None:
        super().__init__(job)
        self.number = number
        self.result: Any = None
        self.asked: _Asked | None = None
        self.answers: Sequence[Any] | None = None
        self._generators = _Generators()

    def go_on(self) -> None:
        """Run until the next question or the end."""
        self._generators.install()
        said = self.switch() if self.asked is None else self.switch(self.answers)
        if self.dead:
            self.result = said
        else:
            self.asked, self._generators = said, _Generators()


def _answer_all(attacks: Sequence[_Attack]) -> None:
    """Make one call per channel for all attacks that wait for it. Channels run in parallel to keep all cores busy."""
    by_channel: dict[int, list[_Attack]] = {}
    for attack in attacks:
        assert attack.asked is not None
        by_channel.setdefault(id(attack.asked.channel), []).append(attack)
    first, *others = by_channel.values()
    if not others:
        _answer(first)
        return
    with ThreadPoolExecutor(len(by_channel)) as threads:
        list(threads.map(_answer, by_channel.values()))


def _answer(group: Sequence[_Attack]) -> None:
    asked = [attack.asked for attack in group if attack.asked is not None]
    answers = asked[0].channel.answer([question for each in asked for question in each.questions])
    start = 0
    for attack, each in zip(group, asked, strict=True):
        attack.answers = answers[start : start + len(each.questions)]
        start += len(each.questions)
