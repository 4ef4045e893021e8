"""Stage `srnets_imp`: the training between two cuts of SRNets' magnitude pruning, resumable after every epoch."""

from safetensors.torch import save

from tune_tickets.config.srnets import SRNets
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.imp import Round
from tune_tickets.methods.srnets import masked_weights, round_settings
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.trial.backbone import device_of, encode_rows
from tune_tickets.trial.bodies.draw import load_mask
from tune_tickets.trial.bodies.imp import train_round
from tune_tickets.trial.debiasing import debiased
from tune_tickets.trial.rows import load_rows
from tune_tickets.trial.start import load_start
from tune_tickets.trial.weight_files import WEIGHTS_FILE


def run(context: StageContext) -> StageOutput:
    """Train what the cuts have left for a share of the schedule; keep the weights and their magnitudes."""
    inputs = context.inputs
    method = SRNets.model_validate(inputs["method"])
    rows, device = load_rows(context), device_of(context.resources)
    model, tokenizer = load_start(context, rows.labels)
    model.to(device)  # type: ignore[arg-type]
    encoded, loss = debiased(context, method.debiasing, encode_rows(tokenizer, rows.train, inputs["max_length"]))
    mask = load_mask(context, "within")
    assert isinstance(mask, UnstructuredMask)
    first, last = inputs["share"]
    weights = masked_weights(model, method.pooler)
    this = Round(round_settings(method), model, encoded, inputs["seed"], device, mask, loss, (first, last), weights)
    record = train_round(context, this, len(encoded))
    kept = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    context.attempt.put(WEIGHTS_FILE, save(kept))
    return StageOutput(record)
