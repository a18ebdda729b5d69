"""Streams without a GPU: the host does what is launched in order, and knows on which stream."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from attenio.kernels.replay import streams
from attenio.kernels.replay.streams import forked, on_stream, stream_index

CPU = torch.device("cpu")


class Stream:
    """Notes what it is told."""

    def __init__(self, name, told):
        self.name, self.told = name, told

    def record_event(self):
        self.told.append(f"{self.name} marks")
        return self.name

    def wait_event(self, event):
        self.told.append(f"{self.name} waits for {event}")


@pytest.fixture
def told(monkeypatch):
    told = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: Stream("here", told))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    beside = tuple(Stream(name, told) for name in ("first", "second"))
    monkeypatch.setattr(streams, "_side_streams", lambda _device, count, *, captured: beside[:count])
    return told


def test_side_streams_begin_where_the_current_one_is_and_it_goes_on_when_they_have_ended(told):
    with forked(torch.device("cuda"), 3):
        assert told == ["here marks", "first waits for here", "second waits for here"]
        told.clear()
    assert told == ["first marks", "here waits for first", "second marks", "here waits for second"]


def test_streams_are_joined_also_where_a_launch_fails(told):
    with pytest.raises(RuntimeError), forked(torch.device("cuda"), 2):
        raise RuntimeError
    assert told[-1] == "here waits for first"


def test_one_stream_is_the_current_one(told):
    with forked(torch.device("cuda"), 1) as beside:
        assert beside == ()
    assert not told


def test_every_thread_has_a_stream_of_its_own():
    with forked(CPU, 2) as beside, ThreadPoolExecutor(1) as other:
        assert beside == () and stream_index() == 0
        with on_stream(1, beside):
            assert stream_index() == 1
            assert other.submit(stream_index).result() == 0
        assert stream_index() == 0
