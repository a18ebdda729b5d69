"""A sweep on a Dask cluster: whoever dies, the file is that of a sweep in one process, to the byte."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from functools import partial
from operator import mul, truediv
from pathlib import Path

import pytest

import attenio
from attenio.catalogue import machine_named
from attenio.errors import AttenioError, InvalidInput, MissingExtra
from attenio.planning import SweepGrid, sweep
from attenio.planning.sweeping import cluster

VERSION = attenio.__version__
GRID = SweepGrid(
    n=[8, 64, 200], d=[4, 16], masks=["dense", "causal", "window:9"], fast_bytes=[4, 600], machines=["a100"]
)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attenio.planning.sweeping.run._CHUNK", 5)


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler with two workers, which blames a piece for the first worker that dies with it."""
    distributed = pytest.importorskip("distributed")
    import dask

    # Workers are forked from a process that has imported everything: a new one is there at once.
    multiprocessing.set_forkserver_preload(["distributed", "distributed.nanny", "attenio.planning"])
    options = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    with (
        dask.config.set(options),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, processes=True
        ) as processes,
    ):
        yield processes.scheduler_address


def test_workers_that_are_killed_cost_nothing(scheduler: str, tmp_path: Path) -> None:
    from distributed import default_client

    workers, deaths, seen = [], [], []

    def kill_one(done: int, total: int) -> None:
        seen.append((done, total))
        if not workers:  # asked while all of them live: one that is dead would be waited for
            workers.extend(default_client().run(os.getpid).values())
        if len(seen) in (2, 5):
            deaths.append(workers[len(deaths)])
            os.kill(deaths[-1], signal.SIGKILL)

    sweep(GRID, out=tmp_path / "here.csv")
    sweep(GRID, out=tmp_path / "there.csv", cluster=scheduler, progress=kill_one)
    assert len(set(deaths)) == 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen) and seen[-1] == (len(GRID), len(GRID))
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"here.csv", "there.csv"}


