"""A driver is killed before each of its writes to Optuna's storage or the records; the next driver repairs it."""

from pathlib import Path

import pytest
from optuna.storages import InMemoryStorage

from tune_tickets.config import Experiment, load_experiment
from tune_tickets.results.folder import Results
from tune_tickets.results.objective import names
from tune_tickets.results.records import TrialRecord
from tune_tickets.search.searcher import TicketSearch
from tune_tickets.search.space import trials_wanted

YAML = """\
method:
  kind: earlyrobust
  gamma: {uniform: [0.0, 0.4], step: 0.2}
  adversary:
    kind: {choice: [freelb, none]}
    steps: {int: [2, 6], step: 2, when: {method.adversary.kind: freelb}}
search:
  trials: 5
  startup_trials: 2
  population: 2
  warm_starts: [{method.gamma: 0.2}, {method.adversary.kind: none}]
"""
WRITES = (
    "create_new_trial",
    "set_trial_param",
    "set_trial_state_values",
    "set_trial_user_attr",
    "set_trial_system_attr",
)


class Killed(BaseException):
    """Stands for `kill -9`."""


class Countdown:
    """Counts writes, and kills the driver before the one it is set to."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.writes, self.deadly = 0, -1
        for name in WRITES:
            patch.setattr(InMemoryStorage, name, self._counted(getattr(InMemoryStorage, name)))
        patch.setattr(Results, "add_trial", self._counted(Results.add_trial))

    def _counted(self, write):
        def counted(*arguments, **named):
            self.writes += 1
            if self.writes == self.deadly:
                raise Killed
            return write(*arguments, **named)

        return counted


def drive(experiment: Experiment, folder: Path, storage: InMemoryStorage) -> None:
    """What a driver does of one trial after the other, as far as storage and records see it."""
    folder.mkdir(exist_ok=True)
    results = Results(folder, str(folder / "store"))
    search = TicketSearch(experiment, storage, results.read_trials())
    for turn in range(trials_wanted(experiment) - search.finished()):
        params = search.suggest(str(turn))
        value = params["method.gamma"] + params.get("method.adversary.steps", 0) / 10
        status = "pruned" if value > 0.9 else "complete"
        values = (value, 1.0 - params["method.gamma"])[: len(names(experiment.settings.objective))]
        more = {"bound": values} if status == "pruned" else {"values": values}
        number = search.number(str(turn))
        record = TrialRecord(id=f"t{number:03d}", number=number, status=status, params=params, **more)
        results.add_trial(record)
        search.tell(str(turn), record)


def outcome(experiment: Experiment, folder: Path, storage: InMemoryStorage) -> tuple[list, list]:
    records = Results(folder, str(folder / "store")).read_trials()
    study = TicketSearch(experiment, storage, records).study
    told = [(trial.number, trial.state, trial.values, trial.params, dict(trial.user_attrs)) for trial in study.trials]
    return records, told


SAMPLERS = ("random", "tpe", "multivariate-tpe", "group-tpe", "nsga2", "gp", "grid")


@pytest.mark.parametrize("kind", ["weighted", "pareto"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_killed_before_any_write_and_resumed_a_search_ends_like_an_undisturbed_one(
    sampler, kind, tmp_path, monkeypatch
):
    (tmp_path / "x.yaml").write_text(YAML, encoding="utf-8")
    experiment = load_experiment(tmp_path / "x.yaml", [f"search.sampler={sampler}", f"objective.kind={kind}"])
    countdown = Countdown(monkeypatch)
    storage = InMemoryStorage()
    drive(experiment, tmp_path / "undisturbed", storage)
    writes = countdown.writes
    assert writes > 20
    wanted = outcome(experiment, tmp_path / "undisturbed", storage)
    first, every = (writes // 3, 2) if (sampler, kind) == ("gp", "pareto") else (1, 1)  # a fit takes half a second
    for deadly in range(first, writes + 1, every):
        folder, storage = tmp_path / f"killed-{deadly}", InMemoryStorage()
        countdown.writes, countdown.deadly = 0, deadly
        with pytest.raises(Killed):
            drive(experiment, folder, storage)
        countdown.deadly = -1
        drive(experiment, folder, storage)
        assert outcome(experiment, folder, storage) == wanted, f"killed before write {deadly} of {writes}"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_finished_search_given_more_trials_ends_like_one_that_had_them_from_the_start(sampler, tmp_path):
    (tmp_path / "x.yaml").write_text(YAML, encoding="utf-8")
    ends = {}
    for name, sessions in {"at once": [5], "grown": [1, 3, 5]}.items():
        storage = InMemoryStorage()
        for trials in sessions:  # the first has room for one of the two warm starts
            experiment = load_experiment(tmp_path / "x.yaml", [f"search.sampler={sampler}", f"search.trials={trials}"])
            drive(experiment, tmp_path / name, storage)
        ends[name] = outcome(experiment, tmp_path / name, storage)
    assert len(ends["grown"][0]) == 5
    assert ends["grown"] == ends["at once"]
