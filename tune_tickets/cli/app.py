"""The console script `tune-tickets`: one verb per command. Heavy imports wait until a verb runs."""

import errno
import sys
from pathlib import Path
from typing import Annotated

import typer

from tune_tickets import __version__
from tune_tickets.cli.store_app import store_app
from tune_tickets.errors import TicketsError
from tune_tickets.offline import go_offline, is_offline

app = typer.Typer(
    name="tune-tickets",
    help="Find robust lottery tickets in pre-trained language models by hyperparameter search.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
OF_THE_DISK = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.EISDIR, errno.ENOTDIR, errno.EEXIST),
}
"""What a person can mend; all other errors of the system keep their traceback."""
app.add_typer(store_app, name="store")

Yaml = Annotated[
    Path, typer.Argument(metavar="EXPERIMENT.yaml", help="The experiment, e.g. search_spaces/earlyrobust.yaml")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Overrides, e.g. search.trials=4 method.adversary.steps=2"),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Results folder; default results/<name>-<time>"),
]
RetryErrors = Annotated[bool, typer.Option("--retry-errors", help="Try trials that ended with an error again")]
Offline = Annotated[bool, typer.Option("--offline", help="Never touch the network; say what is missing")]
Saved = Annotated[
    str, typer.Argument(metavar="TICKET", help="A ticket file, a results folder, a transformers folder or a hub id")
]


@app.command()
def run(
    experiment: Yaml,
    overrides: Overrides = None,
    output: Output = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the experiment in --output")] = False,
    retry_errors: RetryErrors = False,
    store: Annotated[
        str | None,
        typer.Option(help="Stage store (folder or fsspec URL); default beside the results"),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster to join: 'auto' on one of its nodes, or host:port; as resources.address"),
    ] = None,
    offline: Offline = False,
) -> None:
    """Run a search and keep the best ticket."""
    if offline:
        go_offline()
    from tune_tickets.cli.run import run as run_verb

    shorthands = [f"resources.address={address}"] if address is not None else []
    run_verb(experiment, [*(overrides or []), *shorthands], output, resume, store, retry_errors)


@app.command()
def resume(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results folder of a search")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="A larger budget, e.g. search.budget.cpu_hours=8, more search.trials"),
    ] = None,
    retry_errors: RetryErrors = False,
    store: Annotated[str | None, typer.Option(help="Stage store of the search; default: in or beside RESULTS")] = None,
    offline: Offline = False,
) -> None:
    """Go on with a search that was interrupted or killed: nothing that is finished is done again."""
    if offline:
        go_offline()
    from tune_tickets.cli.run import resume as resume_verb

    resume_verb(results, overrides or [], store, retry_errors)


@app.command()
def validate(experiment: Yaml, overrides: Overrides = None) -> None:
    """Check an experiment file and its overrides; nothing is run."""
    from tune_tickets.cli.check import validate as validate_verb

    validate_verb(experiment, overrides or [])


@app.command()
def plan(experiment: Yaml, overrides: Overrides = None, output: Output = None) -> None:
    """Show stages x trials, what is cached and the estimated cost; nothing is run."""
    from tune_tickets.cli.check import plan as plan_verb

    plan_verb(experiment, overrides or [], output)


@app.command()
def init(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A csv, jsonl or parquet file of labelled texts")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The YAML file to write")] = None,
    force: Annotated[bool, typer.Option(help="Replace an existing file")] = False,
) -> None:
    """Look at a file of labelled texts and write a ready experiment."""
    from tune_tickets.cli.init import init as init_verb

    init_verb(data, output, force)


@app.command()
def compare(
    results: Annotated[list[Path], typer.Argument(metavar="RESULTS", help="Two or more results folders")],
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all of it as JSON")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="And as a page to share")] = None,
) -> None:
    """Put finished experiments side by side: winners, controls, paired tests, settings that differ."""
    from tune_tickets.cli.compare import compare as compare_verb

    compare_verb(results, json, markdown)


@app.command()
def confirm(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results folder of a search")],
    top: Annotated[int, typer.Option(min=1, help="How many of the best tickets")] = 3,
    seeds: Annotated[int, typer.Option(min=1, help="How many fresh seeds each is trained with")] = 5,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Report rows attacked; default: as many as select rows in the search")
    ] = None,
    store: Annotated[str | None, typer.Option(help="Stage store of the search; default: in or beside RESULTS")] = None,
    offline: Offline = False,
) -> None:
    """Retrain the best tickets on fresh seeds and measure them once on the report rows, beside controls."""
    if offline:
        go_offline()
    from tune_tickets.cli.confirm import confirm as confirm_verb

    confirm_verb(results, top, seeds, rows, store)


