"""Train one stage in child processes that are killed with SIGKILL at random times. Prints JSON.

For every kill it prints the current step, and the step from which the next process resumes.
"""

import io
import json
import mmap
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from tune_tickets.config import load_experiment
from tune_tickets.engine.execution import execute
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import Stage
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.methods.bodies import retrain  # noqa: F401 - imported before the children are made, for all of them
from tune_tickets.search.preflight import preflight
from tune_tickets.training.batches import Batch, Batches

yaml, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
UNDER_WAY = mmap.mmap(-1, 8)
"""The step that the child is at, in memory that it shares with us."""


def train(stage: Stage, url: str) -> None:
    take = Batches.__getitem__

    def begin(batches: Batches, step: int) -> Batch:
        UNDER_WAY[:] = (step + 1).to_bytes(8)
        return take(batches, step)

    Batches.__getitem__ = begin  # type: ignore[method-assign]
    execute(stage, resources, url, lambda *progress: None)


def kept_step(stage: Stage, url: str) -> int:
    found = Store(url).load_checkpoint(stage)
    return 0 if found is None else int(torch.load(io.BytesIO(found["state.pt"]), weights_only=True)["step"])


def killed(stage: Stage, url: str, seconds: float) -> tuple[int, int]:
    """Train until some steps are done and a moment has passed, then kill."""
    before = kept_step(stage, url)
    UNDER_WAY[:] = bytes(8)
    child = os.fork()
    if child == 0:
        train(stage, url)
        os._exit(0)
    while int.from_bytes(UNDER_WAY[:]) < before + 2:
        time.sleep(0.005)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return int.from_bytes(UNDER_WAY[:]), kept_step(stage, url)


torch.set_num_threads(1)  # the children are forks: threads of the parent would be missing in them
experiment = load_experiment(yaml, ["retraining.epochs=60"])
settings, resources = experiment.settings, experiment.settings.resources
stages = {}
for name in ("killed", "whole"):
    address = str(folder / name)
    runner = LocalRunner(address, resources)
    stages[address] = Flow(settings, preflight(experiment, Store(address)), runner).retrain(None)
numbers = random.Random(7)
(disturbed, stage), (whole, same) = stages.items()
moments = [killed(stage, disturbed, numbers.uniform(0.0, 0.3)) for _ in range(kills)]
finished = [execute(each, resources, url, lambda *progress: None) for url, each in ((disturbed, stage), (whole, same))]
weights = [Store(url).read(result, "ticket.safetensors") for url, result in zip(stages, finished, strict=True)]
print(json.dumps({"kills": moments, "same": weights[0] == weights[1] and finished[0].history == finished[1].history}))
