"""The verbs of `store`: list what is in the stage store and who uses it, verify it, and remove what is not needed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Column, Table
from typer.core import TyperGroup

from tune_tickets.errors import ConfigError, TicketsError

if TYPE_CHECKING:
    from tune_tickets.engine.inventory import Entry
    from tune_tickets.engine.store import Store
    from tune_tickets.search.cleaning import Removal, StoreUser


class _ListByDefault(TyperGroup):
    """`store results` means `store list results`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer hides its type
        """Insert the verb `list` if none is given."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


store_app = typer.Typer(cls=_ListByDefault, help="List, verify or prune the stage store (without a verb: list).")

_Place = Annotated[
    Path | None,
    typer.Argument(metavar="RESULTS", help="A results folder, or a folder of several; default: results"),
]
_Url = Annotated[
    str | None, typer.Option("--store", help="The store itself, a folder or fsspec URL; default: found from RESULTS")
]


@store_app.command("list")
def list_store(results: _Place = None, store: _Url = None) -> None:
    """Show what is in the store, how large it is and which experiments use it."""
    from tune_tickets.config.method import built_in_methods
    from tune_tickets.engine.inventory import inventory, searches_at_work
    from tune_tickets.engine.quarantine import QUARANTINE
    from tune_tickets.engine.stage import kind_of_stage

    built_in_methods()  # makes their kinds of stages known
    opened, users = _open(results, store)
    entries, console = inventory(opened), Console()
    kinds: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        kinds[entry.name].append(entry)
    table = Table("stage", "number", "size", "unfinished", "used by none found here")
    for name, found in kinds.items():
        # Rows and texts are stored by drivers; trials do not name them.
        kind = kind_of_stage(name)
        known = kind is not None and kind.from_driver
        orphans = [entry for entry in found if not known and not any(entry.digest in user.uses for user in users)]
        unfinished = sum(not any(entry.results()) for entry in found)
        table.add_row(name, str(len(found)), _sizes(found), str(unfinished), f"{len(orphans)} ({_sizes(orphans)})")
    table.add_row("all", str(len(entries)), _sizes(entries), "", "", style="bold")
    console.print(f"Store {opened.url}", highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    _print_users(users, entries, console)
    aside = [size for path, size in opened.files().items() if path.startswith(f"{QUARANTINE}/")]
    if aside:
        console.print(f"In quarantine: {len(aside)} files, {decimal(sum(aside))}", highlight=False)
    for search in searches_at_work(opened):
        console.print(f"Running now: {search}", highlight=False, markup=False, soft_wrap=True)


@store_app.command()
def verify(
    results: _Place = None,
    store: _Url = None,
    mend: Annotated[
        bool,
        typer.Option("--mend", help="Move damaged results to the quarantine; they are computed again when needed"),
    ] = False,
) -> None:
    """Read everything and compare it with its digest. The exit code is 1 if damaged results are left."""
    from tune_tickets.cli.live import Meter
    from tune_tickets.engine.inventory import inventory
    from tune_tickets.engine.inventory import verify as find_flaws

    opened, _ = _open(results, store)
    entries = inventory(opened)
    with Meter(f"verifying {opened.url}", len(entries), "stages") as meter:
        flaws = find_flaws(opened, entries, meter)
    for flaw in flaws:
        print(f"{flaw.name} {flaw.digest[:12]}: {flaw.reason}")
        if mend:
            flaw.set_aside(opened)
    moved = " and moved to the quarantine" * bool(flaws and mend)
    print(f"{len(entries)} stages, {_sizes(entries)}: {len(flaws)} damaged{moved}.")
    if flaws:
        print("What was moved is computed again when it is needed." if mend else "Move it away with --mend.")
    raise typer.Exit(1 if flaws and not mend else 0)


@store_app.command()
def prune(
    results: _Place = None,
    store: _Url = None,
    keep_last: Annotated[int, typer.Option(min=0, help="Keep all weights of this many of the latest experiments")] = 3,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Also remove what no experiment found here uses; others may still use it"),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only show what would be removed")] = False,
) -> None:
    """Remove weights that no experiment shows any more. Metrics, histories, scores and masks are always kept."""
    from tune_tickets.cli.live import Meter
    from tune_tickets.engine.inventory import inventory, searches_at_work
    from tune_tickets.search.cleaning import Policy, removals, remove

    opened, users = _open(results, store)
    found = removals(opened, inventory(opened), users, Policy(keep_last, orphans))
    kept = ", ".join(user.folder.name for user in users[:keep_last]) or "none"
    print(f"{len(users)} experiments found. All weights of the last {keep_last} are kept ({kept}),")
    print("and of every experiment those of its front, its selected ticket and the controls.")
    for what, removed in _by_kind(found).items():
        print(f"  {what}: {len(removed)}, {decimal(sum(removal.size for removal in removed))}")
    freed = decimal(sum(removal.size for removal in found))
    if running := searches_at_work(opened):
        reason = f"nothing is removed while a search uses the store {opened.url}: {'; '.join(running)}. Wait for it"
        if yes:
            raise TicketsError(reason)
        print(f"Not now: {reason}.")
    if not yes:
        print(f"{freed} would be freed; nothing was removed. Do it with --yes.")
        return
    with Meter(f"cleaning {opened.url}", len(found), "removals") as meter:
        for done, removal in enumerate(found, start=1):
            remove(opened, removal)
            meter(done, len(found))
    print(f"{freed} freed.")


def _open(place: Path | None, url: str | None) -> tuple[Store, list[StoreUser]]:
    """Return the store, and the experiments around it."""
    from tune_tickets.config import load_experiment
    from tune_tickets.engine.store import Store
    from tune_tickets.results.folder import DEFAULT_ROOT, finished_results
    from tune_tickets.search.cleaning import store_users

    if place is None:
        place = Path(url).parent if url is not None and Path(url).is_dir() else DEFAULT_ROOT
    if url is None and (place / "config.yaml").is_file():
        url = finished_results(place, load_experiment(place / "config.yaml").settings, None).store_url
    elif url is None and (place / "store").is_dir():
        url = str((place / "store").resolve())
    if url is None:
        raise ConfigError(f"there is no stage store in {place}: name a results folder, or the store with --store")
    store = Store(url).answering()
    if not store.files():
        raise ConfigError(f"the store {url} is empty or does not exist: name another with --store")
    return store, store_users(place)


def _print_users(users: list[StoreUser], entries: list[Entry], console: Console) -> None:
    folder = Column("experiment (latest first)", overflow="fold")
    table = Table(folder, "stages here", "size", "of its front, winner and controls")
    for user in users:
        used = [entry for entry in entries if entry.digest in user.uses]
        shown = [entry for entry in used if entry.digest in user.shows]
        table.add_row(str(user.folder), str(len(used)), _sizes(used), _sizes(shown))
    console.print(table)


def _by_kind(found: list[Removal]) -> dict[str, list[Removal]]:
    kinds: dict[str, list[Removal]] = defaultdict(list)
    for removal in found:
        kinds[removal.what if removal.entry is None else f"{removal.what} ({removal.entry.name})"].append(removal)
    return kinds


def _sizes(entries: list[Entry]) -> str:
    return decimal(sum(entry.size for entry in entries))
