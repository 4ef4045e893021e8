"""The verbs of `tune-tickets store`; what they do waits in `cli.store` until one runs."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _ListByDefault(TyperGroup):
    """`store results` means `store list results`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer hides its type
        """Put the verb in where none is named."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


store_app = typer.Typer(cls=_ListByDefault, help="List, verify or prune the stage store (list, if no verb is named).")

Place = Annotated[
    Path | None, typer.Argument(metavar="RESULTS", help="A results folder, or the folder of several; default results")
]
Url = Annotated[
    str | None, typer.Option("--store", help="The store itself, a folder or fsspec URL; default: by RESULTS")
]


@store_app.command("list")
def list_store(results: Place = None, store: Url = None) -> None:
    """Show what lies in the store, how large it is and which experiments use it."""
    from tune_tickets.cli.store import show

    show(results, store)


@store_app.command()
def verify(
    results: Place = None,
    store: Url = None,
    mend: Annotated[
        bool, typer.Option("--mend", help="Move what is damaged to the quarantine; it is computed again when wanted")
    ] = False,
) -> None:
    """Read everything and compare it with its digest; ends with 1 if something damaged is left."""
    from tune_tickets.cli.store import check

    raise typer.Exit(check(results, store, mend))


@store_app.command()
def prune(
    results: Place = None,
    store: Url = None,
    keep_last: Annotated[int, typer.Option(min=0, help="Keep all weights of so many of the latest experiments")] = 3,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="Also what no experiment found here uses; there may be others elsewhere")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; otherwise only say what would go")] = False,
) -> None:
    """Remove weights that no experiment shows any more; figures, histories, scores and masks stay for ever."""
    from tune_tickets.cli.store import prune as prune_verb

    prune_verb(results, store, keep_last, orphans, yes)
