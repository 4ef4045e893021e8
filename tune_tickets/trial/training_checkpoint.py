"""The checkpoint of a stage that trains: the state of the training, the history trials have seen, the files kept."""

import json
from typing import Any

from tune_tickets.engine.execution import StageContext
from tune_tickets.training.state import TrainState

_STATE_FILE = "state.pt"
_HISTORY_FILE = "history.json"
_KEPT_FILE = "kept.json"


def keep_training(context: StageContext, state: TrainState, mini_epoch: int, looked: bool = False) -> None:
    """Keep a state to go on from, if it is time for one; what was `looked` at should not have to be again."""

    def files() -> dict[str, Any]:
        kept = {_HISTORY_FILE: context.attempt.records, _KEPT_FILE: context.attempt.files}
        return {_STATE_FILE: state.parts(), **{file: json.dumps(value).encode() for file, value in kept.items()}}

    if looked:
        context.keep_now(state.step, mini_epoch, files)
    else:
        context.keep(state.step, mini_epoch, files)


def restore_training(context: StageContext, state: TrainState) -> None:
    """Go on from the checkpoint, if there is one: its history is told again, files of the earlier try are taken over.

    If one of these is gone, all starts afresh.
    """
    stored = context.store.load_checkpoint(context.stage)
    if stored is None or not context.attempt.adopt(json.loads(stored.get(_KEPT_FILE, b"{}"))):
        return
    state.restore(stored[_STATE_FILE])
    for record in json.loads(stored[_HISTORY_FILE]):
        context.report(record)
