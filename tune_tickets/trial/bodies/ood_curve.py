"""Stage `ood_curve`: the masks at which a mask training was looked at, on the select rows of an OOD twin.

The mask training knows no twin; it is over when this stage asks, so nothing can be chosen by the answer.
"""

import json

from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.tickets.unstructured import MaskLooks
from tune_tickets.trial.backbone import device_of
from tune_tickets.trial.bodies.srnets_masks import LOOKS_FILE
from tune_tickets.trial.rows import load_rows
from tune_tickets.trial.start import load_start
from tune_tickets.trial.twin_figures import TwinFigures

_HISTORY_FILE = "history.json"


def run(context: StageContext) -> StageOutput:
    """Put one mask after the other on the frozen weights, and measure what is left of them."""
    looks = MaskLooks.from_bytes(context.store.read(context.upstream("masks"), LOOKS_FILE))
    model, tokenizer = load_start(context, load_rows(context).labels)
    model.to(device_of(context.resources))  # type: ignore[arg-type]
    twin = TwinFigures(context, tokenizer, context.inputs["max_length"])
    weights = dict(model.named_parameters())
    known = _restored(context)
    for done, (look, mask) in enumerate(looks.masks(), start=1):
        if done > known:
            with mask.laid_on(weights):
                context.report({"step": look, f"ood/{twin.twin.name}": twin.of(model).value})
            context.keep_now(done, 1, lambda: {_HISTORY_FILE: json.dumps(context.attempt.records).encode()})
        context.progress(done, len(looks.bits))
    return StageOutput({"looks": len(looks.bits), "rows": len(twin.twin.rows)})


def _restored(context: StageContext) -> int:
    """How many masks were measured before the stage was cut off; their records are told again."""
    stored = context.store.load_checkpoint(context.stage)
    records = [] if stored is None else json.loads(stored[_HISTORY_FILE])
    for record in records:
        context.report(record)
    return len(records)
