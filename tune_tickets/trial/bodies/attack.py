"""Stage `attack`: one threat model against a trained ticket, on a seeded stratified sample of the select rows."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tune_tickets.attacks.figures import figures, write_parquet
from tune_tickets.attacks.run import AttackRecord, AttackRow, attack_rows
from tune_tickets.attacks.threat import get_threat
from tune_tickets.attacks.victim import Victim
from tune_tickets.data.task import attack_sample
from tune_tickets.errors import StoreError
from tune_tickets.trial.bodies.evaluate import load_trained
from tune_tickets.trial.execution import StageContext, StageOutput
from tune_tickets.trial.rows import load_rows

ATTACKED_FILE = "attacked.parquet"


def run(context: StageContext) -> StageOutput:
    """Attack every row of the sample; keep every text."""
    inputs = context.inputs
    threat = get_threat(inputs["threat"], inputs["query_budget"])
    if threat.fingerprint != inputs["fingerprint"]:
        raise StoreError(
            f"the threat model {threat.name} is {threat.fingerprint} on this node but {inputs['fingerprint']} on the "
            "driver: install the same packages and resources on both"
        )
    ticket = load_trained(context)
    rows = load_rows(context)
    sample = attack_sample(rows.select, inputs["rows"], inputs["seed"])
    attacked = attack_rows(
        Victim(ticket.model, ticket.tokenizer, ticket.metadata.max_length, inputs["eval_batch_size"]),
        [AttackRow(index, row.texts, row.label) for index, row in sample],
        threat,
        columns=rows.columns,
        attacked=rows.attacked,
        labels=rows.labels,
        seed=inputs["seed"],
        progress=context.progress,
    )
    context.attempt.put(ATTACKED_FILE, _parquet(attacked.records))
    measured = figures(attacked.records, threat.name, threat.fingerprint, attacked.rejected, attacked.candidates)
    return StageOutput({"figures": measured.model_dump(mode="json")})


def _parquet(records: list[AttackRecord]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / ATTACKED_FILE
        write_parquet(records, path)
        return path.read_bytes()
