"""The Ray Tune side of a trial: it asks the broker for stages and reports their metrics.

Its process only waits. It imports no torch and reserves no CPU or GPU.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import ray
from ray import tune

from tune_tickets.config import Experiment
from tune_tickets.config.domain import Scalar
from tune_tickets.engine.client import BrokerRunner
from tune_tickets.methods.attacking import Beaten, Rival
from tune_tickets.methods.base import Flow, World
from tune_tickets.results.objective import beats, judge, names, reachable
from tune_tickets.results.records import Outcome
from tune_tickets.search.space import reference

EPOCH = "epoch"
BOUND = "bound"
"""The best values that a trial could still reach when early exit stopped it."""
FAILED = "failed"
"""The error message in the last report of a failed trial."""
PROBE = "probe_score"
"""What ASHA compares: the geometric mean of kappa on clean rows and accuracy under an embedding-space attack."""


@dataclass(frozen=True)
class TrialContext:
    """What all trials of an experiment share."""

    experiment: Experiment
    world: World
    store_url: str
    broker: str


def run_trial(params: dict[str, Scalar], context: TrialContext) -> None:
    """Find, train and measure one ticket. The last report has the verdict, or the error."""
    runner = BrokerRunner(ray.get_actor(context.broker), context.store_url, tune.get_context().get_trial_id())
    pipeline = Flow(context.experiment.at(params), context.world, runner)

    def report(result: dict[str, Any]) -> None:
        # As JSON text: Tune flattens nested results.
        tune.report({**result, "stages": json.dumps([stage.model_dump(mode="json") for stage in pipeline.stages])})

    rival = _rival(context, runner) if pipeline.settings.evaluation.early_exit else None
    try:
        outcome = pipeline.find_ticket(lambda record: report({"record": record, **_rung(record)}), rival)
        dense = dense_control(context, runner)
    except Beaten as beaten:
        report({BOUND: list(beaten.bound), "attacked_rows": beaten.rows, "note": str(beaten)})
        return
    except Exception as error:
        report({FAILED: str(error)})  # not raised, because Tune would start the trial again
        return
    objective = pipeline.settings.objective
    verdict = judge(objective, outcome, dense)
    outcome = outcome.model_copy(update={"flags": verdict.objections})
    values = dict(zip(names(objective), verdict.values, strict=True))
    report({**values, "outcome": outcome.model_dump_json()})


def dense_control(context: TrialContext, runner: BrokerRunner) -> Outcome | None:
    """Return the dense control, which all trials share through the store; None if it is switched off."""
    if not context.experiment.settings.controls.dense:
        return None
    return Flow(reference(context.experiment), context.world, runner).dense_control(lambda record: None)


def _rival(context: TrialContext, runner: BrokerRunner) -> Rival:
    """Return a function that tells whether a trial can no longer beat the best finished ones."""
    objective = context.experiment.settings.objective
    dense = cache(lambda: dense_control(context, runner))

    def losing(metrics: Mapping[str, float]) -> tuple[float, ...] | None:
        within_reach = reachable(objective, metrics, dense())
        return within_reach if any(beats(best, within_reach) for best in runner.best_values()) else None

    return losing


def _rung(record: dict[str, Any]) -> dict[str, Any]:
    """Return what ASHA compares. Only records of an epoch of retraining have it."""
    return {EPOCH: record[EPOCH], PROBE: record[PROBE]} if PROBE in record else {}
