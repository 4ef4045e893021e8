import pytest

from tune_tickets.search.progress import (
    Board,
    EpochReport,
    Note,
    Progress,
    Resumed,
    StageChanged,
    TrialFinished,
    TrialStarted,
    clock_text,
    figures_text,
)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def complete(number, *values, feasible=True):
    return TrialFinished(number, "complete", values, {}, feasible=feasible)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (59.9, "0:59"), (61, "1:01"), (3599, "59:59"), (36061, "10:01:01")]
)
def test_times_are_written_like_a_clock(seconds, text):
    assert clock_text(seconds) == text


def test_figures_that_do_not_fit_are_left_out_whole():
    metrics = {"clean": 84.04, "loss": 0.123456, "parameters": 21345678.0}
    assert figures_text(metrics) == "clean 84.0, loss 0.1235, parameters 21345678.0"
    assert figures_text(metrics, 23) == "clean 84.0, loss 0.1235"
    assert figures_text(metrics, 22) == "clean 84.0"
    assert figures_text(metrics, 3) == ""


def test_time_left_follows_the_pace_of_the_trials_that_ended(clock):
    board = Board(10, clock)
    assert "left" not in board.outlook()
    for number in range(4):
        board.apply(TrialStarted(number, {}))
        clock.now += 30
        board.apply(complete(number, 0.5))
    # 4 trials in 120 s, so 6 more take 180 s.
    assert board.outlook().endswith(", 2:00 elapsed, about 3:00 left")


def test_of_several_that_are_equally_good_none_is_called_the_best_alone(clock):
    board = Board(10, clock)
    board.recall(Resumed("Resumed.", (complete(0, 0.4), complete(1, 0.5))))
    board.apply(complete(3, 0.5))
    assert board.outlook().startswith("best objective 0.500 (trials 1, 3),")
    for number in (4, 5, 6):
        board.apply(complete(number, 0.5))
    assert board.outlook().startswith("best objective 0.500 (trials 1, 3, 4 and 2 more),")


def test_trials_of_earlier_sessions_count_as_done_and_as_the_best_but_set_no_pace(clock):
    board = Board(10, clock)
    failed = TrialFinished(1, "failed", None, {})
    board.recall(Resumed("Resumed.", (complete(0, 0.7), failed, *(complete(number, 0.5) for number in range(2, 7)))))
    board.recall(Note("A line about something else."))
    assert board.counts() == "7/10 trials done, 0 running, 1 failed"
    assert board.outlook() == "best objective 0.700 (trial 0), 0:00 elapsed"
    board.apply(TrialStarted(7, {}))
    clock.now += 30
    board.apply(complete(7, 0.6))
    assert board.counts() == "8/10 trials done, 0 running, 1 failed"
    # One trial in 30 s, so the last two take 60 s.
    assert board.outlook() == "best objective 0.700 (trial 0), 0:30 elapsed, about 1:00 left"


def test_controls_count_neither_as_trials_nor_as_the_best(clock):
    board = Board(2, clock)
    board.apply(TrialStarted("dense", {}))
    board.apply(complete("dense", 0.9))
    board.apply(complete(0, 0.5))
    assert board.counts() == "1/2 trials done, 0 running"
    assert "best objective 0.500 (trial 0)" in board.outlook()


def test_a_ticket_that_may_not_win_is_never_the_best(clock):
    board = Board(3, clock)
    board.apply(complete(0, 0.9, feasible=False))
    assert "best" not in board.outlook()
    board.apply(complete(1, 0.2))
    assert "best objective 0.200 (trial 1)" in board.outlook()


def test_a_vector_objective_shows_how_many_are_on_the_front(clock):
    board = Board(3, clock)
    board.apply(complete(0, 0.8, 0.2))
    board.apply(complete(1, 0.7, 0.3))
    board.apply(complete(2, 0.7, 0.1))
    assert "2 on the front" in board.outlook()


def test_lost_trials_are_counted_by_kind_and_the_last_failure_is_named(clock):
    board = Board(5, clock)
    board.apply(TrialFinished(0, "pruned", None, {}))
    board.apply(TrialFinished(1, "failed", None, {}, "first"))
    clock.now = 1.0
    board.apply(TrialFinished(2, "failed", None, {}, "out of memory\nand a long story"))
    board.apply(TrialStarted(3, {}))
    assert board.counts() == "3/5 trials done, 1 running, 1 pruned, 2 failed"
    assert board.last_failure() == "trial 2 failed: out of memory"


def test_where_no_trials_are_expected_models_are_counted(clock):
    board = Board(0, clock)
    board.apply(complete("dense, seed 1", 0.9))
    board.apply(TrialStarted("t001, seed 1", {}))
    assert board.counts() == "1 models done, 1 running"


def test_progress_is_a_share_between_nothing_and_everything(clock):
    board = Board(1, clock)
    assert board.apply(Progress(0, "search", 1, 4)).share == 0.25
    assert board.apply(Progress(0, "search", 5, 4)).share == 1.0
    assert board.apply(Progress(0, "search", 1, 0)).share is None
    assert board.apply(StageChanged(0, "draw", cached=False)).share is None


def test_a_trial_that_starts_again_forgets_its_first_attempt(clock):
    board = Board(1, clock)
    board.apply(TrialFinished(0, "failed", None, {}, "node lost"))
    board.apply(TrialStarted(0, {}))
    assert board.counts() == "0/1 trials done, 1 running"
    assert board.last_failure() == ""


def test_the_last_epoch_stays_visible_when_an_ending_has_no_figures(clock):
    board = Board(1, clock)
    board.apply(EpochReport(0, {"clean": 80.0}))
    assert board.apply(TrialFinished(0, "pruned", None, {})).metrics == {"clean": 80.0}
