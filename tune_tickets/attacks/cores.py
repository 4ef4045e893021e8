"""Forward passes on all cores: each batch on one core of its own, since a small one split over several wastes them."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(work: Callable[[Item], Result], items: Iterable[Item], device: torch.device) -> Iterator[Result]:
    """The results in the order of the items, several under way at once on a CPU; one by one elsewhere."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield from map(_without_gradients(work), items)
    else:
        yield from _single_threads(threads).map(_without_gradients(work), items)


def _without_gradients(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Inference mode belongs to a thread, so each call enters it by itself."""

    def quietly(item: Item) -> Result:
        with torch.inference_mode():
            return work(item)

    return quietly


@cache
def _single_threads(count: int) -> ThreadPoolExecutor:
    """Threads in which torch uses one core each; what it uses elsewhere in the process stays as it is."""
    together = Barrier(count)

    def settle() -> None:
        torch.get_num_threads()  # or the default of the process would come over the setting at the first operation
        torch.set_num_threads(1)
        together.wait()

    pool = ThreadPoolExecutor(count, "one-core", initializer=settle)
    for _ in range(count):
        pool.submit(int)
    pool.submit(int).result()
    torch.set_num_threads(count)  # for threads yet to come: the setting is kept per thread, its default per process
    return pool
