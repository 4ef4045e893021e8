"""The verb `fetch`: download the resources of the attacks, or list them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from tune_tickets.cli.options import Offline
from tune_tickets.errors import ResourceError
from tune_tickets.offline import go_offline, is_offline

if TYPE_CHECKING:
    from tune_tickets.attacks.fetching import Brought
    from tune_tickets.attacks.resource_table import Resource


def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Resources, e.g. tagger wordnet; default: all")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="A cache folder to copy to machines without a network")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List what is here and which attacks need it")] = False,
    offline: Offline = False,
) -> None:
    """Download and verify what attacks need in addition to the installation: vectors, taggers, WordNet, encoders."""
    if offline:
        go_offline()
    from tune_tickets.attacks.resource_table import CACHE_VARIABLE, RESOURCES, find_resource

    console = Console()
    if show:
        console.print(_inventory())
        return
    wanted = [find_resource(name) for name in names or []]
    if not wanted:
        wanted = [resource for resource in RESOURCES.values() if resource.url or resource.hub]
    problems = []
    for resource in wanted:
        try:
            brought = _bring(resource, to, console)
            line = f"{resource.name}: {brought.how}, {brought.found.identity}, {brought.found.path}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        except ResourceError as error:
            problems.append(str(error))
    if problems:
        raise ResourceError("\n\n".join([f"{len(problems)} of {len(wanted)} resources are missing", *problems]))
    if to is not None:
        console.print(f"On the other machine: {CACHE_VARIABLE}={to}", highlight=False, markup=False, soft_wrap=True)


def _inventory() -> Table:
    """What is here, where, and which threat models need it."""
    from tune_tickets.attacks.resource_table import RESOURCES
    from tune_tickets.attacks.threat import THREATS

    table = Table("resource", Column("found in", overflow="fold"), "identity", "needed by")
    for resource in RESOURCES.values():
        where, identity = _state(resource)
        needing = [threat.name for threat in THREATS.values() if resource.name in threat.needs]
        table.add_row(resource.name, where, identity, ", ".join(needing))
    return table


def _bring(resource: Resource, cache: Path | None, console: Console) -> Brought:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from tune_tickets.attacks.fetching import bring

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(resource.name, total=None, visible=False)
        return bring(
            resource,
            cache,
            is_offline(),
            lambda done, total: bar.update(task, completed=done, total=total, visible=True),
        )


def _state(resource: Resource) -> tuple[str, str]:
    from tune_tickets.attacks.resolver import look

    try:
        found = look(resource)
    except ResourceError as error:
        return f"unusable: {error}", ""
    return ("not here", "") if found is None else (f"{found.where}: {found.path}", found.identity)
