import random
import threading

import numpy as np
import pytest

from tune_tickets.attacks.lockstep import Channel, in_lockstep


class Doubling:
    """Answers with twice the number, and remembers what it was asked together."""

    def __init__(self):
        self.asked = []
        self.channel = Channel(self.answer)

    def answer(self, questions):
        self.asked.append(list(questions))
        return [2 * question for question in questions]


def counting_job(model, start, rounds):
    def job():
        value = start
        for _ in range(rounds):
            [value] = model.channel.ask([value])
        return value

    return job


def test_a_channel_answers_at_once_when_nothing_runs_beside():
    model = Doubling()
    assert model.channel.ask([1, 2]) == [2, 4]
    assert model.channel.ask([]) == []
    assert model.asked == [[1, 2]]


def test_questions_of_all_are_asked_together_and_each_gets_its_own_answers():
    model = Doubling()
    done = dict(in_lockstep([counting_job(model, start, 3) for start in (1, 10, 100)], width=3))
    assert done == {0: 8, 1: 80, 2: 800}
    assert model.asked == [[1, 10, 100], [2, 20, 200], [4, 40, 400]]


def test_a_place_that_gets_free_is_taken_by_the_next():
    model = Doubling()
    jobs = [counting_job(model, 1, 1), counting_job(model, 10, 3), counting_job(model, 100, 1)]
    assert [number for number, _ in in_lockstep(jobs, width=2)] == [0, 2, 1]
    assert model.asked == [[1, 10], [20, 100], [40]]


def test_jobs_that_wait_for_different_models_do_not_mix():
    first, second = Doubling(), Doubling()
    jobs = [counting_job(first, 1, 1), counting_job(second, 10, 1), counting_job(first, 3, 1)]
    assert dict(in_lockstep(jobs, width=3)) == {0: 2, 1: 20, 2: 6}
    assert (first.asked, second.asked) == ([[1, 3]], [[10]])


def test_different_models_answer_side_by_side():
    both = threading.Barrier(2, timeout=30)  # passes only if both are asked at the same time

    def model():
        return Channel(lambda questions: [both.wait() * 0 + question for question in questions])

    jobs = [lambda channel=model(), number=number: channel.ask([number]) for number in (1, 2)]
    assert dict(in_lockstep(jobs, width=2)) == {0: [1], 1: [2]}


def test_a_job_may_ask_several_questions_none_and_end_without_any():
    model = Doubling()

    def greedy():
        return model.channel.ask([1, 2, 3]), model.channel.ask([])

    assert dict(in_lockstep([greedy, lambda: "at once"], width=2)) == {0: ([2, 4, 6], []), 1: "at once"}


def test_every_job_draws_from_generators_of_its_own():
    model = Doubling()

    def job(seed):
        def draw():
            random.seed(seed)
            np.random.seed(seed)
            drawn = []
            for _ in range(4):
                drawn.append((random.random(), np.random.rand()))
                model.channel.ask([0])
            return drawn

        return draw

    alone = [job(seed)() for seed in range(3)]
    assert [drawn for _, drawn in in_lockstep([job(seed) for seed in range(3)], width=3)] == alone


def test_an_exception_in_one_job_ends_all():
    model = Doubling()

    def broken():
        model.channel.ask([1])
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        list(in_lockstep([counting_job(model, 1, 5), broken], width=2))


def test_an_exception_of_the_model_reaches_the_caller():
    def refuse(questions):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(in_lockstep([lambda: Channel(refuse).ask([1])], width=1))