def test_a_killed_driver_leaves_what_was_finished_and_no_workers(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    out = tmp_path / "killed.csv"
    (tmp_path / "grid").write_bytes(pickle.dumps(GRID))
    code = f"""
import os, pathlib, pickle, signal
from attenio.planning import sweep
from attenio.planning.sweeping import run

def die_in_the_middle(done, total):
    if done >= 20:
        from distributed import default_client
        print(*default_client().run(os.getpid).values(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    run._CHUNK = 5
    sweep(pickle.loads(pathlib.Path({str(tmp_path / "grid")!r}).read_bytes()), out={str(out)!r}, cluster="local:1",
          progress=die_in_the_middle)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not out.exists()
    result = sweep(GRID, out=out)
    assert result.notes == (f"{out}.parts has 4 finished chunks of this sweep; going on from there",)
    assert out.read_text() == written_here(tmp_path)
    for worker in map(int, done.stdout.split()):
        assert ended(worker)


@pytest.mark.parametrize("moment", ["a process begins", "a chunk is done", "the cluster is closed"])
def test_ctrl_c_in_a_terminal_ends_in_one_line_and_leaves_no_process(tmp_path: Path, moment: str) -> None:
    """A terminal sends it to the whole group of processes."""
    pytest.importorskip("distributed")
    out = tmp_path / "stopped.csv"
    code = f"""
import os, signal
from multiprocessing.process import BaseProcess

import attenio.cli
import distributed
from attenio.planning.sweeping import files, run

sent = []

def ctrl_c_after(function):
    def then(*given, **more):
        result = function(*given, **more)
        if not sent:
            sent.append(os.killpg(os.getpgid(0), signal.SIGINT))
        return result
    return then

signal.signal(signal.SIGINT, signal.default_int_handler)  # of jobs in the background shells have it ignored

if __name__ == "__main__":
    run._CHUNK = 2
    if {moment!r} == "a process begins":
        BaseProcess.start = ctrl_c_after(BaseProcess.start)
    else:
        files.FinishedChunks.save = ctrl_c_after(files.FinishedChunks.save)
    if {moment!r} == "the cluster is closed":
        close, again = distributed.LocalCluster.close, ctrl_c_after(lambda: None)
        distributed.LocalCluster.close = lambda *given, **more: (sent.clear(), again(), close(*given, **more))
    grid = ["--n", "64,128,256,512", "--d", "16,32,64", "--fast-bytes", "4KB"]
    raise SystemExit(attenio.cli.main(["sweep", *grid, "--out", {str(out)!r}, "--cluster", "local:2"]))
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    said = child.communicate(timeout=300)  # every process that lives on holds the ends of these
    assert said == ("", f"attenio: stopped; the same command goes on from here, with what is kept in {out}.parts\n")
    assert child.returncode == 130
    assert any(Path(f"{out}.parts").glob("*.npz")) == (moment != "a process begins")


def written_here(folder: Path) -> str:
    sweep(GRID, out=folder / "here.csv")
    return (folder / "here.csv").read_text()


def ended(process: int) -> bool:
    """Within half a minute."""
    psutil = pytest.importorskip("psutil")
    try:
        psutil.Process(process).wait(30)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_sweep_begun_here_goes_on_there(scheduler: str, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(done: int, _: int) -> None:
        if done >= 20:
            raise Stopped

    out = tmp_path / "out.csv"
    with pytest.raises(Stopped):
        sweep(GRID, out=out, progress=stop)
    assert "4 finished chunks" in sweep(GRID, out=out, cluster=scheduler).notes[0]
    assert out.read_text() == written_here(tmp_path)


def test_every_piece_is_done_once_and_few_are_at_the_cluster_at_a_time(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client

    submitted, submit = [], Client.submit
    monkeypatch.setattr(Client, "submit", lambda *given, **more: submitted.append(given) or submit(*given, **more))
    found, most = {}, 0
    for number, result in cluster.results_on(scheduler, partial(mul, 2), range(40)):
        most = max(most, len(submitted) - len(found))
        found[number] = result
    assert found == {number: 2 * number for number in range(40)}
    assert len(submitted) == 40 and 1 < most <= 2 * (1 + cluster._AHEAD)


def test_what_a_worker_cannot_do_is_one_line(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttenioError, match="a worker failed on chunk 0, ZeroDivisionError: division by zero; does it"):
        list(cluster.results_on(scheduler, partial(truediv, 1), [0]))
    monkeypatch.setattr(cluster, "_MOST_DEATHS", 2)
    with pytest.raises(AttenioError, match="chunk 9 ended the workers that had it 2 times over; give them more memory"):
        list(cluster.results_on(scheduler, signal.raise_signal, [signal.SIGKILL.value]))


def test_workers_of_another_version_are_named(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attenio, "__version__", "9.9")
    with pytest.raises(AttenioError, match=rf"worker tcp://.* has attenio {VERSION} and this is attenio 9\.9; install"):
        sweep(GRID, cluster=scheduler)


@pytest.mark.parametrize("text", ["", "local", "local:0", "local:two", "local:99999", "4", "http://a:1", "tcp://host"])
def test_a_cluster_that_is_none_is_refused_before_the_work(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is neither local:N.* write local:4 or tcp://host:8786"):
        sweep(GRID, cluster=text)


def test_a_scheduler_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "_SECONDS_TO_ANSWER", 0.3)
    with pytest.raises(InvalidInput, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 within"):
        sweep(GRID, cluster="tcp://127.0.0.1:9")


def test_without_dask_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"a sweep on a cluster needs the 'dask' extra"):
        sweep(GRID, cluster="local:2")


@pytest.mark.parametrize("name", ["h100", "attenio-512k"])
def test_a_machine_survives_pickling(name: str) -> None:
    machine = machine_named(name)
    again = pickle.loads(pickle.dumps(machine))
    assert again == machine and repr(again) == repr(machine)
