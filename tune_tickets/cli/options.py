"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

Yaml = Annotated[
    Path, typer.Argument(metavar="EXPERIMENT.yaml", help="The experiment, e.g. search_spaces/earlyrobust.yaml")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Overrides, e.g. search.trials=4 method.adversary.steps=2"),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Results folder; default: results/<name>-<time>")]
ResultsFolder = Annotated[Path, typer.Argument(metavar="RESULTS", help="The results folder of a search")]
SearchStore = Annotated[
    str | None, typer.Option("--store", help="Stage store of the search; default: in RESULTS or next to it")
]
RetryErrors = Annotated[bool, typer.Option("--retry-errors", help="Retry trials that ended with an error")]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network; report what is missing")]
SavedModel = Annotated[
    str, typer.Argument(metavar="TICKET", help="A ticket file, a results folder, a transformers folder or a hub id")
]
