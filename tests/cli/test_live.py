import io
import subprocess
import sys
import threading

import pytest
from rich.console import Console

from tune_tickets.cli.live import HEARTBEAT_SECONDS, PlainView, TerminalView, make_view
from tune_tickets.search.progress import EpochReport, Note, Progress, StageChanged, TrialFinished, TrialStarted


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=80, height=12, color_system=None)


def lines(console):
    return console.file.getvalue().splitlines()


def picture(view, width=80):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(view.render())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_note_about_the_search_is_printed_as_it_is_and_is_no_trial(console, clock):
    text = "A stage needs 1 GPU, 0 free, autoscaler may add 4 [of the kind gpu], or whatever else a long line may say"
    for view in (PlainView(2, console, clock), TerminalView(2, console, clock)):
        view.handle(Note(text))
        assert lines(console)[-1].endswith(text)
    assert not any("trial 0" in line for line in picture(view))


def test_plain_lines_tell_the_whole_story_of_a_trial(console, clock):
    view = PlainView(2, console, clock)
    view.handle(TrialStarted(3, {"method.gamma": 0.1, "task.labels": ["[bold]", "b"]}))
    view.handle(StageChanged(3, "search", cached=True))
    view.handle(StageChanged(3, "retrain", cached=False))
    clock.now = 5.0
    view.handle(Progress(3, "retrain", 1, 2))
    view.handle(EpochReport(3, {"clean": 81.25, "loss": 0.5}))
    clock.now = 12.0
    view.handle(StageChanged(3, "evaluate", cached=False))
    clock.now = 65.0
    view.handle(TrialFinished(3, "complete", (0.535,), {"clean": 84.0, "aua": 23.0}))
    assert lines(console) == [
        "[0:00] trial 3 started: method.gamma=0.1, task.labels=['[bold]', 'b']",
        "[0:00] trial 3: search was in the store",
        "[0:00] trial 3: retrain begins",
        "[0:05] trial 3: clean 81.2, loss 0.5",
        "[0:12] trial 3: retrain ended after 0:12",
        "[0:12] trial 3: evaluate begins",
        "[1:05] trial 3: evaluate ended after 0:53",
        "[1:05] trial 3 complete, objective 0.535 (clean 84.0, aua 23.0)",
        "[1:05] 1/2 trials done, 0 running; best objective 0.535 (trial 3), 1:05 elapsed, about 1:05 left",
    ]


def test_a_failure_is_told_with_its_first_line(console, clock):
    view = PlainView(1, console, clock)
    view.handle(TrialFinished(0, "failed", None, {}, "out of memory\nTraceback"))
    assert lines(console)[0] == "[0:00] trial 0 failed: out of memory"


def test_signs_of_life_come_only_after_silence(console, clock):
    view = PlainView(2, console, clock)
    view.handle(TrialStarted(0, {}))
    view.handle(StageChanged(0, "search", cached=False))
    before = len(lines(console))
    for step in range(1, 46):
        clock.now = float(step)
        view.handle(Progress(0, "search", step, 100))
    beats = lines(console)[before:]
    assert HEARTBEAT_SECONDS == 15.0
    assert beats == [
        "[0:15] trial 0 search 15%; 0/2 trials done, 1 running",
        "[0:30] trial 0 search 30%; 0/2 trials done, 1 running",
        "[0:45] trial 0 search 45%; 0/2 trials done, 1 running",
    ]


def test_a_search_without_running_trials_gives_no_sign_of_life(console, clock):
    view = PlainView(2, console, clock)
    clock.now = 100.0
    view.beat()
    assert lines(console) == []


def test_signs_of_life_come_without_any_event(monkeypatch, console):
    monkeypatch.setattr("tune_tickets.cli.live.HEARTBEAT_SECONDS", 0.5)
    done = threading.Event()
    with PlainView(1, console) as view:
        view.handle(TrialStarted(0, {}))
        done.wait(1.6)
    assert any("trial 0 waiting; 0/1 trials done, 1 running" in line for line in lines(console))
    assert not view._thread.is_alive()


