"""Stage `attack`: one threat model against a trained ticket, on a shard of the seeded sample of select rows."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from tune_tickets.attacks.records import write_parquet
from tune_tickets.attacks.run import AttackRecord, AttackRow, attack_rows
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.attacks.victim import Victim
from tune_tickets.data.task import attack_sample
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.evaluate import load_trained
from tune_tickets.methods.bodies.masked_lm import masked_lm_of
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.stages import ATTACKED_FILE


def run(context: StageContext) -> StageOutput:
    """Attack the rows of the shard together and keep every text."""
    inputs = context.inputs
    threat = ThreatModel(**inputs["threat"])
    ticket = load_trained(context)
    rows = load_rows(context)
    first, end = inputs["shard"]
    sample = attack_sample(rows.select, inputs["rows"], inputs["seed"])
    places = inputs.get("only", range(first, end))
    attacked = attack_rows(
        Victim(ticket.model, ticket.tokenizer, ticket.metadata.max_length, inputs["eval_batch_size"]),
        [AttackRow(index, row.texts, row.label) for index, row in (sample[place] for place in places)],
        threat,
        columns=rows.columns,
        attacked=rows.attacked,
        labels=rows.labels,
        seed=inputs["seed"],
        progress=context.progress,
        masked_lm=masked_lm_of(context, threat),
    )
    context.attempt.put(ATTACKED_FILE, _parquet(attacked.records))
    return StageOutput(
        {
            "threat": threat.name,
            "shard": [first, end],
            "fingerprint": threat.fingerprint,
            "rows": [asdict(record.counted()) for record in attacked.records],
            "candidates": attacked.candidates,
            "rejected": attacked.rejected,
        }
    )


def _parquet(records: list[AttackRecord]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / ATTACKED_FILE
        write_parquet(records, path)
        return path.read_bytes()
