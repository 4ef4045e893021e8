"""What the experts of a debiasing loss say of the training rows: written by their stages, read by those that train."""

from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.config.training import Debiasing
from tune_tickets.engine.execution import StageContext
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.debiasing import TaskLoss

_FILE = "log_probabilities.safetensors"
_NAME = "log_probabilities"


def keep_log_probabilities(context: StageContext, log_probabilities: Tensor) -> None:
    """Store the prediction for every training row, [rows, labels]."""
    context.attempt.put(_FILE, save({_NAME: log_probabilities.float().contiguous()}))


def debiased(context: StageContext, debiasing: Debiasing, rows: EncodedRows) -> tuple[EncodedRows, TaskLoss]:
    """The training rows with what the upstream experts say of them, and the loss that reads it."""
    columns = {role: load(context.store.read(context.upstream(role), _FILE))[_NAME] for role in debiasing.experts}
    return rows.with_columns(columns), TaskLoss(debiasing)
