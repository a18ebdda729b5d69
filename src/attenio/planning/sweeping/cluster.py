"""Work on a Dask cluster: pieces as tasks, a few at a time, handed back to the one process that asked.

Workers may die: a piece that was lost with one is given to another. Nothing is kept on the cluster that could be lost
with it, so the process that asked may die too, and goes on from what it had written by then.
"""

import logging
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from attenio.errors import AttenioError, InvalidInput, MissingExtra

Result = TypeVar("Result")

_MOST_PROCESSES = 1024
# A scheduler that answers does so at once; workers of a batch system may be minutes away, and Ctrl-C ends the wait.
_SECONDS_TO_ANSWER, _SECONDS_FOR_A_WORKER = 10, 600
# Pieces that wait at the scheduler for each that is worked on.
_AHEAD = 2
# How often a piece may end with a worker that dies, or with an error, before it is to blame.
_MOST_DEATHS, _RETRIES = 10, 2


def checked_cluster(text: str) -> str:
    """A cluster as people write it: ``local:4`` for processes on this computer, or the address of a scheduler.

    >>> checked_cluster("local:4")
    'local:4'
    """
    if re.fullmatch(r"(tcp|tls|ws|wss|ucx)://[^\s/]+:\d+/?", text):
        return text
    count = re.fullmatch(r"local:(\d+)", text)
    if count is None or not 1 <= int(count[1]) <= _MOST_PROCESSES:
        raise InvalidInput(
            f"cluster {text!r} is neither local:N, N processes here (1 to {_MOST_PROCESSES:,}), nor the address of a"
            " Dask scheduler; write local:4 or tcp://host:8786"
        )
    return text


def results_on(cluster: str, work: Callable[[int], Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
    """``work(number)`` for every number, on the cluster, as each is done; ``work`` can be pickled."""
    if not numbers:
        return
    with _client_of(cluster) as client:
        from distributed import as_completed

        deaths: Counter[int] = Counter()
        numbers_of: dict[Any, int] = {}
        left = iter(numbers)

        def submitted(number: int) -> Any:
            future = client.submit(work, number, pure=False, retries=_RETRIES)
            numbers_of[future] = number
            return future

        flow = as_completed([submitted(number) for number in islice(left, _window(client))])
        for future in flow:
            number = numbers_of.pop(future)
            result = _result_of(future, number, deaths, cluster)
            if result is None:
                flow.add(submitted(number))
                continue
            yield number, result[0]
            future.release()
            for following in islice(left, max(0, _window(client) - len(numbers_of))):
                flow.add(submitted(following))


def _result_of(future: Any, number: int, deaths: Counter[int], cluster: str) -> tuple[Any] | None:
    """What came of a piece, or None where it has to be done again."""
    from distributed import KilledWorker

    try:
        return (future.result(),)
    except KilledWorker:
        deaths[number] += 1
        if deaths[number] < _MOST_DEATHS:
            return None
        raise AttenioError(
            f"chunk {number:,} ended the workers that had it {_MOST_DEATHS} times over; give them more memory"
        ) from None
    except AttenioError:
        raise
    except Exception as error:
        if future.cancelled():
            raise AttenioError(f"the scheduler of {cluster} is gone; start one, and give the same command") from None
        said = next(iter(str(error).splitlines()), "")
        raise AttenioError(
            f"a worker failed on chunk {number:,}, {type(error).__name__}: {said}; does it have this version of"
            " attenio?"
        ) from error


def _window(client: Any) -> int:
    """Pieces that are at the cluster at a time: as many as it works on, and some that wait."""
    threads: int = sum(client.nthreads().values())
    return max(1, threads) * (1 + _AHEAD)


@contextmanager
def _client_of(cluster: str) -> Iterator[Any]:
    """A client of the cluster, with processes started for it where it is here."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtra("a sweep on a cluster", "dask") from None
    kind, _, rest = checked_cluster(cluster).partition(":")
    with ExitStack() as open_things:
        # Dying workers are what this is made for: told of at the end, if at all.
        open_things.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": _MOST_DEATHS}))
        where: Any = cluster
        if kind == "local":
            # Ctrl-C in a terminal reaches all its processes: these are ended by this one, and in order.
            with _undisturbed():
                where = LocalCluster(
                    n_workers=int(rest),
                    threads_per_worker=1,
                    dashboard_address=None,
                    scheduler_kwargs={"dashboard_address": ":0"},  # any port: the usual one may be another cluster's
                    silence_logs=logging.CRITICAL,
                )
                open_things.callback(_close, where)
        try:
            client = Client(where, timeout=_SECONDS_TO_ANSWER)
        except OSError:
            raise InvalidInput(
                f"no Dask scheduler answers at {cluster} within {_SECONDS_TO_ANSWER} s; start one with dask scheduler,"
                " or write local:4 for processes here"
            ) from None
        open_things.callback(_close, client)
        try:
            client.wait_for_workers(1, timeout=_SECONDS_FOR_A_WORKER)
        except TimeoutError:
            raise AttenioError(
                f"the scheduler at {cluster} has no worker after {_SECONDS_FOR_A_WORKER} s; start some with dask worker"
            ) from None
        _check_versions(client)
        yield client


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the end of this; threads and processes that begin in it are never told of one."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first to need it would listen to Ctrl-C again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _close(thing: Any) -> None:
    """Close a client or a cluster; one that is left half closed leaves processes."""
    with _undisturbed():
        thing.close()


def _check_versions(client: Any) -> None:
    """Workers without attenio would lose what is sent to them, and others might plan otherwise."""
    mine = sys.modules["attenio"].__version__
    for worker, theirs in client.run(eval, "__import__('attenio').__version__", on_error="return").items():
        if theirs != mine:
            has = "no attenio" if isinstance(theirs, Exception) else f"attenio {theirs}"
            raise AttenioError(f"worker {worker} has {has} and this is attenio {mine}; install the same on both")
