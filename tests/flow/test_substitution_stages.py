"""Training on substitutes in every stage that has an adversary."""

from collections.abc import Callable

import pytest

from tests.flow.conftest import POINT, ignore
from tests.flow.test_resumed_stages import FAST, FINETUNING, CutOnce, figures, find, train
from tests.stages import Stage
from tune_tickets.config import load_experiment
from tune_tickets.config.training import Adversary, Retraining
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.attacking import trained_on
from tune_tickets.methods.base import Flow
from tune_tickets.methods.earlyrobust import EarlyRobust
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.robustt import RobustT
from tune_tickets.search.preflight import preflight

SUBSTITUTION = {"kind": "substitution", "tries": 2}
ADVERSARY = Adversary(**SUBSTITUTION)
METHODS: dict[str, tuple[object, Callable[[Flow], None]]] = {
    "retrain": (None, train),
    "search": (EarlyRobust(batch_size=16, gamma=0.0, adversary=SUBSTITUTION), find),
    "masks": (RobustT(epochs=2.0, batch_size=16, adversary=SUBSTITUTION, finetuning=FINETUNING), find),
    "imp": (Imp(**FAST, epochs=2.0, adversary=SUBSTITUTION, sparsity=0.1), find),
}


def changed(settings, kind):
    method = METHODS[kind][0]
    adversary = SUBSTITUTION if kind == "retrain" else {"kind": "none"}
    retraining = Retraining(**FINETUNING | {"epochs": 2}, adversary=adversary)
    return settings.model_copy(update={"retraining": retraining, "method": method or settings.method})


@pytest.mark.parametrize("kind", METHODS)
def test_a_stage_cut_off_within_an_epoch_ends_with_the_same_bits(kind, tiny_yaml, tmp_path, monkeypatch):
    experiment = load_experiment(tiny_yaml)
    settings = changed(experiment.at(POINT), kind)
    cutting = CutOnce(str(tmp_path / "cut"), kind, settings.resources, monkeypatch)
    found = []
    for runner in (LocalRunner(str(tmp_path / "whole"), settings.resources), cutting):
        store = Store(runner.store_url)
        pipeline = Flow(settings, preflight(experiment, store), runner)
        METHODS[kind][1](pipeline)
        digest = next(stage.digest for stage in pipeline.stages if stage.name == kind)
        goal = Stage(kind, {}, goal=settings.method.stop_rule()).goal_digest if kind == "search" else None
        result = store.find(kind, digest, goal)
        found.append((result.history, {file: store.read(result, file) for file in result.files}, figures(result)))
    assert cutting.repeated, "it was cut off"
    assert found[0] == found[1]
    passes = found[0][2]["training"]["passes"]
    epochs = 1 if kind == "search" else 2
    assert passes == pytest.approx(epochs * Adversary(**SUBSTITUTION).passes)


def test_one_table_serves_all_trainings(experiment, world, store_url):
    settings = changed(experiment.settings, "imp")
    both = settings.model_copy(update={"retraining": settings.retraining.model_copy(update={"adversary": ADVERSARY})})
    pipeline = Flow(both, world, LocalRunner(store_url, both.resources))
    pipeline.run(pipeline.retrain(pipeline.draw(ignore)), ignore)
    tables = [stage for stage in pipeline.stages if stage.name == "substitutes"]
    assert len(tables) == 2
    assert [stage.cached for stage in tables] == [False, True]
    assert len({stage.digest for stage in tables}) == 1


def test_other_kinds_ask_for_no_table(experiment, world, store_url):
    for adversary in (Adversary(), Adversary(kind="substitution", source="none")):
        pipeline = Flow(experiment.settings, world, LocalRunner(store_url, experiment.settings.resources))
        stage = pipeline.retrain(None, Retraining(epochs=1, adversary=adversary))
        assert "substitutes" not in stage.upstream
        assert not pipeline.stages


def test_an_adversary_changes_what_is_learnt(experiment, world, store_url):
    pipeline = Flow(experiment.settings, world, LocalRunner(store_url, experiment.settings.resources))
    plain, slips, words = (
        pipeline.run(pipeline.retrain(None, Retraining(**FINETUNING, adversary=adversary)), ignore)
        for adversary in (Adversary(kind="none"), Adversary(kind="substitution", source="none"), ADVERSARY)
    )
    assert len({run.history[-1]["loss"] for run in (plain, slips, words)}) == 3


@pytest.mark.parametrize(
    ("threats", "note"),
    [
        (["words/near50-forms", "deepwordbug/local"], ("trained on the substitutes of words/near50-forms",)),
        (["textfooler/minilm"], ("trained on the substitutes of textfooler/minilm",)),
        (["deepwordbug/local"], ()),
    ],
)
def test_a_model_measured_by_what_it_was_trained_on_is_marked(threats, note, tiny_yaml, tmp_path):
    experiment = load_experiment(tiny_yaml, [f"evaluation.attacks=[{', '.join(threats)}]"])
    world = preflight(experiment, Store(str(tmp_path)))
    trained = changed(experiment.settings, "retrain")
    found = [
        trained_on(settings, world.sources, world.threats, whole)
        for settings, whole in ((trained, True), (trained, False), (experiment.settings, False))
    ]
    assert found == [note, note, ()]
