"""OOD twins through the stages of a trial on the tiny model."""

import os
from pathlib import Path

import pytest

from tests.flow.conftest import ignore
from tests.stages import Stage
from tune_tickets.config import load_experiment
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.errors import ConfigError
from tune_tickets.methods.base import Flow
from tune_tickets.methods.given import load_ood_train, load_twin_rows
from tune_tickets.results.records import CleanFigures
from tune_tickets.search.preflight import look, preflight

SHARED = Path(os.environ.get("TUNE_TICKETS_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
PLANTED = (
    "task.planted={markers: [x, z], strength: 1.0, ood_strength: 0.25, rows: {select: 16, report: 8}, train_rows: 8}"
)

FEW = "rows: {select: 12, report: 8}"


def pipeline_of(path, store_url, *overrides):
    experiment = load_experiment(path, overrides)
    world = preflight(experiment, Store(store_url))
    return Flow(experiment.settings, world, LocalRunner(store_url, experiment.settings.resources))


def trained_on(pipeline):
    return pipeline.run(pipeline.retrain(None), ignore)


def test_a_model_that_leans_on_the_marker_is_wrong_where_it_misleads(tiny_yaml, store_url):
    pipeline = pipeline_of(tiny_yaml, store_url, PLANTED, "retraining.epochs=12")
    outcome = pipeline.dense_control(ignore)
    (twin,) = outcome.ood
    assert outcome.clean.accuracy > 95
    assert (twin.name, twin.rows, len(twin.right)) == ("reversed", 16, 16)
    # 4 of the 16 rows agree. The groups make up the whole.
    assert twin.value == pytest.approx((4 * twin.groups["agreeing"] + 12 * twin.groups["misleading"]) / 16)
    assert twin.groups["agreeing"] > twin.groups["misleading"]
    assert outcome.metrics()["ood"] == outcome.metrics()["ood/reversed"] == twin.value
    assert outcome.attacks[0].rows == 8, "planted texts can be attacked"
    assert [stage.name for stage in pipeline.stages] == ["retrain", "evaluate", "ood", "attack"]


def test_twins_leave_the_digests_of_all_other_stages_alone(tiny_yaml, store_url, write_twin):
    plain = pipeline_of(tiny_yaml, store_url)
    with_twin = pipeline_of(tiny_yaml, store_url, f"task.ood=[{{name: other, source: {write_twin()}, {FEW}}}]")
    assert plain.retrain(None).digest == with_twin.retrain(None).digest
    assert plain.world.data == with_twin.world.data
    assert plain.world.twins == {}


@pytest.fixture
def write_twin(tmp_path):
    """A file of 30 rows that the tiny task did not train on, with groups."""

    def write(labels=("neg", "pos")):
        path = tmp_path / "twin.csv"
        rows = [f"{('dull', 'bright')[i % 2]} film {i},{labels[i % 2]},{('a', 'b')[i // 2 % 2]}" for i in range(30)]
        path.write_text("\n".join(["text,label,kind", *rows]) + "\n", encoding="utf-8")
        return path

    return write


def test_the_stage_counts_merged_answers_and_groups(tiny_yaml, store_url, write_twin):
    """The metrics equal those counted from the ticket's answers to single texts."""
    from tune_tickets.models.loading import open_ticket
    from tune_tickets.tickets.ticket import Ticket

    twin = f"{{name: other, source: {write_twin(('no', 'yes'))}, group: kind, merge: {{neg: no, pos: yes}}, {FEW}}}"
    pipeline = pipeline_of(tiny_yaml, store_url, f"task.ood=[{twin}]", "retraining.epochs=2")
    trained = trained_on(pipeline)
    (figures,) = pipeline._out_of_distribution(trained)
    store = Store(store_url)
    ticket = open_ticket(Ticket.from_bytes(store.read(trained, "ticket.safetensors"), where="x"), "x")
    rows = look(load_experiment(tiny_yaml, [f"task.ood=[{twin}]"])).data.ood[0].select
    answers = [ticket.predict([row.texts[0]])[0][0] for row in rows]
    meant = {"neg": 0, "pos": 1}
    right = [meant[answer] == row.label for answer, row in zip(answers, rows, strict=True)]
    assert figures.right == tuple(right)
    for group in ("a", "b"):
        hits = [hit for hit, row in zip(right, rows, strict=True) if row.group == group]
        assert figures.groups[group] == pytest.approx(100 * sum(hits) / len(hits))


def test_report_rows_of_a_twin_reach_no_file_of_the_store(tiny_yaml, store_url, tmp_path):
    pipeline = pipeline_of(tiny_yaml, store_url, PLANTED)
    data = look(load_experiment(tiny_yaml, [PLANTED])).data
    kept = "".join(path.read_text(encoding="utf-8") for path in Path(store_url).rglob("*") if path.name == "rows.json")
    assert all(row.texts[0] in kept for row in (*data.ood[0].select, *data.ood_train))
    assert not any(row.texts[0] in kept for row in (*data.report, *data.ood[0].report))
    context = context_of(pipeline, store_url)
    assert load_twin_rows(context).rows == data.ood[0].select
    assert load_ood_train(context) == data.ood_train
    assert len(data.ood_train) == 8


def context_of(pipeline, store_url):
    store = Store(store_url)
    upstream = {"twin": pipeline.world.twins["reversed"], "ood_train": pipeline.world.ood_train}
    stage = Stage("ood", {}, upstream)
    return StageContext(stage, pipeline.settings.resources, store, store.begin(stage), lambda *_: None)


def test_markers_that_the_tokenizer_would_hide_are_refused(tiny_yaml):
    for markers in ("[x, '#']", "[x, zz]"):
        with pytest.raises(ConfigError, match="would not reach the model as a separate token"):
            look(load_experiment(tiny_yaml, [f"task.planted={{markers: {markers}}}"]))


def test_the_default_markers_reach_the_bundled_encoder():
    from tune_tickets.config.task import Model, Planted
    from tune_tickets.models.backbone import unreadable_markers

    assert unreadable_markers(Model(), Planted().markers) == ()


PAIRS = {
    "mnli": ("premise, hypothesis", [("hans", "hans/test", "lexical_overlap", 3)]),
    "qqp": ("question1, question2", [("paws-qqp", "paws_qqp/test", None, 0), ("paws-wiki", "paws_wiki/test", None, 0)]),
    "fever": ("evidence, claim", [("fever-symmetric-v1", "fever_symmetric/v1_test", None, 0)]),
}


@pytest.mark.parametrize("task", PAIRS)
def test_real_pairs_and_their_twins(tiny_yaml, store_url, task):
    if not SHARED.is_dir():
        pytest.skip(f"there is no {SHARED}: real data sets are not here")
    columns, twins = PAIRS[task]
    listed = ", ".join(f"{{preset: {preset}, source: {SHARED}/{file}.jsonl.gz, {FEW}}}" for preset, file, *_ in twins)
    pipeline = pipeline_of(
        tiny_yaml,
        store_url,
        f"task.source={SHARED}/{task}/train.jsonl.gz",
        f"task.held_out={SHARED}/{task}/validation.jsonl.gz",
        f"task.text=[{columns}]",
        f"task.attacked={columns.split(', ')[1]}",
        f"task.ood=[{listed}]",
        "retraining.epochs=1",
    )
    trained = trained_on(pipeline)
    clean = pipeline.run(pipeline._evaluate(trained), ignore).record["clean"]
    assert CleanFigures.model_validate(clean).rows == 48
    for figures, (preset, _, group, groups) in zip(pipeline._out_of_distribution(trained), twins, strict=True):
        assert (figures.name, figures.rows, len(figures.groups)) == (preset, 12, groups)
        assert group is None or group in figures.groups
