"""The verb `fetch`: bring the resources of the attacks, or show which are here."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Column, Table

from tune_tickets.attacks.fetching import Brought, bring
from tune_tickets.attacks.resolver import look
from tune_tickets.attacks.resource_table import CACHE_VARIABLE, RESOURCES, Resource, find_resource
from tune_tickets.attacks.threat import THREATS
from tune_tickets.errors import ResourceError
from tune_tickets.offline import is_offline


def fetch(names: list[str], cache: Path | None, offline: bool) -> None:
    """Bring the named resources, or all that can be fetched."""
    wanted = [find_resource(name) for name in names]
    if not wanted:
        wanted = [resource for resource in RESOURCES.values() if resource.url or resource.hub]
    console = Console()
    problems = []
    for resource in wanted:
        try:
            brought = _bring(resource, cache, offline or is_offline(), console)
            line = f"{resource.name}: {brought.how}, {brought.found.identity}, {brought.found.path}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        except ResourceError as error:
            problems.append(str(error))
    if problems:
        raise ResourceError("\n\n".join([f"{len(problems)} of {len(wanted)} resources are missing", *problems]))
    if cache is not None:
        console.print(f"On the other machine: {CACHE_VARIABLE}={cache}", highlight=False, markup=False, soft_wrap=True)


def show() -> None:
    """Print what is here, where, and which threat models need it."""
    table = Table("resource", Column("found in", overflow="fold"), "identity", "needed by")
    for resource in RESOURCES.values():
        where, identity = _state(resource)
        needing = [threat.name for threat in THREATS.values() if resource.name in threat.needs]
        table.add_row(resource.name, where, identity, ", ".join(needing))
    Console().print(table)


def _bring(resource: Resource, cache: Path | None, offline: bool, console: Console) -> Brought:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(resource.name, total=None, visible=False)
        return bring(
            resource,
            cache,
            offline,
            lambda done, total: bar.update(task, completed=done, total=total, visible=True),
        )


def _state(resource: Resource) -> tuple[str, str]:
    try:
        found = look(resource)
    except ResourceError as error:
        return f"unusable: {error}", ""
    return ("not here", "") if found is None else (f"{found.where}: {found.path}", found.identity)