def test_events_from_many_threads_keep_their_lines_whole(console):
    with make_view(400, console) as view:

        def work(first):
            for number in range(first, first + 50):
                view.handle(TrialStarted(number, {"a": 1}))
                view.handle(TrialFinished(number, "complete", (0.5,), {}))

        threads = [threading.Thread(target=work, args=(50 * index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = lines(console)
    assert len(found) == 400 * 3
    assert sum(line.endswith("started: a=1") for line in found) == 400
    assert sum("400/400 trials done, 0 running" in line for line in found) == 1


def test_the_view_follows_the_console():
    assert isinstance(make_view(1, Console(file=io.StringIO())), PlainView)
    assert isinstance(make_view(1, Console(file=io.StringIO(), force_terminal=True)), TerminalView)


def test_a_terminal_that_cannot_redraw_gets_plain_lines(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(make_view(1, console), PlainView)


def test_the_table_shows_stage_progress_figures_and_endings(console, clock):
    view = TerminalView(4, console, clock)
    view.handle(TrialStarted(0, {}))
    clock.now = 60.0
    view.handle(TrialFinished(0, "complete", (0.535,), {"clean": 84.0, "aua": 23.0}))
    view.handle(TrialStarted(1, {}))
    view.handle(StageChanged(1, "retrain", cached=False))
    view.handle(Progress(1, "retrain", 3, 10))
    view.handle(EpochReport(1, {"clean": 81.0}))
    view.handle(TrialStarted(2, {}))
    view.handle(StageChanged(2, "search", cached=True))
    clock.now = 65.0
    assert picture(view) == [
        "1/4 trials done, 2 running",
        "best objective 0.535 (trial 0), 1:05 elapsed, about 3:15 left",
        "trial    stage        progress         time     figures",
        "trial 1  retrain      ━━━───────  30%  0:05     clean 81.0",
        "trial 2  search       in the store     0:05",
        "trial 0  complete     obj. 0.535       1:00     clean 84.0, aua 23.0",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_picture_is_never_wider_or_higher_than_the_terminal(width, clock):
    console = Console(file=io.StringIO(), width=width, height=12, color_system=None)
    view = TerminalView(1000, console, clock)
    for number in range(995, 1020):
        view.handle(TrialStarted(number, {}))
        view.handle(StageChanged(number, "a stage with a long name", cached=False))
        view.handle(EpochReport(number, {f"metric/{index}": 12.345 for index in range(20)}))
        clock.now += 1.0
        if number % 2:
            view.handle(TrialFinished(number, "failed", None, {}, "a long error " * 20 + "\nsecond line"))
    shown = picture(view, width)
    assert len(shown) <= 12
    assert max(len(line) for line in shown) <= width
    assert shown[2].startswith("trial 1019 failed: a long error")
    assert shown[2].endswith("…")
    assert shown[-1] == f"and {25 - (len(shown) - 5)} more"


def test_the_terminal_view_leaves_its_last_picture_behind(clock):
    console = Console(file=io.StringIO(), width=80, height=12, force_terminal=True, color_system=None)
    with make_view(1, console) as view:
        view.handle(TrialStarted(0, {}))
        view.handle(TrialFinished(0, "complete", (0.5,), {}))
    assert "1/1 trials done, 0 running" in console.file.getvalue()


def test_an_ascii_terminal_gets_an_ascii_bar(clock):
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    view = TerminalView(1, Console(file=file, width=80, color_system=None), clock)
    view.handle(Progress(0, "search", 1, 2))
    assert "#####-----  50%" in picture(view)[-1]


def test_the_view_imports_nothing_heavy():
    script = "import sys, tune_tickets.cli.live; print(sorted({'torch', 'mlflow', 'ray', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
