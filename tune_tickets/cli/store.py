"""The verbs of `store`: what lies in the stage store and who uses it, whether it is sound, and what may go."""

from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.table import Column, Table

from tune_tickets.cli.meter import Meter
from tune_tickets.config import load_experiment
from tune_tickets.config.method import built_in_methods
from tune_tickets.engine.inventory import Entry, inventory, searches_at_work
from tune_tickets.engine.inventory import verify as find_flaws
from tune_tickets.engine.quarantine import QUARANTINE
from tune_tickets.engine.stage import kind_of_stage
from tune_tickets.engine.store import Store
from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.results.folder import DEFAULT_ROOT, finished_results
from tune_tickets.search.cleaning import Policy, Removal, StoreUser, removals, remove, store_users


def show(place: Path | None, url: str | None) -> None:
    """Print the table of stages, then that of experiments."""
    built_in_methods()  # makes their kinds of stages known
    store, users = _open(place, url)
    entries, console = inventory(store), Console()
    kinds: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        kinds[entry.name].append(entry)
    table = Table("stage", "number", "size", "unfinished", "used by none found here")
    for name, found in kinds.items():
        # Rows and texts are put there by drivers, and trials do not name them.
        kind = kind_of_stage(name)
        known = kind is not None and kind.from_driver
        orphans = [entry for entry in found if not known and not any(entry.digest in user.uses for user in users)]
        unfinished = sum(not any(entry.results()) for entry in found)
        table.add_row(name, str(len(found)), _sizes(found), str(unfinished), f"{len(orphans)} ({_sizes(orphans)})")
    table.add_row("all", str(len(entries)), _sizes(entries), "", "", style="bold")
    console.print(f"Store {store.url}", highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    _print_users(users, entries, console)
    aside = [size for path, size in store.files().items() if path.startswith(f"{QUARANTINE}/")]
    if aside:
        console.print(f"In quarantine: {len(aside)} files, {decimal(sum(aside))}", highlight=False)
    for search in searches_at_work(store):
        console.print(f"At work now: {search}", highlight=False, markup=False, soft_wrap=True)


def check(place: Path | None, url: str | None, mend: bool) -> int:
    """Verify everything; gives the exit code."""
    store, _ = _open(place, url)
    entries = inventory(store)
    with Meter(f"verifying {store.url}", len(entries), "stages") as meter:
        flaws = find_flaws(store, entries, meter)
    for flaw in flaws:
        print(f"{flaw.name} {flaw.digest[:12]}: {flaw.reason}")
        if mend:
            flaw.set_aside(store)
    size = decimal(sum(entry.size for entry in entries))
    print(
        f"{len(entries)} stages, {size}: {len(flaws)} damaged{' and moved to the quarantine' * bool(flaws and mend)}."
    )
    if flaws:
        print("What is not there is computed again when it is wanted." if mend else "Move it aside with --mend.")
    return 1 if flaws and not mend else 0


def prune(place: Path | None, url: str | None, keep_last: int, orphans: bool, yes: bool) -> None:
    """Say what goes, and let it go if asked to."""
    store, users = _open(place, url)
    found = removals(store, inventory(store), users, Policy(keep_last, orphans))
    kept = ", ".join(user.folder.name for user in users[:keep_last]) or "none"
    print(f"{len(users)} experiments found; all weights of the last {keep_last} stay ({kept}),")
    print("and of every one those of its front, its selected ticket and what that is compared with.")
    for what, removed in _by_kind(found).items():
        print(f"  {what}: {len(removed)}, {decimal(sum(removal.size for removal in removed))}")
    freed = decimal(sum(removal.size for removal in found))
    if at_work := searches_at_work(store):
        reason = f"nothing is pruned while a search works on the store {store.url}: {'; '.join(at_work)}. Wait for it"
        if yes:
            raise TicketsError(reason)
        print(f"Not now: {reason}.")
    if not yes:
        print(f"{freed} would be freed; nothing was touched. Do it with --yes.")
        return
    with Meter(f"pruning {store.url}", len(found), "removals") as meter:
        for done, removal in enumerate(found, start=1):
            remove(store, removal)
            meter(done, len(found))
    print(f"{freed} freed.")


def _open(place: Path | None, url: str | None) -> tuple[Store, list[StoreUser]]:
    """The store, and the experiments around it."""
    place = place if place is not None else _around(url)
    if url is None and (place / "config.yaml").is_file():
        url = finished_results(place, load_experiment(place / "config.yaml").settings, None).store_url
    elif url is None and (place / "store").is_dir():
        url = str((place / "store").resolve())
    if url is None:
        raise ConfigError(f"there is no stage store in {place}: name a results folder, or the store with --store")
    store = Store(url).answering()
    if not store.files():
        raise ConfigError(f"the store {url} is empty or not there: name another with --store")
    return store, store_users(place)


def _around(url: str | None) -> Path:
    return Path(url).parent if url is not None and Path(url).is_dir() else DEFAULT_ROOT


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
