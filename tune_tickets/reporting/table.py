"""The closing table of a search, like the papers' main tables: trials and controls in rows, sentences below."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Console

from tune_tickets.config.title import ADVERSARIES
from tune_tickets.records import AttackFigures, CostBaseline, Summary
from tune_tickets.reporting.compare import verdict
from tune_tickets.reporting.layout import print_rows, say
from tune_tickets.reporting.out_of_distribution import ood_sentences
from tune_tickets.reporting.rows import Row, rows
from tune_tickets.reporting.transfers import by_task, head_text, stage_text

TOP = 10
COST_LEGEND = (
    "passes, seconds: training cost as a multiple of that of PGD or FreeLB training of the whole model. A pass is "
    "forward and backward over the training rows, each adversarial pass one; +search adds what finding the ticket took."
)


def print_table(summary: Summary, console: Console, top: int = TOP) -> None:
    """Print the best `top` trials, the best of every method and their controls, then what can be said of them."""
    shown = rows(summary, top)
    say(console, _count(summary, top))
    if shown:
        print_rows(console, shown)
        if tasks := by_task(shown):
            console.print()
            say(console, f"The same tickets on every task. {stage_text(summary)}")
            print_rows(console, tasks)
        for line in explanations(summary, shown):
            say(console, line, style="dim")
    console.print()
    say(console, summary.selected.reason, style="bold")
    if summary.selected.trial is not None:
        say(console, verdict(summary.selected.comparisons))
    for line in ood_sentences(summary):
        say(console, line)


def explanations(summary: Summary, shown: list[Row]) -> Iterator[str]:
    """What must be known to read the figures of these rows, beside the legend."""
    yield from dict.fromkeys(head_text(row.outcome.masked_head) for row in shown if row.outcome.masked_head)
    fitted = [figures for row in shown for figures in row.outcome.attacks if figures.masked_lm is not None]
    yield from dict.fromkeys(map(_proposer, fitted))
    if any(row.cost for row in shown):
        yield f"{COST_LEGEND} {baselines_text(summary)}"


def baselines_text(summary: Summary) -> str:
    """What training costs are relative to."""
    trials = {trial.id: f"trial {trial.number}" for trial in summary.trials}
    return " ".join(_baseline(baseline, trials) for baseline in summary.cost_baselines)


def _baseline(baseline: CostBaseline, trials: Mapping[str, str]) -> str:
    name = ADVERSARIES[baseline.adversary]
    work = f"{baseline.epochs} epochs of {name}-{baseline.steps}, {baseline.passes:g} passes"
    if baseline.trial is None:
        return f"{name} was not run: computed for {work}."
    return f"{name} is {trials[baseline.trial]}: {work}."


def _proposer(figures: AttackFigures) -> str:
    """Who proposed the words of an attack, if that was fitted for it: a weak one makes for a weak attack."""
    found = figures.masked_lm
    assert found is not None
    accuracy = f"guesses {found.top1:.1f}% of hidden tokens, {found.top10:.1f}% within its ten best"
    return f"{figures.threat}: the masked language model that proposes its words {accuracy}."


def _count(summary: Summary, top: int) -> str:
    states = Counter(trial.status for trial in summary.trials)
    parts = ", ".join(f"{number} {status}" for status, number in states.items()) or "none"
    best = f"; the best {top} are shown" if states["complete"] > top else ""
    return f"{summary.experiment}: {len(summary.trials)} trials ({parts}){best}"
