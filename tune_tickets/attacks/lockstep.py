"""Many attacks in lock-step: each runs until it needs a model, then waits; the questions of all are answered at once.

An attack is ordinary TextAttack code that knows nothing of this. It runs in a greenlet, and a `Channel` in the place
of a model hands its question over. Attacks see the same answers, in the same order, as if each ran alone.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from greenlet import getcurrent, greenlet

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class Channel(Generic[Question, Answer]):
    """Stands for a model: questions in, one answer for each out. Outside of `in_lockstep` it answers at once."""

    def __init__(self, answer: Callable[[Sequence[Question]], Sequence[Answer]]) -> None:
        self.answer = answer

    def ask(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """The answers, after all attacks that run beside the caller have asked theirs."""
        attack = getcurrent()
        if not questions:
            return []
        if not isinstance(attack, _Attack):
            return self.answer(questions)
        answers: Sequence[Answer] = attack.parent.switch(_Asked(self, questions))
        return answers


def in_lockstep(jobs: Iterable[Callable[[], Result]], width: int) -> Iterator[tuple[int, Result]]:
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
    """One call per channel for all who wait for it, side by side: one model's last batch leaves cores to the next."""
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
