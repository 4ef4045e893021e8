"""The weights that a stage starts from: the pre-trained ones, or those that an upstream stage has trained."""

from collections.abc import Sequence

from safetensors.torch import load
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.task import Model
from tune_tickets.engine.execution import StageContext
from tune_tickets.models.backbone import load_backbone
from tune_tickets.tickets.ticket import Ticket
from tune_tickets.trial.weight_files import TICKET_FILE, WEIGHTS_FILE


def load_start(context: StageContext, labels: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The network of the inputs with its seeded classifier; with the weights of the stage in the role `weights`."""
    inputs = context.inputs
    model, tokenizer = load_backbone(Model.model_validate(inputs["model"]), labels, inputs["seed"])
    if "weights" in context.stage.upstream:
        given = context.upstream("weights")
        if TICKET_FILE in given.files:
            weights = Ticket.from_bytes(context.store.read(given, TICKET_FILE), where=TICKET_FILE).weights
        else:
            weights = load(context.store.read(given, WEIGHTS_FILE))
        model.load_state_dict(weights)
    return model, tokenizer
