"""ORTicket through the stages: scores found once for every task and ratio, a fitted head, other tasks to find on."""

from dataclasses import replace

import pytest

from tests.flow.conftest import ignore
from tests.models.tiny import save_checkpoint
from tune_tickets.config import load_experiment
from tune_tickets.config.search import Resources
from tune_tickets.config.task import Model
from tune_tickets.engine import execution
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.errors import ConfigError, DataError
from tune_tickets.methods.base import Flow
from tune_tickets.models.masked_lm import load_masked_lm_backbone, masked_lm_files
from tune_tickets.search.plan import plan
from tune_tickets.search.preflight import look, preflight, world_of

YAML = """\
name: two
model: {{source: {model}}}
task: {{source: {data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
transfer:
  second:
    task: {{source: {data}, max_length: 20, rows: {{train: 64, select: 40, report: 32}}}}
    drawing: {{heads: 1/4, neurons: 0.5}}
  third:
    task: {{source: {data}, max_length: 16, rows: {{train: 32, select: 40, report: 32}}}}
    retraining: {{epochs: 2, learning_rate: 1.0e-30, weight_decay: 0.0}}
method:
  kind: orticket
  corpus: {corpus}
  block: 16
  learning_rate: 1.0e-3
  coefficient_learning_rate: 1.0e-2
  batch_size: 8
  mini_epoch: 0.25
  gamma: 1.0
  patience: 1
  adversary: {{steps: 2, step_size: 0.1}}
  drawing: {{heads: 1/4, neurons: 0.25}}
  head: {{held_out: 20, max_length: 16, epochs: 2, learning_rate: 1.0e-3}}
retraining: {{epochs: 1, learning_rate: 1.0e-30, weight_decay: 0.0}}
evaluation: {{attacks: [textbugger/minilm], rows: 4}}
objective: {{floor_points: null}}
"""


@pytest.fixture
def yaml(tmp_path, tiny_backbone, tiny_data):
    corpus = tmp_path / "corpus.txt"
    lines = tiny_data.read_text(encoding="utf-8").splitlines()[1:121]
    corpus.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines), encoding="utf-8")
    path = tmp_path / "two.yaml"
    path.write_text(YAML.format(model=tiny_backbone, data=tiny_data, corpus=corpus), encoding="utf-8")
    return path


@pytest.fixture
def pipeline_of(yaml, store_url):
    """Pipelines without attacks, which say nothing about the way of a ticket."""

    def pipeline(*overrides: str, url: str = store_url) -> Flow:
        experiment = load_experiment(yaml, overrides)
        world = replace(preflight(experiment, Store(url)), threats=())
        settings = experiment.settings
        return Flow(settings, world, LocalRunner(url, settings.resources))

    return pipeline


def names(stages, computed: bool = False) -> list[str]:
    return [stage.name for stage in stages if not (computed and stage.cached)]


def test_one_search_serves_three_tasks_each_at_its_own_ratio(pipeline_of):
    pipeline = pipeline_of()
    outcome = pipeline.find_ticket(ignore)
    second, third = outcome.transfers
    assert names(pipeline.stages, computed=True) == ["masked_lm", "mlm_search", "draw", "retrain", "evaluate"]
    assert names(second.stages) == ["draw", "retrain", "evaluate"]
    assert names(third.stages) == ["retrain", "evaluate"]
    assert (second.name, third.name) == ("second", "third")
    # 2 layers of 4 heads and 48 neurons: 2 of 8 heads, a quarter or a half of 96 neurons.
    assert [each.sparsity.heads for each in (outcome, second.outcome, third.outcome)] == [25.0] * 3
    assert [each.sparsity.neurons for each in (outcome, second.outcome, third.outcome)] == [25.0, 50.0, 25.0]
    assert outcome.mask == third.outcome.mask != second.outcome.mask
    assert [each.clean.rows for each in (outcome, second.outcome, third.outcome)] == [48, 40, 40]
    assert len({each.retrain_digest for each in (outcome, second.outcome, third.outcome)}) == 3
    metrics = outcome.metrics()
    cleans = [each.clean.accuracy for each in (outcome, second.outcome, third.outcome)]
    assert metrics["transfer/second/clean"] == cleans[1]
    assert metrics["mean/clean"] == pytest.approx(sum(cleans) / 3)
    again = pipeline_of("method.drawing.neurons=0.4")
    again.find_ticket(ignore)
    assert "mlm_search" in names(again.stages)
    assert "mlm_search" not in names(again.stages, computed=True), "scores are stored once and drawn at any ratio"


