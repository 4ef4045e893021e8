"""What MLflow gets about the rows and threat models of a search."""

import hashlib
import json

from tune_tickets.attacks.threat import get_threat
from tune_tickets.config import load_experiment
from tune_tickets.data.task import load_task
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import World
from tune_tickets.methods.given import keep_rows, rows_stage
from tune_tickets.search.preflight import search_inputs


def test_rows_are_named_by_task_split_and_digest_and_threats_by_fingerprint(tiny_yaml, tiny_data, tmp_path):
    settings = load_experiment(tiny_yaml).settings
    data, store, threat = (
        load_task(settings.task, settings.seed),
        Store(str(tmp_path / "store")),
        get_threat("textbugger/minilm"),
    )
    keep_rows(store, data)
    stage = rows_stage(data)
    world = World(StageKey(stage.name, stage.digest, stage.digest), "model", {}, (threat,))
    found = search_inputs(settings, world, store)
    assert [(one.name, one.context, one.rows) for one in found.rows] == [
        (f"{tiny_data} (train)", "train", 128),
        (f"{tiny_data} (select)", "select", 48),
    ]
    content = "".join(json.dumps([list(row.texts), row.label]) + "\n" for row in data.select)
    assert found.rows[1].digest == hashlib.sha256(content.encode()).hexdigest()[:16]
    assert (found.rows[0].columns, set(found.rows[0].labels)) == (("text",), {"neg", "pos"})
    assert [(one.name, one.fingerprint) for one in found.threats] == [(threat.name, threat.fingerprint)]
