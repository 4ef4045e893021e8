"""Charmer (Abad Rocamora et al., ICML 2024): a few edits of single characters, found greedily by the logit margin.

A text of L characters has 2L + 1 slots: its characters, and the gaps before, between and after them. One edit writes a
character into a slot: into a gap it is an insertion, over a character a replacement, and the empty character deletes.
To find an edit, every slot is probed with a blank. The n slots with the smallest margin are kept. There, every
character of the alphabet and the deletion are tried. Up to k edits follow one another.

The search stops at the first success, which may be a probe. Whether it succeeds does not depend on this order.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from tune_tickets.attacks.lockstep import Text
from tune_tickets.attacks.records import Found, Tally
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.attacks.victim import margins
from tune_tickets.attacks.word_rules import is_negation

_BLANK = " "
_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W\d_]+")
_SHORTEST_WORD = 4
"""Shorter words are spared: typo correctors and readers guess them from few letters (Pruthi et al. 2019)."""


def edited(text: str, slot: int, character: str) -> str:
    """Return the text with the character written into the slot. Even slots are gaps, odd ones characters."""
    place, is_character = divmod(slot, 2)
    return text[:place] + character + text[place + is_character :]


def _slots(text: str, spare: bool, done: frozenset[int]) -> dict[int, int]:
    """Return the slots that may be edited, each with the number of its word (-1 if words do not count).

    If words are spared, these are the slots between the first and the last letter of words with at least four letters.
    `done` are the words that were edited before: each word is edited once (Jones et al. 2020).
    """
    if not spare:
        return dict.fromkeys(range(2 * len(text) + 1), -1)
    words = [match.span() for match in _LETTERS.finditer(text)]
    return {
        slot: number
        for number, (start, end) in enumerate(words)
        if end - start >= _SHORTEST_WORD and number not in done
        for slot in range(2 * start + 2, 2 * end - 1)
    }


@dataclass
class _Search:
    """The attack on one row: the best text so far, and every text that was asked for."""

    ask: Callable[[Sequence[str]], torch.Tensor]
    label: int
    budget: int | None
    text: str
    margin: float = 0.0
    prediction: int = 0
    queries: int = 0
    seen: dict[str, tuple[float, int]] = field(default_factory=dict)

    def query(self, texts: Iterable[str]) -> None:
        """Ask for the texts that are new, as far as the budget allows."""
        new = [text for text in dict.fromkeys(texts) if text not in self.seen]
        if self.budget is not None:
            new = new[: self.budget - self.queries]
        if not new:
            return
        logits = self.ask(new)
        self.queries += len(new)
        found = zip(margins(logits, self.label).tolist(), logits.argmax(dim=1).tolist(), strict=True)
        self.seen.update(zip(new, found, strict=True))

    def take_best(self, texts: Iterable[str]) -> bool:
        """Move to the text with the smallest margin if it is smaller than now. Returns whether it is."""
        known = [text for text in texts if text in self.seen]
        best = min(known, key=lambda text: self.seen[text][0], default=self.text)
        better = self.seen[best][0] < self.margin
        if better:
            self.move(best)
        return better

    def move(self, text: str) -> None:
        """Make this text the current one."""
        self.text = text
        self.margin, self.prediction = self.seen[text]

    def fooled(self, texts: Iterable[str]) -> bool:
        """Move to the best of the texts that the model gets wrong. Returns whether there is one."""
        wrong = [text for text in texts if text in self.seen and self.seen[text][1] != self.label]
        if wrong:
            self.move(min(wrong, key=lambda text: self.seen[text][0]))
        return bool(wrong)

    @property
    def spent(self) -> bool:
        """Whether no query is left."""
        return self.budget is not None and self.queries >= self.budget


@dataclass(frozen=True)
class Charmer:
    """The attack of one threat model on one column of the rows."""

    victim: Callable[[Sequence[Text]], torch.Tensor]
    threat: ThreatModel
    column: int
    query_budget: int | None
    tally: Tally = field(default_factory=Tally)

    def running(self) -> AbstractContextManager[None]:
        """Nothing has to be held."""
        return nullcontext()

    def prepare(self, texts: Iterable[str]) -> None:
        """Nothing has to be looked up."""

    def attack(self, columns: Mapping[str, str], label: int, seed: int) -> Found:
        """Attack one row. The seed is not used: nothing is random.

        Args:
            columns: The texts of the row by column, as far as the model reads them.
            label: The true class.
            seed: The seed of the row.

        Returns:
            The text after at most `max_edits` edits, and whether it fools the model.
        """
        texts = tuple(columns.values())
        before, after = texts[: self.column], texts[self.column + 1 :]

        def ask(changed: Sequence[str]) -> torch.Tensor:
            self.tally.candidates += len(changed)
            rows = [(*before, text, *after) for text in changed]
            return self.victim([row[0] if len(row) == 1 else row for row in rows])

        first = ask([texts[self.column]])
        prediction = int(first.argmax())
        search = _Search(ask, label, self.query_budget, texts[self.column], float(margins(first, label)), prediction, 1)
        search.seen[search.text] = (search.margin, prediction)
        self.tally.candidates -= 1  # the row itself is no candidate
        skipped = prediction != label
        fooled = not skipped and self._fool(search)
        changed = (*before, search.text, *after)
        return Found(
            status="skipped" if skipped else "successful" if fooled else "failed",
            texts=changed,
            prediction=prediction,
            perturbed_prediction=search.prediction,
            queries=search.queries,
            classes=first.shape[1],
            words=(" ".join(texts).split(), " ".join(changed).split()),
        )

    def _fool(self, search: _Search) -> bool:
        """Edit until the model is fooled, no edit helps, or all edits are used."""
        done: frozenset[int] = frozenset()
        for _ in range(self.threat.max_edits or 0):
            slots = _slots(search.text, bool(self.threat.spare), done)
            best = self._probe(search, self._important(search, slots))
            if best is None:
                return True
            word = self._edit(search, best, slots)
            if search.prediction != search.label:
                return True
            if word is None or search.spent:
                return False
            done |= {word}
        return False

    def _important(self, search: _Search, slots: Iterable[int]) -> list[int]:
        """Return the slots in and around the words whose deletion hurts most; all slots without a focus.

        Negations are left out: "not" and "hot" are one edit apart, and a model that follows is right.
        """
        if self.threat.focus is None:
            return list(slots)
        text = search.text
        words = [match.span() for match in _WORD.finditer(text) if not is_negation(match.group())]
        without = {span: text[: span[0]] + text[span[1] :] for span in words}
        search.query(without.values())
        known = [span for span in words if without[span] in search.seen]
        best = sorted(known, key=lambda span: search.seen[without[span]][0])[: self.threat.focus]
        near = {slot for start, end in best for slot in range(2 * start, 2 * end + 1)}
        return [slot for slot in slots if slot in near]

    def _probe(self, search: _Search, slots: Sequence[int]) -> list[int] | None:
        """Return the n best slots, or None if a probe already fooled the model."""
        probes = {slot: edited(search.text, slot, _probe_for(search.text, slot)) for slot in slots}
        search.query(probes.values())
        if not self.threat.spare and search.fooled(probes.values()):  # a spared word may not be cut by a blank
            return None
        known = [slot for slot in slots if probes[slot] in search.seen]
        return sorted(known, key=lambda slot: search.seen[probes[slot]][0])[: self.threat.slots]

    def _edit(self, search: _Search, best: Sequence[int], slots: Mapping[int, int]) -> int | None:
        """Try every character in the best slots and keep the best edit. Returns its word, or None without an edit."""
        text, characters = search.text, ["", *(self.threat.alphabet or "")]
        if self.threat.spare:
            characters = [character for character in characters if not character or character.isalpha()]
        tried: dict[str, int] = {}
        for slot in best:
            new = {candidate: slot for character in characters if (candidate := edited(text, slot, character)) != text}
            search.query(new)
            tried = new | tried
            if search.fooled(new):
                return slots[slot]
        return slots[tried[search.text]] if search.take_best(tried) else None


def _probe_for(text: str, slot: int) -> str:
    """Return the blank, or the empty character where the slot holds a blank."""
    place, is_character = divmod(slot, 2)
    return "" if is_character and text[place] == _BLANK else _BLANK