@app.command()
def pictures(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results folder of a search")],
    beside: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SEED", help="Results of the same experiment with other seeds: means are then over seeds"
        ),
    ] = None,
    store: Annotated[str | None, typer.Option(help="Stage store of the search; default: in or beside RESULTS")] = None,
) -> None:
    """Draw the pictures of a finished search again, as SVG and PNG into RESULTS/pictures."""
    from tune_tickets.cli.pictures import pictures as pictures_verb

    pictures_verb(results, beside or [], store)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results folder of a search")],
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser")] = False,
) -> None:
    """Write the report of a search: one HTML page that needs no network, and the same in Markdown."""
    from tune_tickets.cli.report import report as report_verb

    report_verb(results, open_browser)


@app.command()
def ui(
    results: Annotated[
        Path | None, typer.Argument(metavar="RESULTS", help="Results folder; default: the newest under results/")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on localhost; the next free one is taken")] = 5000,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser window")] = True,
) -> None:
    """Compare the trials of a search in MLflow."""
    from tune_tickets.cli.ui import ui as ui_verb

    ui_verb(results, port, open_browser)


@app.command()
def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Resources, e.g. tagger wordnet; default: all")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="A cache folder to take along to machines without a network")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Show what is here and which attacks need it")] = False,
    offline: Offline = False,
) -> None:
    """Bring and verify what attacks need beside the installation: vectors, taggers, WordNet, encoders."""
    if offline:
        go_offline()
    from tune_tickets.cli.fetch import fetch as fetch_verb
    from tune_tickets.cli.fetch import show as show_resources

    if show:
        show_resources()
    else:
        fetch_verb(names or [], to, offline)


@app.command()
def attack(
    ticket: Saved,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK.KEY=VALUE", help="About the data, e.g. task.label=stars task.subset=sst2"),
    ] = None,
    threat: Annotated[
        list[str] | None, typer.Option(help="Threat model by name, e.g. textfooler/minilm; may be repeated")
    ] = None,
    against: Annotated[str | None, typer.Option(help="A second model on the same rows: exact paired test")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A file, 'bundled/imdb', a hub id, or an experiment YAML whose select rows are attacked; default: the "
            "experiment in the ticket's results folder, else bundled/rotten-tomatoes"
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The text column to attack; of a pair, the other is locked")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="How many rows are attacked; default: as the experiment, else 100")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the sample and the attacks; default: as the experiment, else 0")
    ] = None,
    query_budget: Annotated[int | None, typer.Option(min=1, help="Queries per row before an attack gives up")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many attacked texts to print per threat model")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file")] = None,
    out: Annotated[Path | None, typer.Option(help="Write every attacked text to this parquet file")] = None,
    offline: Offline = False,
) -> None:
    """Attack a saved ticket or any text classifier of transformers."""
    if offline:
        go_offline()
    from tune_tickets.api.attack import Question
    from tune_tickets.cli.attack import attack as attack_verb

    question = Question(ticket, overrides or [], threat or [], against, data, column, rows, seed, query_budget)
    attack_verb(question, show, json_file, out)


@app.command()
def predict(
    ticket: Saved,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text, or - for one text per line on stdin")],
    second: Annotated[str | None, typer.Argument(metavar="SECOND", help="The second text of a pair")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line")] = False,
    offline: Offline = False,
) -> None:
    """Print the label of a text and the probability of every label."""
    if offline:
        go_offline()
    from tune_tickets.cli.predict import predict as predict_verb

    predict_verb(ticket, text, second, as_json)


@app.command()
def export(
    ticket: Saved,
    form: Annotated[
        str,
        typer.Option(
            "--format", help="hf: plain transformers folder; pruned: the small model for load_ticket; onnx: onnxruntime"
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder to write; default: beside the ticket")
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an earlier export")] = False,
    task: Annotated[
        str | None, typer.Option(help="Of a results folder: the ticket as trained on this further task")
    ] = None,
    offline: Offline = False,
) -> None:
    """Write a ticket as a folder that other programs load, with a ticket card."""
    if offline:
        go_offline()
    from tune_tickets.cli.export import export as export_verb

    export_verb(ticket, form, output, force, task)


@app.command()
def schema() -> None:
    """Print the JSON schema of experiment files, for completion in editors."""
    from tune_tickets.cli.check import schema as schema_verb

    schema_verb()


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
        go_offline()  # the hub's libraries are to know it too


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors of the user's making end with one paragraph and their exit code."""
    try:
        app(arguments)
    except TicketsError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in OF_THE_DISK or error.filename is None:
            raise
        said = f"{error.filename} cannot be opened or written: {error.strerror}"
        print(f"Error: {said}. Check the path, its rights and the room on the disk.", file=sys.stderr)
        sys.exit(TicketsError.exit_code)
