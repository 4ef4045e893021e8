"""Finished experiments side by side for people: on the terminal, and as a Markdown page."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tune_tickets.reporting.compare import sentence
from tune_tickets.reporting.finished import Finished
from tune_tickets.reporting.layout import LEGEND, print_rows, say
from tune_tickets.reporting.rows import ABSENT, Row, groups
from tune_tickets.reporting.setting_text import chosen_text
from tune_tickets.reporting.side_by_side import PairedWinners, SideBySide, compared_rows
from tune_tickets.reporting.table import COST_LEGEND, baselines_text

SAME = "No setting that all of them have differs."
CAVEAT = "These rows also steered the searches: confirm the tickets on report rows before claiming more."


def print_comparison(experiments: list[Finished], found: SideBySide, console: Console) -> None:
    """One table of all winners and controls, what can be said of them, and what differs in the settings."""
    say(console, "\n".join(_headings(found)))
    if shown := compared_rows(experiments):
        print_rows(console, shown)
        say(console, "\n".join(_costs(experiments)), style="dim")
    console.print()
    say(console, "\n".join(_sentences(found)))
    console.print()
    header, *settings = _settings(experiments, found)
    table = Table(title="What differs in the settings", title_justify="left")
    for name in header:
        table.add_column(name, overflow="fold")  # two names that are cut off may look the same
    for line in settings:
        table.add_row(*map(Text, line))
    console.print(table if settings else SAME)
    say(console, _own_settings(experiments, found))


def comparison_markdown(experiments: list[Finished], found: SideBySide) -> str:
    """The same as a Markdown page."""
    parts = ["# Experiments side by side", _bullets(_headings(found))]
    if shown := compared_rows(experiments):
        parts += [_table(_figures(shown)), LEGEND, "\n\n".join(_costs(experiments))]
    header, *settings = _settings(experiments, found)
    differing = _table([header, *settings]) if settings else SAME
    parts += [_bullets(_sentences(found)), "## What differs in the settings", differing]
    return "\n\n".join(part for part in (*parts, _own_settings(experiments, found)) if part) + "\n"


def _headings(found: SideBySide) -> Iterator[str]:
    for one in found.experiments:
        yield f"{one.label}: {one.experiment} in {one.folder} ({one.status})"


def _costs(experiments: list[Finished]) -> Iterator[str]:
    yield COST_LEGEND
    for one in experiments:
        if one.summary.cost_baselines:
            yield f"{one.label}: {baselines_text(one.summary)}"


def _sentences(found: SideBySide) -> Iterator[str]:
    yield from found.notes
    yield from map(_sentence, found.comparisons)
    if found.comparisons:
        yield CAVEAT


def _sentence(comparison: PairedWinners) -> str:
    named = comparison.model_copy(update={"other": f"that of {comparison.other}"})
    return sentence(named, subject=f"the winner of {comparison.one}")


def _settings(experiments: list[Finished], found: SideBySide) -> Iterator[list[str]]:
    """A header, then the settings that all experiments have, each with its values."""
    yield ["setting", *(one.label for one in experiments)]
    for name, values in found.differences.items():
        if len(values) == len(experiments):
            yield [name, *(chosen_text(one, name) for one in experiments)]


def _own_settings(experiments: list[Finished], found: SideBySide) -> str:
    own = [name for name, values in found.differences.items() if len(values) < len(experiments)]
    if not own:
        return ""
    return f"{len(own)} more belong to some of the experiments only, such as {own[0]}: --json FILE names them."


def _figures(shown: list[Row]) -> Iterator[list[str]]:
    """The columns of the terminal's tables in one; a title stands on each of the columns it covers."""
    columns = [column for group in groups(shown, "±") for column in group]
    headers, title = ["model"], ""
    for above, below in (column.header for column in columns):
        title = above or title
        headers.append(f"{title} {below}".strip())
    yield headers
    for row in shown:
        yield [f"{row.mark} {row.name}".strip(), *(column.cell(row) for column in columns)]


def _table(lines: Iterator[list[str]] | Sequence[list[str]]) -> str:
    header, *rest = ([cell.replace("|", "\\|") or ABSENT for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rest))


def _bullets(lines: Iterator[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
