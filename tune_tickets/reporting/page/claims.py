"""What can and what cannot be told apart, each sentence with what it is worth."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tune_tickets.confirmation import Confirmation
from tune_tickets.records import Summary
from tune_tickets.reporting.compare import CAVEAT, sentence
from tune_tickets.reporting.confirm_table import ALPHA
from tune_tickets.reporting.confirm_table import sentence as seed_sentence
from tune_tickets.reporting.out_of_distribution import ood_claims
from tune_tickets.reporting.page.source import Source

Worth = Literal["better", "worse", "unknown", "note"]


@dataclass(frozen=True)
class Claim:
    """`unknown` is a difference that the rows or seeds cannot show."""

    worth: Worth
    text: str


def claims(summary: Summary) -> Iterator[Claim]:
    """Of the selected ticket beside controls and the next best, on select rows."""
    for found in summary.selected.comparisons:
        yield Claim(_worth(found.distinguishable, found.difference), sentence(found))
    for twin, text in ood_claims(summary):
        yield Claim(_worth(twin.distinguishable, twin.difference) if twin else "note", text)
    if summary.selected.comparisons:
        yield Claim("note", CAVEAT)
    elif summary.selected.trial is not None:
        yield Claim("note", "No other model under the same threat model stands beside the chosen ticket.")


def confirmed_claims(found: Confirmation, selected: str | None) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """On report rows, beside the controls: of the selected ticket as a whole, and all others."""
    main: list[Claim] = []
    further: list[Claim] = []
    for test in found.tests:
        known = test.p_value is not None and test.p_value < ALPHA
        claim = Claim(_worth(known, test.difference), seed_sentence(test))
        whole = not (test.metric.startswith("ood/") and test.metric.count("/") > 1)
        (main if whole and test.ticket == (selected or test.ticket) else further).append(claim)
    return tuple(main), tuple(further)


def not_confirmed(source: Source) -> str:
    """What the figures on select rows lack; empty if the chosen ticket was confirmed."""
    selected, found = source.summary.selected.trial, source.confirmation
    command = f"tune-tickets confirm {source.finished.folder.name}"
    if selected is None:
        return ""
    if found is None:
        return (
            "Not confirmed. The rows behind these figures also steered the search, so they flatter what it chose. "
            f"Fresh seeds and rows that nothing was chosen by: {command}"
        )
    if found.config_digest != source.summary.config_digest:
        return f"The confirmation belongs to another configuration of this experiment: run {command} again."
    if selected not in found.tickets:
        return f"{selected}, which the search has chosen by now, is not among the confirmed tickets: {command}"
    return ""


def _worth(known: bool, difference: float) -> Worth:
    if not known:
        return "unknown"
    return "better" if difference > 0 else "worse"
