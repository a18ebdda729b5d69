"""What is compiled on threads while something else stands in for it, and how a process ends meanwhile."""

import threading
import warnings
from concurrent.futures import Future

import pytest
import torch
from tests.kernels.new_process import in_a_new_process

from attenio.kernels.replay import repeating, set_replay, set_stand_ins, standing_in
from attenio.kernels.replay.standing_in import Awaited, begin, may_stand_in, note_stand_in, stand_ins, waiting


@pytest.fixture(autouse=True)
def nothing_begun(monkeypatch):
    monkeypatch.setattr(standing_in, "_begun", {})
    monkeypatch.setattr(standing_in, "_said", set())
    monkeypatch.delenv("ATTENIO_WAIT", raising=False)
    set_stand_ins(True)


def test_a_kernel_is_compiled_once_on_a_thread_that_python_waits_for():
    gate, ran = threading.Event(), []

    def compile_it():
        gate.wait(20)
        ran.append(threading.current_thread())

    futures = []
    callers = [threading.Thread(target=lambda: futures.append(begin("kernel", compile_it))) for _ in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    awaited = Awaited("better", (futures[0],))
    assert len(set(map(id, futures))) == 1 and not awaited.is_ready and not awaited.has_failed
    gate.set()
    awaited.wait()
    assert awaited.is_ready and len(ran) == 1
    assert ran[0] is not threading.current_thread() and not ran[0].daemon
    assert begin("kernel", pytest.fail) is futures[0]


def test_what_cannot_be_compiled_is_said_once():
    def compile_it():
        raise ValueError("no such type")

    awaited = Awaited("better", (begin("a kernel", compile_it), begin("another", lambda: None)))
    awaited.wait()
    assert not awaited.is_ready
    with pytest.warns(UserWarning, match="a better kernel could not be compiled, .*: no such type"):
        assert awaited.has_failed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert awaited.has_failed


def test_what_must_repeat_to_the_bit_waits(monkeypatch):
    assert may_stand_in(deterministic=False) and not may_stand_in(deterministic=True)
    with waiting():
        with waiting():
            assert not may_stand_in(deterministic=False)
        assert not may_stand_in(deterministic=False)
    torch.use_deterministic_algorithms(True)
    try:
        assert not may_stand_in(deterministic=False)
    finally:
        torch.use_deterministic_algorithms(False)
    for switch in (set_stand_ins, set_replay):
        switch(False)
        try:
            assert not may_stand_in(deterministic=False)
        finally:
            switch(True)
    monkeypatch.setenv("ATTENIO_WAIT", "1")
    assert not may_stand_in(deterministic=False)
    monkeypatch.setenv("ATTENIO_WAIT", "0")
    assert may_stand_in(deterministic=False)


def test_a_call_that_a_stand_in_computed_is_not_remembered(monkeypatch):
    recorded, stands_in = [], [True]

    def compute():
        if stands_in[0]:
            note_stand_in()
        return (torch.zeros(1),)

    def record(compute, _tensors):
        recorded.append(stands_in[0])
        return compute(), "a tape"

    monkeypatch.setattr(repeating, "recording", lambda _tensor: record)
    known = repeating.Known(stream=0)
    for _ in range(9):  # more often than a form is tried
        repeating.repeated(known, (torch.zeros(1),), compute, 1)
    assert known.computed == 0 and recorded == []
    stands_in[0] = False
    repeating.repeated(known, (torch.zeros(1),), compute, 1)
    assert known.computed == 1 and known.tape is None
    stands_in[0] = True  # its plan was forgotten meanwhile, and it is computed by another kernel again
    repeating.repeated(known, (torch.zeros(1),), compute, 1)
    assert known.computed == 1 and known.tape is None
    stands_in[0] = False
    repeating.repeated(known, (torch.zeros(1),), compute, 1)
    assert known.tape == "a tape" and recorded == [True, False]


def test_stand_ins_are_counted_by_threads():
    before = stand_ins()
    other = threading.Thread(target=note_stand_in)
    other.start()
    other.join()
    assert stand_ins() == before
    note_stand_in()
    assert stand_ins() == before + 1


_ENDS = """
import os, threading, time
from attenio.kernels.replay.standing_in import begin
begun = threading.Semaphore(0)

def compile_it(number):
    begun.release()
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    os.write(1, f"{number} ".encode())

for number in range(5):
    begin(number, lambda number=number: compile_it(number))
for _ in range(2):
    begun.acquire()
os.write(1, b"ends ")
"""


def test_a_process_that_ends_waits_for_what_is_compiled_and_begins_nothing_more():
    status, said, errors = in_a_new_process(_ENDS)
    assert (status, errors) == (0, "")
    first, *others = said.split()
    assert first == "ends" and len(others) == 2


def test_a_thread_that_cannot_be_started_is_a_failure(monkeypatch):
    def start(_thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    future = begin("kernel", pytest.fail)
    assert isinstance(future, Future) and isinstance(future.exception(), RuntimeError)