def test_a_trial_on_one_task_and_one_with_further_tasks_share_the_search_whatever_the_main_task(pipeline_of):
    pipeline_of().draw(ignore)
    other = pipeline_of("transfer={}", "task.max_length=12", "task.rows.train=64", "retraining.epochs=2")
    other.draw(ignore)
    assert names(other.stages, computed=True) == [], "masked text knows no task"


def test_dense_and_random_controls_are_measured_on_every_task(pipeline_of):
    dense = pipeline_of().dense_control(ignore)
    assert [(each.outcome.mask, each.outcome.clean.rows) for each in dense.transfers] == [(None, 40)] * 2
    outcome = pipeline_of().find_ticket(ignore)
    keys = {each.name: StageKey("draw", each.outcome.draw_digest, each.outcome.mask) for each in outcome.transfers}
    like = StageKey("draw", outcome.draw_digest, outcome.mask)
    control = pipeline_of().random_control(like, 0, ignore, keys)
    assert [each.outcome.sparsity.neurons for each in control.transfers] == [50.0, 25.0]
    assert control.transfers[0].outcome.mask != outcome.transfers[0].outcome.mask


def test_an_encoder_without_a_head_gets_one_and_a_checkpoint_with_one_keeps_it(pipeline_of, tiny_backbone, tmp_path):
    fitted = pipeline_of("transfer={}").find_ticket(ignore).masked_head
    assert fitted.fitted
    assert 0 < fitted.top10 <= 100
    found = load_masked_lm_backbone(Model(source=str(tiny_backbone)), seed=0)
    folder = tmp_path / "mlm"
    folder.mkdir()
    for name, content in masked_lm_files(found.model, found.tokenizer).items():
        (folder / name).write_bytes(content)
    pipeline = pipeline_of("transfer={}", f"model.source={folder}")
    assert not pipeline.find_ticket(ignore).masked_head.fitted


def test_roberta_is_searched_in_the_same_way(pipeline_of, tmp_path):
    save_checkpoint("roberta", tmp_path / "roberta")
    pipeline = pipeline_of("transfer={}", f"model.source={tmp_path / 'roberta'}", "method.head.epochs=0.1")
    outcome = pipeline.find_ticket(ignore)
    assert outcome.sparsity.heads == 25.0
    assert names(pipeline.stages)[:2] == ["masked_lm", "mlm_search"]


def test_any_task_can_take_the_place_of_masked_text(pipeline_of, yaml):
    on_task, on_second = pipeline_of("method.search_on=task"), pipeline_of("method.search_on=second")
    masks = {on_task.draw(ignore).content, on_second.draw(ignore).content, pipeline_of().draw(ignore).content}
    assert len(masks) == 3
    assert names(on_task.stages) == names(on_second.stages) == ["search", "draw"]
    assert on_second.method.find(on_second).inputs["max_length"] == 20
    with pytest.raises(ConfigError, match="search_on is 'fourth', but can be one of corpus, task, second, third"):
        load_experiment(yaml, ["method.search_on=fourth"])


@pytest.mark.parametrize(
    "ablation", ["ablation.mask=shuffled", "ablation.weights=reinitialised", "ablation.structure=discarded"]
)
def test_ablations_hold_on_every_task(pipeline_of, ablation):
    plain, ablated = pipeline_of().find_ticket(ignore), pipeline_of(ablation).find_ticket(ignore)
    pairs = [(plain, ablated)]
    pairs += [(a.outcome, b.outcome) for a, b in zip(plain.transfers, ablated.transfers, strict=True)]
    for one, other in pairs:
        assert one.retrain_digest != other.retrain_digest
        assert (one.mask == other.mask) == (ablation != "ablation.mask=shuffled")
        whole = ablation == "ablation.structure=discarded"
        assert other.sparsity.neurons == (0.0 if whole else one.sparsity.neurons)


def test_search_and_tuning_with_and_without_an_adversary_are_four_models(pipeline_of):
    """Table 3: two searches, each trained in two ways."""
    models = {}
    for searched in ("freelb", "none"):
        for tuned in ("freelb", "none"):
            overrides = [f"method.adversary={{kind: {searched}, steps: 2}}"]
            overrides += [f"retraining.adversary={{kind: {tuned}, steps: 2}}", "retraining.learning_rate=1.0e-3"]
            pipeline = pipeline_of("transfer={}", *overrides)
            models[searched, tuned] = pipeline.find_ticket(ignore)
            assert ("mlm_search" in names(pipeline.stages, computed=True)) == (tuned == "freelb")
    assert len({outcome.retrain_digest for outcome in models.values()}) == 4
    assert len({outcome.mask for outcome in models.values()}) == 2


