"""The last gradient of a process that ends."""

import atexit

import pytest

ending = pytest.importorskip("attenio.measurement.ending")
torch = ending.torch


@pytest.fixture
def at_exit(monkeypatch):
    registered = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(ending, "_kept", [])
    ending.finish_gradients_at_exit()
    return registered


def test_a_process_without_a_gpu_computes_nothing_more(at_exit, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    for each in at_exit:
        each()
    assert len(at_exit) == 1 and not ending._kept


def test_a_last_gradient_is_computed_and_its_graph_kept(at_exit, monkeypatch):
    zeros = torch.zeros
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch, "zeros", lambda *size, device, **given: zeros(*size, **given))
    at_exit[0]()
    leaf, total = ending._kept
    assert leaf.grad.tolist() == [1.0] and total.grad_fn is not None
