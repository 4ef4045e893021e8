"""The checkpoint of a stage that trains: the state of the training, and the history that trials have seen so far."""

import json
from typing import Any

from tune_tickets.training.state import TrainState
from tune_tickets.trial.execution import StageContext

_STATE_FILE = "state.pt"
_HISTORY_FILE = "history.json"


def keep_training(context: StageContext, state: TrainState, mini_epoch: int, looked: bool = False) -> None:
    """Keep a state to go on from, if it is time for one; what was `looked` at should not have to be again."""

    def files() -> dict[str, Any]:
        return {_STATE_FILE: state.parts(), _HISTORY_FILE: json.dumps(context.attempt.records).encode()}

    if looked:
        context.keep_now(state.step, mini_epoch, files)
    else:
        context.keep(state.step, mini_epoch, files)


def restore_training(context: StageContext, state: TrainState) -> None:
    """Go on from the checkpoint, if there is one; its history is told again."""
    stored = context.store.load_checkpoint(context.stage)
    if stored is not None:
        state.restore(stored[_STATE_FILE])
        for record in json.loads(stored[_HISTORY_FILE]):
            context.report(record)
