"""How MLflow's run list first opens: a shared view, kept as a tag of the experiment, with the columns that matter.

The format belongs to MLflow's web page (3.15 to 3.17); a page that does not know it falls back to its own view.
"""

import json
from collections.abc import Iterable, Sequence

VIEW_KEY = "tickets"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW_KEY}"
KIND_TAG = "mlflow.experimentKind"
KIND = "custom_model_development"  # not the page for chat traces
METRICS = ("clean", "aua")
TAGS = ("title", "status", "feasible", "selected", "pareto")


def view_state(objectives: Sequence[str], params: Iterable[str]) -> str:
    """The run list sorted by objective, with the figures, the searched `params` and what became of each run.

    A vector is sorted by its last value, accuracy under attack: a ticket that may not win has a negative one, whatever
    its figures, and so stands below all others.
    """
    metrics = [f"metrics.`{name}`" for name in (*objectives, *METRICS)]
    rest = [f"params.`{name}`" for name in sorted(params)] + [f"tags.`{name}`" for name in TAGS]
    order = metrics[len(objectives) - 1]
    return json.dumps({"selectedColumns": metrics + rest, "orderByKey": order, "orderByAsc": False})


def view_path(experiment_id: str) -> str:
    """The part of the address behind the server's name that opens the view."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={VIEW_KEY}"
