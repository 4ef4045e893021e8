"""Stage `substitutes`: the table from which an adversary of kind substitution rewrites the training rows."""

import json

from tune_tickets.attacks.substitutes import substitutes_of
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.stages import SUBSTITUTES_FILE
from tune_tickets.training.rewriting import words


def run(context: StageContext) -> StageOutput:
    """Look up every word of the texts that attacks may change, once."""
    rows = load_rows(context)
    column = rows.columns.index(rows.attacked)
    distinct = {word for row in rows.train for word in words(row.texts[column])}
    found = substitutes_of(context.inputs["source"], distinct)
    context.attempt.put(SUBSTITUTES_FILE, json.dumps(found).encode())
    return StageOutput({"words": len(distinct), "with_substitutes": len(found)})
