"""The report in Markdown: the same content for a repository, a wiki or a mail."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from tune_tickets.reports.attacked import harmless, lookalikes
from tune_tickets.reports.page.claims import Claim, Detail
from tune_tickets.reports.page.content import CONTROLS, Content
from tune_tickets.reports.page.figures import FigureTable
from tune_tickets.results.records import Substitution, ThreatRecord

_MARKUP = re.compile(r"[\\`*_{}\[\]#|~!$^=]")
_INTERVAL = re.compile(r"\[[0-9.,% -]+\](?!\(|\[|:)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_LISTS = re.compile(r"^(\s*)([-+]|\d+[.)])(?=\s)")
_LINKS = (("://", "&#58;//"), ("www.", "www&#46;"))  # some readers turn bare addresses into links


def escaped(text: str) -> str:
    """Escape text for one line of Markdown. Intervals such as [1.0-2.0] stay unchanged."""
    parts, end = [], 0
    shown = harmless(text)
    for interval in _INTERVAL.finditer(shown):
        parts += [_escaped(shown[end : interval.start()]), interval.group()]
        end = interval.end()
    line = "".join([*parts, _escaped(shown[end:])])
    for found, instead in _LINKS:
        line = line.replace(found, instead)
    return _LISTS.sub(lambda match: f"{match[1]}{match[2][:-1]}\\{match[2][-1]}", line)


def code(text: str) -> str:
    """Return text as a code span, or escaped if it has characters that would end the span or a table cell."""
    shown = harmless(text)
    return f"`{shown}`" if shown and not set("`|\\<") & set(shown) else escaped(shown)


def table(lines: Iterable[Sequence[str]]) -> str:
    """Return a table of escaped cells; the first line is the header."""
    header, *rest = [[cell or " " for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rest))


def bullets(lines: Iterable[str]) -> str:
    """Return a list of escaped lines."""
    return "\n".join(f"- {line}" for line in lines)


def block(lines: Sequence[str], language: str) -> str:
    """Return a code block. Its fence is longer than any run of backticks in the lines."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *map(harmless, lines), fence])


def _escaped(text: str) -> str:
    marked = _MARKUP.sub(lambda match: f"\\{match.group()}", text)
    return "".join(_ENTITIES.get(letter, letter) for letter in marked)


MARKS = {"selected": "**selected**", "front": "front", "barred": "ruled out"}


def markdown_page(content: Content, picture_files: Iterable[str] = ()) -> str:
    """Return the whole page. Pictures are shown if their files, relative to the page, are named."""
    files = set(picture_files)
    sections: list[tuple[str, Iterator[str]]] = [
        (escaped(content.experiment), _head(content)),
        ("Confirmed on report rows", _confirmed(content)),
        ("What was searched", _searched(content)),
        ("Trials and controls", _trials(content)),
        ("Pictures", _pictures(content, files)),
        (content.title, _chosen(content)),
        ("The same tickets on every task", _tasks(content)),
        ("Controls", _controls(content)),
        ("Threat models", _threats(content)),
        ("Cost", _cost(content)),
        ("Reproduce and load", _again(content)),
    ]
    parts = []
    for index, (title, body) in enumerate(sections):
        if found := [part for part in body if part]:
            parts += [f"{'#' if index == 0 else '##'} {title}", *found]
    return "\n\n".join(parts) + "\n"


def _head(content: Content) -> Iterator[str]:
    if content.verdict:
        yield f"**{escaped(content.verdict.sentence)}**"
    yield f"Report of a search for robust tickets. {escaped(content.state)}."
    if content.cards:
        yield table([["", "", ""], *(list(map(escaped, card)) for card in content.cards)])
    if content.not_confirmed:
        yield f"> {escaped(content.not_confirmed)}"


def _confirmed(content: Content) -> Iterator[str]:
    if content.confirmed:
        yield _cells(content.confirmed.cells)
        yield escaped(content.confirmed.meaning)
        yield _claims((*content.confirmed.claims, *content.confirmed.further))
        yield bullets(map(escaped, content.confirmed.problems))


def _searched(content: Content) -> Iterator[str]:
    yield _pairs(content.facts)
    yield bullets(map(escaped, content.objective))
    if len(content.domains) > 1:
        yield _cells(content.domains, code)