def test_a_search_resumed_from_a_checkpoint_ends_with_the_same_bits(pipeline_of, store_url, tmp_path):
    whole = pipeline_of("transfer={}", "method.gamma=0.0")
    wanted = whole.run(whole.method.find(whole), ignore)
    url = str(tmp_path / "cut")
    pipeline = pipeline_of("transfer={}", "method.gamma=0.0", url=url)
    stage, resources = pipeline.method.find(pipeline), Resources()

    class Cut(Exception):
        pass

    def cut(done: int, total: int, records: int) -> None:
        if records == 2 and done > 0:
            raise Cut

    with pytest.raises(Cut):
        execution.execute(stage, resources, url, cut)
    assert Store(url).load_checkpoint(stage) is not None
    resumed = execution.execute(stage, resources, url, lambda *progress: None)
    assert resumed.history == wanted.history
    file = "trajectory.safetensors"
    assert Store(url).read(resumed, file) == Store(store_url).read(wanted, file)


def test_the_plan_has_one_search_per_trial_however_many_tasks(yaml, store_url):
    overrides = ["search.trials=2", "controls.random=true", "evaluation.shard=4", "transfer.third.attacked_rows=9"]
    experiment = load_experiment(yaml, overrides)
    store = Store(store_url)
    world = world_of(experiment, look(experiment))
    stages = {stage.name: stage.asked for stage in plan(experiment, world, store, 128)}
    # Two trials of two drawings, and random tickets on three tasks; four models on three tasks.
    wanted = {
        "mlm_search": 2,
        "masked_lm": 2,
        "draw": 2 * 2 + 3,
        "retrain": 12,
        "evaluate": 12,
        "attack": 4 * (1 + 1 + 3),
    }
    assert stages == wanted
    assert set(world.transfers) == {"second", "third"}
    assert world == preflight(experiment, store)


def test_what_does_not_fit_is_refused_before_anything_runs(pipeline_of, yaml):
    with pytest.raises(ConfigError, match=r"transfer\.second\.task\.max_length is 99, but the model has positions"):
        pipeline_of("transfer.second.task.max_length=99")
    with pytest.raises(ConfigError, match=r"method\.block is 128, but the model has positions for 40"):
        pipeline_of("method.block=128")
    with pytest.raises(ConfigError, match=r"transfer\.second\.drawing\.heads.*would remove 7 of the 8 heads"):
        pipeline_of("transfer.second.drawing.heads=0.8")
    with pytest.raises(DataError, match="gives 120 texts, and 120 are held out"):
        pipeline_of("method.head.held_out=120")
    with pytest.raises(ConfigError, match="early_exit only looks at the main task"):
        load_experiment(yaml, ["evaluation.early_exit=true"])
    with pytest.raises(ConfigError, match=r"44 attacked rows are more than transfer\.second\.task\.rows\.select"):
        load_experiment(yaml, ["evaluation.rows=44"])
    with pytest.raises(ConfigError, match=r"'task' is reserved for method\.search_on"):
        load_experiment(yaml, ["transfer.task={}"])
    with pytest.raises(ConfigError, match=r"method\.rows.*cannot be searched"):
        pipeline_of("method.rows={int: [50, 100]}")


def test_ratios_of_each_task_and_the_corpus_can_be_searched(yaml, store_url, tmp_path):
    (tmp_path / "other.txt").write_text("\n".join(f"the film number {n}" for n in range(60)), encoding="utf-8")
    first = load_experiment(yaml).settings.method.corpus
    corpora = f"method.corpus={{choice: [{first}, {tmp_path / 'other.txt'}]}}"
    experiment = load_experiment(yaml, ["transfer.second.drawing.neurons={choice: [0.2, 0.3]}", corpora])
    assert set(experiment.domains) == {"transfer.second.drawing.neurons", "method.corpus"}
    settings = experiment.at({"transfer.second.drawing.neurons": 0.3, "method.corpus": first})
    assert settings.transfer["second"].drawing.neurons == 0.3
    assert len(preflight(experiment, Store(store_url)).search_texts) == 2
    with pytest.raises(ConfigError, match="is only allowed in the sections"):
        load_experiment(yaml, ["transfer.second.task.max_length={choice: [8, 9]}"])
