import logging

from tune_tickets.tracking.tracker import ATTEMPTS, PAUSE_SECONDS, Backlog


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Store:
    """Takes writes while it is up."""

    def __init__(self):
        self.up = True
        self.taken = []
        self.tries = 0

    def write(self, name):
        def action():
            self.tries += 1
            if not self.up:
                raise ConnectionError("postgresql://me:secret@host is down")
            self.taken.append(name)

        return action


def test_writes_are_done_at_once_and_in_order():
    store, backlog = Store(), Backlog(Clock())
    for name in "abc":
        backlog.run(name, store.write(name))
    assert store.taken == ["a", "b", "c"]
    assert backlog.problems == ()


def test_after_an_outage_the_waiting_writes_come_first():
    store, clock = Store(), Clock()
    backlog = Backlog(clock)
    store.up = False
    backlog.run("a", store.write("a"))
    backlog.run("b", store.write("b"))
    store.up = True
    clock.now = PAUSE_SECONDS + 1
    backlog.run("c", store.write("c"))
    assert store.taken == ["a", "b", "c"]
    assert backlog.problems == ()


def test_a_store_that_is_down_is_not_asked_at_every_write():
    store, backlog = Store(), Backlog(Clock())
    store.up = False
    for name in "abcdef":
        backlog.run(name, store.write(name))
    assert store.tries == 1
    assert len(backlog.problems) == 6


def test_one_write_that_never_works_does_not_block_the_others_for_ever():
    store, clock = Store(), Clock()
    backlog = Backlog(clock)

    def broken():
        raise ValueError("no such file")

    backlog.run("broken", broken)
    for turn in range(1, ATTEMPTS + 1):
        clock.now = turn * (PAUSE_SECONDS + 1)
        backlog.run(str(turn), store.write(turn))
    assert store.taken == [1, 2, 3]
    assert backlog.problems == ("broken is missing in MLflow: ValueError: no such file",)


def test_settling_tries_everything_again_in_order():
    store, backlog = Store(), Backlog(Clock())
    store.up = False
    backlog.run("a", store.write("a"))
    backlog.run("b", store.write("b"))
    backlog.settle()
    assert len(backlog.problems) == 2
    store.up = True
    backlog.settle()
    assert store.taken == ["a", "b"]
    assert backlog.problems == ()


def test_the_first_failure_is_warned_of_without_the_password(caplog):
    store, backlog = Store(), Backlog(Clock())
    store.up = False
    with caplog.at_level(logging.WARNING):
        backlog.run("the end of trial 3", store.write("a"))
        backlog.settle()
    assert len(caplog.records) == 1
    assert "the end of trial 3" in caplog.text
    assert "secret" not in caplog.text + str(backlog.problems)
