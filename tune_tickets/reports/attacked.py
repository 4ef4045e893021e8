"""What the verb `attack` prints: a column of figures per attack, the comparison of two models, and attacked texts."""

from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tune_tickets.attacks.records import Measurement
from tune_tickets.reports.comparisons import sentence
from tune_tickets.results.metrics import Metric, columns_of, shown
from tune_tickets.results.records import Comparison, Substitution

MARKED = "[[{old} -> {new}]]"
_LONGEST_SAME = 240  # characters of an unchanged stretch that are shown whole
_ENDS = 100
_ELLIPSIS = " ... "


def say(console: Console, text: str, style: str = "") -> None:
    """Print text. Control characters are escaped. Piped output is not wrapped, so that it can be searched."""
    shown = "\n".join(harmless(line, console.encoding) for line in text.split("\n"))
    console.print(Text(shown, style=style), soft_wrap=not console.is_terminal)


def harmless(text: str, encoding: str = "utf-8") -> str:
    """Escape control characters and characters that the encoding lacks, such as \\x1b."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def lookalikes(found: Substitution) -> str:
    """Name inserted non-ASCII letters: U+0430 looks like an a."""
    fresh = sorted({letter for letter in found.new if not letter.isascii()} - set(found.old))
    return " ".join(f"U+{ord(letter):04X}" for letter in fresh)


def marked_text(pieces: Sequence[tuple[str, str]], colour: bool, encoding: str = "utf-8") -> Text:
    """Show a text from its (old, new) pieces: changes in colour or as [[old -> new]], long unchanged parts cut."""
    shown = Text()
    for index, (old, new) in enumerate(pieces):
        if old == new:
            same = _shortened(old, first=index == 0, last=index == len(pieces) - 1)
            shown.append(harmless(same, encoding))
        elif colour:
            shown.append(harmless(old, encoding), "red strike")
            shown.append(" " if old else "")
            shown.append(harmless(new, encoding), "bold green")
        else:
            shown.append(MARKED.format(old=harmless(old, encoding), new=harmless(new, encoding)))
    return shown


def substitution_text(found: Substitution, colour: bool, encoding: str = "utf-8") -> Text:
    """Show one substitution on a line: similarity, success, and the change with its context."""
    similarity = "    " if found.similarity is None else f"{found.similarity:.2f}"
    head = Text(f"{similarity} {'success' if found.successful else 'failed '}  ")
    sides = [(found.left, found.left), (found.old, found.new), (found.right, found.right)]
    return head + marked_text(sides, colour, encoding)


def substitution_page(threat: str, model: str, found: Iterable[Substitution]) -> str:
    """Return the substitutions of one threat model as plain text, for a file."""
    lines = [substitution_text(one, colour=False).plain for one in found]
    header = f"{threat} against {model}: {len(lines)} random substitutions (similarity of the whole text, outcome)"
    return "\n".join([header, *(lines or ["nothing was changed"])]) + "\n"


def _shortened(text: str, first: bool, last: bool) -> str:
    if len(text) <= _LONGEST_SAME:
        return text
    head = "" if first else text[:_ENDS]
    tail = "" if last else text[-_ENDS:]
    return text[:_LONGEST_SAME] + _ELLIPSIS if first and last else head + _ELLIPSIS + tail


_GAP = 2
_MEANING = (
    "Clean%: right before the attack. Aua%: right before and after. Suc%: successful attacks / rows attacked. #Query: "
    "mean per row attacked. Words changed and similarity: means over successful attacks. Intervals are 95%. "
    "Only columns with the same fingerprint can be compared."
)
_SPEED = "Seconds and queries/s do not show which model is faster: the second attack finds cached results of the first."
Figure = Callable[[Measurement], str]


def print_figures(measurements: Sequence[Measurement], console: Console) -> None:
    """Print one column per model and threat model, in several tables if they do not fit side by side."""
    models = list(dict.fromkeys(measured.model for measured in measurements))
    letters = {model: chr(ord("A") + index) for index, model in enumerate(models)}
    console.print()
    if len(models) > 1:
        for model, letter in letters.items():
            say(console, f"{letter} = {model}")
    rows = _rows(measurements, "±" if console.encoding.lower().startswith("utf") else "+-")
    label_width = max(len(label) for label, _ in rows)
    widths = [max(len(one.figures.threat), *(len(show(one)) for _, show in rows)) for one in measurements]
    for start, end in _packed(widths, console.width - label_width):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP, 0, 0))
        table.add_column("", no_wrap=True)
        for measured in measurements[start:end]:
            below = f"\n{letters[measured.model]}" if len(models) > 1 else ""
            table.add_column(Text(f"{measured.figures.threat}{below}"), justify="right", no_wrap=True)
        for label, show in rows:
            table.add_row(label, *(Text(show(measured)) for measured in measurements[start:end]))
        console.print(table)
        console.print()
    say(console, f"{_MEANING} {_SPEED}" if len(models) > 1 else _MEANING, style="dim")


def print_comparisons(found: Sequence[Comparison], console: Console) -> None:
    """Print whether the first model of `print_figures` differs from the second, per threat model."""
    console.print()
    for comparison in found:
        say(console, sentence(comparison.model_copy(update={"other": "B"}), subject="A"))


def print_texts(
    texts: Sequence[tuple[str, Sequence[tuple[str, Sequence[tuple[str, str]]]]]], title: str, console: Console
) -> None:
    """Print attacked texts under their headings; each has one part per column, as (name, pieces)."""
    console.print()
    say(console, title, style="bold")
    for heading, parts in texts:
        say(console, heading, style="dim")
        for name, pieces in parts:
            shown = marked_text(pieces, console.color_system is not None, console.encoding)
            prefix = f"  {harmless(name, console.encoding)}: " if len(parts) > 1 else "  "
            console.print(Text(prefix) + shown, soft_wrap=not console.is_terminal)


def print_substitutions(measured: Measurement, console: Console) -> None:
    """Print the sampled substitutions of one attack."""
    found = measured.substitutions
    console.print()
    title = f"{measured.figures.threat} on {measured.model}: {len(found)} random substitutions to judge"
    say(console, title, style="bold")
    for one in found:
        line = substitution_text(one, console.color_system is not None, console.encoding)
        console.print(Text("  ") + line, soft_wrap=not console.is_terminal)


def _rows(measurements: Sequence[Measurement], plus_minus: str) -> list[tuple[str, Figure]]:
    constraints = dict.fromkeys(name for measured in measurements for name in measured.figures.rejected)
    rows: list[tuple[str, Figure]] = [
        ("rows", lambda one: str(one.figures.rows)),
        ("skipped (wrong before)", lambda one: str(one.figures.skipped)),
        ("Clean%", lambda one: _clean(one, plus_minus)),
        *((metric.column.removesuffix(" [95%]"), _attacked(metric)) for metric in columns_of("<threat>")),
        ("words changed %", lambda one: f"{one.figures.words_changed:.1f}"),
        ("similarity", lambda one: "-" if one.figures.similarity is None else f"{one.figures.similarity:.3f}"),
    ]
    if any(measured.figures.candidates for measured in measurements):
        rows.append(("candidates", lambda one: str(one.figures.candidates)))
    rows += [(f"  % rejected: {name}", _rejected(name)) for name in constraints]
    return [
        *rows,
        ("seconds", lambda one: f"{one.seconds:.1f}"),
        ("queries/s", lambda one: f"{one.queries_per_second:.0f}"),
        ("fingerprint", lambda one: one.figures.fingerprint),
    ]


def _rejected(name: str) -> Figure:
    return lambda one: f"{one.figures.rejected[name]:.1f}" if name in one.figures.rejected else "-"


def _clean(measured: Measurement, plus_minus: str) -> str:
    low, high = measured.clean_interval
    return f"{measured.figures.clean:.1f} {plus_minus}{(high - low) / 2:.1f}"


def _attacked(metric: Metric) -> Figure:
    return lambda one: shown(metric, one.figures) or "-"


def _packed(widths: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Group columns that fit side by side, as (first, last + 1)."""
    groups: list[tuple[int, int]] = []
    used = 0
    for index, width in enumerate(widths):
        used += width + _GAP
        if groups and used <= room:
            groups[-1] = (groups[-1][0], index + 1)
        else:
            groups.append((index, index + 1))
            used = width + _GAP
    return groups
