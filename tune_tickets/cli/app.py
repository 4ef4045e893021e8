"""The console script `tune-tickets`.

Each verb is one function in a file of this folder: its arguments, its help and what it does. Start-up stays fast
because verbs import everything that takes time (pydantic, torch, Ray, MLflow, ...) inside the function.
"""

import errno
import sys
from typing import Annotated

import typer

from tune_tickets import __version__
from tune_tickets.cli.attack import attack
from tune_tickets.cli.check import plan, schema, validate
from tune_tickets.cli.fetch import fetch
from tune_tickets.cli.finished import compare, pictures, report
from tune_tickets.cli.init import init
from tune_tickets.cli.run import confirm, resume, run
from tune_tickets.cli.saved import export, predict
from tune_tickets.cli.store import store_app
from tune_tickets.cli.ui import ui
from tune_tickets.errors import TicketsError
from tune_tickets.offline import go_offline, is_offline

_VERBS = (
    *(run, resume, validate, plan, init),
    *(compare, confirm, pictures, report, ui),
    *(fetch, attack, predict, export, schema),
)
"""In the order of the help page."""

_DISK_ERRORS = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.EISDIR, errno.ENOTDIR, errno.EEXIST),
}
"""System errors that a user can fix. All others keep their traceback."""

app = typer.Typer(
    name="tune-tickets",
    help="Find robust lottery tickets in pre-trained language models by hyperparameter search.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(store_app, name="store")
for _verb in _VERBS:
    app.command()(_verb)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tune_tickets {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit")
    ] = False,
) -> None:
    """Options of every verb."""
    if is_offline():
        go_offline()  # also tells the libraries of the Hugging Face hub


def main(arguments: list[str] | None = None) -> None:
    """Run the command line.

    Errors that the user can fix are printed as one paragraph, without a traceback.

    Args:
        arguments: The verb and its arguments; `sys.argv` if None.

    Raises:
        SystemExit: Always, with the exit code: 0 for success, 2 for wrong input, 130 after Ctrl-C.
    """
    try:
        app(arguments)
    except TicketsError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _DISK_ERRORS or error.filename is None:
            raise
        problem = f"{error.filename} cannot be opened or written: {error.strerror}"
        print(f"Error: {problem}. Check the path, its permissions and the free disk space.", file=sys.stderr)
        sys.exit(TicketsError.exit_code)
