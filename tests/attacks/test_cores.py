import threading

import pytest
import torch

from tune_tickets.attacks.lockstep import spread

CPU = torch.device("cpu")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items_from_threads_of_one_core_each(two_threads):
    together = threading.Barrier(2, timeout=30)

    def work(item):
        together.wait()  # passes only if two are under way at once
        return item, threading.current_thread().name, torch.get_num_threads(), torch.is_inference_mode_enabled()

    found = list(spread(work, range(6), CPU))
    assert [item for item, *_ in found] == list(range(6))
    assert all(name.startswith("one-core") and cores == 1 and quiet for _, name, cores, quiet in found)
    assert torch.get_num_threads() == 2
    assert not torch.is_inference_mode_enabled()


def test_threads_started_later_use_the_cores_of_the_process(two_threads):
    list(spread(str, [1, 2], CPU))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2]


def test_with_one_core_the_caller_works_by_itself():
    assert torch.get_num_threads() == 1  # by the fixture of this folder
    found = list(spread(lambda item: (item, threading.current_thread(), torch.is_inference_mode_enabled()), [1], CPU))
    assert found == [(1, threading.current_thread(), True)]


def test_an_error_reaches_the_caller(two_threads):
    def fail(item):
        raise ZeroDivisionError(item)

    with pytest.raises(ZeroDivisionError):
        list(spread(fail, [1, 2, 3], CPU))
