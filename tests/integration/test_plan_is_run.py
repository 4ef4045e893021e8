"""`plan` and a real trial request the same stages, as often, for the YAML files directly in search_spaces/.

The first trial and the dense control of each file are computed on the tiny model. test_shipped.py compares whole
searches of the other files with their plans.
"""

from collections import Counter

import pytest

from tests.integration.conftest import ROOT
from tune_tickets.config import load_experiment
from tune_tickets.engine.runner import LocalRunner, unheard
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.search.plan import plan
from tune_tickets.search.preflight import preflight
from tune_tickets.search.space import reference

pytestmark = pytest.mark.integration
SHIPPED = ROOT / "search_spaces"
WHOLE = {"compare.yaml", "orticket.yaml", "srnets.yaml"}
"""Searched as they are in test_shipped.py."""
OF_A_HUB = {"srnets-hans.yaml"}


def names() -> list[str]:
    return sorted({path.name for path in SHIPPED.glob("*.yaml")} - WHOLE - OF_A_HUB)


@pytest.fixture
def small(tiny_backbone, tiny_data):
    """A shipped file with its first trial alone, on the tiny model and few rows."""

    def load(name):
        return load_experiment(
            SHIPPED / name,
            [
                f"model={{source: {tiny_backbone}}}",
                f"task={{source: {tiny_data}, max_length: 16, rows: {{train: 32, select: 16, report: 8}}}}",
                "evaluation.attacks=[deepwordbug/local]",
                "evaluation.rows=2",
                "evaluation.shard=1",
                "evaluation.probe.rows=4",
                "search.trials=1",
            ],
        )

    return load


@pytest.mark.parametrize("name", names())
def test_the_first_trial_requests_what_was_planned(small, tmp_path, name):
    experiment, store = small(name), Store(str(tmp_path / "store"))
    assert experiment.settings.search.warm_starts, "the first trial of a shipped file is fixed"
    world = preflight(experiment, store)
    planned = {stage.name: stage.asked for stage in plan(experiment, world, store, train_rows=32)}
    runner = LocalRunner(str(tmp_path / "store"), experiment.settings.resources)
    # As in a search: the trial of the first warm start, and the dense control.
    settings = reference(experiment)
    flows = [Flow(settings, world, runner), Flow(settings, world, runner)]
    flows[0].find_ticket(unheard)
    flows[1].dense_control(unheard)
    assert Counter(stage.name for flow in flows for stage in flow.stages) == planned
