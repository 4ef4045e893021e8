"""How MLflow's run list first opens: a shared view, kept as a tag of the experiment, with what matters.

Columns for the list; for the chart view parallel coordinates over the searched params, and clean against Aua.

The format belongs to MLflow's web page (3.15 to 3.17); a page that does not know it falls back to its own view.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

VIEW_KEY = "tickets"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW_KEY}"
KIND_TAG = "mlflow.experimentKind"
KIND = "custom_model_development"  # not the page for chat traces
METRICS = ("clean", "aua")
SECTION = "tickets"
TAGS = ("title", "status", "feasible", "selected", "pareto")


def view_state(objectives: Sequence[str], params: Iterable[str]) -> str:
    """The run list sorted by objective, with the figures, the searched `params` and what became of each run.

    A vector is sorted by its last value, accuracy under attack: a ticket that may not win has a negative one, whatever
    its figures, and so stands below all others.
    """
    metrics = [f"metrics.`{name}`" for name in (*objectives, *METRICS)]
    searched = sorted(params)
    rest = [f"params.`{name}`" for name in searched] + [f"tags.`{name}`" for name in TAGS]
    order = metrics[len(objectives) - 1]
    state = {"selectedColumns": metrics + rest, "orderByKey": order, "orderByAsc": False, "runsHiddenMode": "SHOW_ALL"}
    return json.dumps(state | _charts(objectives, searched))


def _charts(objectives: Sequence[str], params: Sequence[str]) -> dict[str, Any]:
    """One section with the two charts that answer what to set; the page adds one of its own per metric."""
    card = {"metricSectionId": SECTION, "deleted": False, "isGenerated": False, "runsCountToCompare": 100}
    parallel = {"type": "PARALLEL", "uuid": f"{SECTION}-parallel", "showAllRuns": True}
    parallel |= {"selectedParams": list(params), "selectedMetrics": [*METRICS, objectives[-1]]}
    axes = {axis: {"key": key, "type": "METRIC"} for axis, key in zip(("xaxis", "yaxis"), METRICS, strict=True)}
    scatter = {"type": "SCATTER", "uuid": f"{SECTION}-scatter", **axes}
    section: dict[str, Any] = {
        "uuid": SECTION,
        "name": "Tickets",
        "display": True,
        "isReordered": False,
        "deleted": False,
    }
    section |= {"columns": 1, "cardHeight": 400}  # an axis per param needs the whole width
    charts = {"compareRunCharts": [card | parallel, card | scatter], "compareRunSections": [section]}
    return charts | {"isAccordionReordered": True}  # else the page sorts sections by name, and ours to the end


def view_path(experiment_id: str) -> str:
    """The part of the address behind the server's name that opens the view."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={VIEW_KEY}"
