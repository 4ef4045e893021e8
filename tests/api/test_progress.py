"""The progress line of a search or an attack."""

import io

from tune_tickets.api.search import AttackLine, SearchLine
from tune_tickets.search.progress import Note, Progress, TrialFinished, TrialStarted


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_where_nothing_can_be_written_over_a_line_is_said_when_a_trial_ends():
    said, clock = io.StringIO(), Clock()
    line = SearchLine(2, said, clock)
    line(TrialStarted(0, {}))
    line(Progress(0, "search", 1, 4))
    assert said.getvalue() == ""
    clock.now = 60.0
    line(TrialFinished(0, "complete", (0.5,), {}))
    line(Note("A stage needs 8 CPU"))
    line.end()
    expected = "1/2 trials done, 0 running; best objective 0.500 (trial 0), 1:00 elapsed, about 1:00 left\n"
    assert said.getvalue() == expected + "A stage needs 8 CPU\n"


def test_a_terminal_shows_one_line_written_over_a_few_times_a_second():
    said, clock = Terminal(), Clock()
    with AttackLine("textbugger", 8, said, clock) as line:
        for done, now in ((1, 0.0), (2, 0.1), (3, 0.6), (8, 0.7)):
            clock.now = now
            line(done, 8)
    shown = ["textbugger: 1 of 8 rows", "textbugger: 3 of 8 rows", "textbugger: 8 of 8 rows"]
    assert said.getvalue() == "\r" + "\r".join(shown) + "\n"


def test_a_shorter_line_leaves_nothing_of_the_longer_one():
    said = Terminal()
    line = SearchLine(1, said, Clock())
    line(Note("a long line about the cluster"))
    line.show("short", lasting=True)
    assert said.getvalue().endswith("\rshort" + " " * (len("a long line about the cluster") - len("short")))