def _trials(content: Content) -> Iterator[str]:
    if content.table is None:
        yield "No trial is complete."
    else:
        yield _figures(content.table)
        yield bullets(map(escaped, content.flags))
        yield "\n\n".join(map(escaped, content.legend))
    yield _settings(content.details)
    yield bullets(
        f"{escaped(detail.name)} ({escaped(detail.status)}): {escaped('; '.join(detail.said))}"
        for detail in content.details
        if detail.status in ("failed", "pruned", "interrupted") and detail.said
    )


def _settings(details: Sequence[Detail]) -> str:
    """The settings of every trial, with a column per searched setting."""
    trials = [detail for detail in details if detail.status != "control"]
    names = list(dict.fromkeys(name for detail in trials for name, _ in detail.settings))
    if not names:
        return ""
    values = [(detail, dict(detail.settings)) for detail in trials]
    lines = [[escaped(detail.name), *(code(found.get(name, "")) for name in names)] for detail, found in values]
    return table([["trial", *map(code, names)], *lines])


def _pictures(content: Content, files: set[str]) -> Iterator[str]:
    for picture in content.pictures:
        path = f"pictures/{picture.name}.png"
        if path in files:
            yield f"![{escaped(picture.title)}]({path})"
            yield escaped(picture.caption)


def _chosen(content: Content) -> Iterator[str]:
    yield f"**{escaped(content.reason)}**"
    yield _claims(content.claims)
    if content.chosen:
        yield bullets(map(escaped, content.chosen.said))
        yield table([["setting", "value"], *([code(name), code(value)] for name, value in content.chosen.settings)])


def _tasks(content: Content) -> Iterator[str]:
    if content.tasks:
        yield escaped(content.tasks_said)
        yield _figures(content.tasks)


def _controls(content: Content) -> Iterator[str]:
    if content.controls:
        yield escaped(CONTROLS)
        yield _figures(content.controls)


def _threats(content: Content) -> Iterator[str]:
    for threat in content.threats:
        yield f"### {escaped(threat.name)}"
        yield f"Fingerprint {code(threat.fingerprint)}."
        yield _pairs(tuple(threat.resources.items()))
        yield escaped(content.rejections.get(threat.fingerprint, ""))
        yield _substitutions(threat)


def _substitutions(threat: ThreatRecord) -> str:
    if not threat.substitutions:
        return "It changed no text."
    lines = [[str(found.row), _change(found), _similarity(found), _outcome(found)] for found in threat.substitutions]
    title = f"{len(lines)} random substitutions, made against {escaped(threat.substitutions_of or '-')}:"
    return "\n\n".join([title, table([["row", "text", "similarity", "attack"], *lines])])


def _change(found: Substitution) -> str:
    old, new = (f"~~{escaped(found.old)}~~" if found.old.strip() else "", f"**{escaped(found.new)}**")
    seen = f"({strange})" if (strange := lookalikes(found)) else ""
    return " ".join(part for part in (escaped(found.left), old, new, seen, escaped(found.right)) if part)


def _similarity(found: Substitution) -> str:
    return "-" if found.similarity is None else f"{found.similarity:.2f}"


def _outcome(found: Substitution) -> str:
    return "succeeded" if found.successful else "failed"


def _cost(content: Content) -> Iterator[str]:
    yield _pairs(content.cost)
    if len(content.stages) > 1:
        yield _cells(content.stages)
    yield escaped(content.baselines)


def _again(content: Content) -> Iterator[str]:
    yield (
        f"`config.yaml` in the results folder is the whole configuration, with seed {content.seed} "
        f"(sha256 {code(content.digest)}). In the folder that holds it:"
    )
    yield block(content.reproduce, "bash")
    yield escaped(content.paths)
    if content.load:
        yield f"The ticket is one file, {code(content.ticket or '')}:"
        yield block(content.load, "python")
    yield table([["package", "version"], *([escaped(name), escaped(found)] for name, found in content.versions)])


def _figures(shown: FigureTable) -> str:
    header = ["model", "", *map(escaped, shown.whole_headers)]
    lines = [[escaped(line.name), MARKS.get(line.mark, ""), *map(escaped, line.cells)] for line in shown.lines]
    return table([header, *lines])


def _cells(lines: Sequence[Sequence[str]], show: Callable[[str], str] = escaped) -> str:
    header, *rest = lines
    return table([list(map(escaped, header)), *(list(map(show, line)) for line in rest)])


def _pairs(found: Iterable[tuple[str, str]]) -> str:
    return bullets(f"{escaped(name)}: {escaped(value)}" for name, value in found)


def _claims(found: Iterable[Claim]) -> str:
    return bullets(escaped(claim.text) for claim in found)
