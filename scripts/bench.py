"""`python scripts/bench.py NAME [--json FILE]`: measure costs on this machine, as ratios to a baseline."""

import typer
from benches import attack, checkpoints, export, masks, search

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("attack")(attack.bench)
app.command("checkpoints")(checkpoints.bench)
app.command("export")(export.bench)
app.command("masks")(masks.bench)
app.command("search")(search.bench)


@app.callback()
def front() -> None:
    """Measure costs on this machine, as ratios to a baseline that is timed in the same run."""


if __name__ == "__main__":
    app()
