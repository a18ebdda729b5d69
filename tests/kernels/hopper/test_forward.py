"""What the host keeps of forward passes: little, but all that a captured graph reads."""

import gc
import weakref

import pytest
import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import forward, launch_plans
from attenio.kernels.hopper.backward.preprocess import RowStatistics


@pytest.fixture
def capturing(monkeypatch):
    """Launches do nothing, nothing has run yet; the dictionary says whether a graph is captured."""
    state = {"captures": False}
    monkeypatch.setattr(launch_plans, "launch", lambda *_given: None)
    monkeypatch.setattr(launch_plans, "captures", lambda _device: state["captures"])
    monkeypatch.setattr(launch_plans, "settled", {})
    monkeypatch.setattr(launch_plans, "captured", {})
    monkeypatch.setattr(launch_plans, "MOST_SETTLED", 4)
    launch_plans.plan_of.cache_clear()
    return state


def problem_of(keys):
    q, k, v = (torch.zeros(1, 1, rows, 64, dtype=torch.bfloat16) for rows in (64, keys, keys))
    return KernelProblem.of_heads(q, k, v, Visibility(group=1), 0.125)


def others(first, count):
    for keys in range(first, first + count):
        forward.attend(problem_of(keys))
    launch_plans.plan_of.cache_clear()
    gc.collect()


def test_a_captured_graph_keeps_its_schedule_and_other_calls_do_not(capturing):
    forward.attend(problem_of(100))
    forward.attend(problem_of(101))
    capturing["captures"] = True
    forward.attend(problem_of(100))
    capturing["captures"] = False
    read, unread = (weakref.ref(plan.entries) for plan in launch_plans.settled.values())
    others(200, 5)
    assert len(launch_plans.settled) <= 4
    assert read() is not None and unread() is None


def test_only_what_is_still_at_hand_is_captured(capturing):
    """A forgotten schedule would have to be copied to the device again, which a capture does not allow."""
    forward.attend(problem_of(100))
    capturing["captures"] = True
    assert forward.supports(problem_of(100))
    assert not forward.supports(problem_of(101))
    capturing["captures"] = False
    others(200, 5)
    capturing["captures"] = True
    assert not forward.supports(problem_of(100))


def test_numbers_of_rows_have_four_bytes_whatever_the_default_is(capturing):
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        found = forward.attend(problem_of(100))
        statistics = RowStatistics.of(problem_of(100), (*found, found.output), 1, 64, fixed_point=True)
    finally:
        torch.set_default_dtype(before)
    assert found.largest.dtype == found.total.dtype == statistics.dq_scale.dtype == torch.float32
