"""Every stage that trains, interrupted within an epoch, resumes from its last mini-epoch with the same bits."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import POINT, ignore
from tests.flow.test_srnets import POE, srnets
from tests.stages import Stage
from tune_tickets.config import Experiment, Settings, load_experiment
from tune_tickets.config.training import Retraining
from tune_tickets.engine.execution import StageContext, execute
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import StageResult
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.robustt import RobustT
from tune_tickets.search.preflight import preflight
from tune_tickets.training.schedule import LEAST_STEPS

FAST = {"learning_rate": 1e-3, "batch_size": 16}
ADVERSARY = {"kind": "freelb", "steps": 2, "step_size": 0.1}
FINETUNING = {"epochs": 1, "batch_size": 16, "learning_rate": 3e-3}
ROBUSTT = RobustT(epochs=2.0, batch_size=16, adversary=ADVERSARY, finetuning=FINETUNING, sparsity=0.3)
ORTICKET = (
    "method={{kind: orticket, corpus: {corpus}, block: 16, batch_size: 8, gamma: 0.0, adversary: {{steps: 2}}, "
    "head: {{held_out: 20, max_length: 16, epochs: 1}}}}"
)
FITTING = ("evaluation.attacks=[bert-attack/minilm]", "evaluation.masked_lm={held_out: 20, max_length: 24, epochs: 1}")
CUT_AT = 6
"""An epoch has 8 steps or a few more, each of them a mini-epoch of a search."""


class Cut(Exception):
    """Stands for a kill."""


class CutOnce(LocalRunner):
    """Cuts the first stage of a kind off in the middle of an epoch, and runs it again."""

    def __init__(self, url: str, kind: str, resources, patch: pytest.MonkeyPatch) -> None:
        super().__init__(url, resources)
        self.kind, self.patch = kind, patch
        self.repeated: list[int] = []

    def run(self, stage: Stage, on_record=None) -> StageResult:
        if stage.name == self.kind and not self.repeated:
            self._cut(stage)
        return super().run(stage, on_record)

    def _cut(self, stage: Stage) -> None:
        tell = StageContext.progress

        def progress(context: StageContext, done: int, total: int) -> None:
            tell(context, done, total)
            if done == CUT_AT and context.stage == stage:
                raise Cut

        with self.patch.context() as patch:
            patch.setattr(StageContext, "progress", progress)
            with pytest.raises(Cut):
                execute(stage, self._resources, self.store_url, lambda *progress: None)

        def noted(context: StageContext, done: int, total: int) -> None:
            if context.stage == stage:
                self.repeated.append(done)
            tell(context, done, total)

        self.patch.setattr(StageContext, "progress", noted)


def find(pipeline: Flow) -> None:
    pipeline.draw(ignore)


def train(pipeline: Flow) -> None:
    pipeline.run(pipeline.retrain(None), ignore)


def guess(pipeline: Flow) -> None:
    pipeline.run(pipeline._attackers_masked_lm(), ignore)


KINDS: dict[str, tuple[object, Callable[[Flow], None]]] = {
    "retrain": (None, train),
    "search": (None, find),
    "masked_lm": (None, guess),
    "mlm_search": (None, find),
    "masks": (ROBUSTT, find),
    "imp": (Imp(**FAST, epochs=2.0, adversary=ADVERSARY, sparsity=0.1), find),
    "srnets_masks": (srnets(init="soft", start_sparsity=0.2, debiasing=POE), find),
    "srnets_imp": (srnets(pruning="imp", prune_step=0.25, prune_interval=0.5), find),
}


def setting(kind: str, yaml: Path, corpus: Path) -> tuple[Experiment, Settings]:
    """An experiment, and the settings of a trial that has a stage of this kind."""
    overrides = {"masked_lm": FITTING, "mlm_search": [ORTICKET.format(corpus=corpus)]}.get(kind, ())
    experiment = load_experiment(yaml, overrides)
    settings = experiment.settings if kind == "mlm_search" else experiment.at(POINT)
    method, _ = KINDS[kind]
    changes = {
        "retraining": Retraining(**FINETUNING | {"epochs": 2}),
        "method": method or settings.method,
    }
    return experiment, settings.model_copy(update=changes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_cut_off_within_an_epoch_ends_with_the_same_bits(kind, tiny_yaml, tiny_data, tmp_path, monkeypatch):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(line.rsplit(",", 1)[0] for line in tiny_data.read_text().splitlines()[1:121]))
    experiment, settings = setting(kind, tiny_yaml, corpus)
    cutting = CutOnce(str(tmp_path / "cut"), kind, settings.resources, monkeypatch)
    found = []
    for runner in (LocalRunner(str(tmp_path / "whole"), settings.resources), cutting):
        store = Store(runner.store_url)
        pipeline = Flow(settings, preflight(experiment, store), runner)
        KINDS[kind][1](pipeline)
        digest = next(stage.digest for stage in pipeline.stages if stage.name == kind)
        goal = Stage(kind, {}, goal=settings.method.stop_rule()).goal_digest if "search" in kind else None
        result = store.find(kind, digest, goal)
        found.append((result.history, {file: store.read(result, file) for file in result.files}, figures(result)))
    lost = CUT_AT - cutting.repeated[0]
    assert lost < (1 if "search" in kind else LEAST_STEPS), "no more than a mini-epoch is repeated"
    assert found[0] == found[1]


def figures(result: StageResult) -> dict:
    """The record, but for what belongs to a try: seconds, and how many mini-epochs it computed."""
    training = {name: value for name, value in result.record.get("training", {}).items() if name != "seconds"}
    return {**result.record, "training": training, "computed_mini_epochs": None}


OLD = {
    "retrain": {"state.pt": b"a state", "history.json": b'[{"step": 1}]', "kept.json": b"{}"},
    "search": {"trajectory.safetensors": b"scores", "losses.json": b"[0.5]", "costs.json": b"[[16, 0.1]]"},
}
"""What earlier versions kept."""


@pytest.mark.parametrize("kind", OLD)
def test_a_checkpoint_of_an_earlier_version_is_discarded(kind, tiny_yaml, tiny_data, tmp_path):
    experiment, settings = setting(kind, tiny_yaml, tmp_path)
    found = []
    for name in ("new", "old"):
        store = Store(str(tmp_path / name))
        pipeline = Flow(settings, preflight(experiment, store), LocalRunner(store.url, settings.resources))
        stage = pipeline.retrain(None) if kind == "retrain" else pipeline.method.find(pipeline)
        if name == "old":
            store.save_checkpoint(stage, OLD[kind])
        result = pipeline.run(stage, ignore)
        found.append((result.history, {file: store.read(result, file) for file in result.files}, figures(result)))
        assert result.record.get("computed_mini_epochs", 1) > 0
    assert found[0] == found[1]
