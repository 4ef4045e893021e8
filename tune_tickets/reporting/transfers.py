"""One ticket on several tasks: the rows of a table task x metric, and what the search for it took."""

from dataclasses import replace

from tune_tickets.records import MaskedHead, Outcome, Summary
from tune_tickets.reporting.rows import Row

MAIN = "task"


def by_task(shown: list[Row]) -> list[Row]:
    """Each model on each task, the models of one task together, as in ORTicket's Table 1; nothing for a single task."""
    tasks = list(dict.fromkeys(name for row in shown for name in _outcomes(row)))
    if tasks in ([], [MAIN]):
        return []
    return [
        replace(row, name=f"{task}: {row.name}", outcome=_outcomes(row)[task], cost=None, values=(), objections=())
        for task in tasks
        for row in shown
        if task in _outcomes(row)
    ]


def stage_text(summary: Summary) -> str:
    """How many searches the tickets of all trials and tasks took."""
    used = [(name, summary.stages[name]) for name in ("mlm_search", "search") if name in summary.stages]
    said = [f"{name}: {use.computed} computed for {use.asked} trials" for name, use in used]
    return f"{'; '.join(said)}; none was repeated for a task." if said else ""


def head_text(head: MaskedHead | None) -> str:
    """With what masked language model a ticket was searched: a weak one makes for a search with little to learn."""
    assert head is not None
    origin = "The checkpoint has no masked-LM head: one was fitted before the search"
    if not head.fitted:
        origin = "The search on masked text used the checkpoint's own masked-LM head"
    return f"{origin}. It guesses {head.top1:.1f}% of hidden tokens, {head.top10:.1f}% within its ten best."


def _outcomes(row: Row) -> dict[str, Outcome]:
    return {MAIN: row.outcome} | {transfer.name: transfer.outcome for transfer in row.outcome.transfers}
