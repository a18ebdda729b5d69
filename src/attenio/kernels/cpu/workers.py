"""Threads that each run their own tiles, with products of one thread.

PyTorch's way is the other one: every operation is cut over all threads, which then wait for each other. On a tile that
fits a core's cache an operation takes a fraction of a millisecond, and on a busy machine the waiting was measured to
cost a third of the time. Threads with tiles of their own meet once, at the end.

A thread has modes of its own. Tensors made in inference mode may be written in that mode only, so the threads enter it
where the caller is in it; autocast is off in all of them, and gradients are recorded in none.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Task = TypeVar("Task")
Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def run_all(work: Callable[[Task], Result], tasks: Sequence[Task], *, small: bool = False) -> list[Result]:
    """The result of every task, in their order; ``small`` tasks are not worth handing over."""
    threads = min(torch.get_num_threads(), len(tasks))
    if threads <= 1 or small:
        with torch.no_grad():
            return [work(task) for task in tasks]

    inference = torch.is_inference_mode_enabled()

    def apart(task: Task) -> Result:
        with torch.inference_mode() if inference else torch.no_grad():
            return work(task)

    return list(_pool(torch.get_num_threads()).map(apart, tasks))


def _pool(threads: int) -> ThreadPoolExecutor:
    with _lock:
        if threads not in _pools:
            ready = threading.Barrier(threads + 1)
            pool = ThreadPoolExecutor(threads, thread_name_prefix="attenio", initializer=_one_thread)
            for _ in range(threads):
                pool.submit(ready.wait)
            ready.wait()
            # The count is one of each thread, but a thread that has not asked yet takes what was set last.
            torch.set_num_threads(threads)
            _pools[threads] = pool
        return _pools[threads]


def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_pools.clear)
