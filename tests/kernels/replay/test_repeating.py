"""Calls like those before them: a stand-in records them here, and counts how often it is asked and played."""

from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch
from tests.kernels.replay.at_once import at_once

from attenio import attention
from attenio.errors import InvalidInput
from attenio.kernels.call.checks import NotComputed
from attenio.kernels.replay import native, repeating
from attenio.kernels.replay.repeating import known_after, known_of
from attenio.kernels.torch_operator import operators
from attenio.kernels.torch_operator.schema import Arguments
from attenio.masks import SlidingWindow

HEADS, RESULTS = ("query", "key", "value"), ("output", "largest", "total", "gradient")
PLAIN = (False, None, False, False, None)


class Played:
    """A tape that computes anew, with the tensors that it is given."""

    def __init__(self, compute, counts):
        self.recorded, self.counts = compute.args, counts

    def play(self, tensors, wanted, stream):
        assert stream == 5
        self.counts["played"] += 1
        first, *known = self.recorded
        if known:  # all but the tensors is known of the form
            return operators._attend_again(tensors, *known)[:wanted]
        names = HEADS + (("bias",) if isinstance(first, Arguments) else RESULTS)
        given = first._replace(**dict(zip(names, tensors, strict=False)))
        return (operators.attend if isinstance(given, Arguments) else operators.differentiate)(given)[:wanted]


@pytest.fixture(autouse=True)
def on_tiles(tiles_only):
    """What stands in for a GPU's kernels are tiles."""


@pytest.fixture(params=["Python", "C"])
def counts(request, monkeypatch):
    """How often calls are recorded and played; forms are found by Python, and by the compiled module."""
    if request.param == "Python":
        monkeypatch.setattr(repeating, "loaded", lambda: None)
    elif native.why_not() is not None:
        pytest.skip(f"replay is not compiled: {native.why_not()}")
    found = {"recorded": 0, "played": 0}

    def record(compute, tensors):
        found["recorded"] += 1
        return compute(), Played(compute, found)

    monkeypatch.setattr(repeating, "_stream_of", lambda _tensor: 5)
    monkeypatch.setattr(repeating, "recording", lambda _tensor: record)
    monkeypatch.setattr(repeating, "_known", {})
    return found


def heads(n=24, m=40, dtype=torch.float32, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    sizes = (2, 4, n, 16), (2, 2, m, 16), (2, 2, m, 8)
    return tuple(torch.randn(size, generator=drawn).to(dtype) for size in sizes)


def test_the_second_call_of_a_form_is_recorded_and_later_ones_give_what_it_gave(counts):
    for seed in range(4):
        q, k, v = heads(seed=seed)
        mine = attention(q, k, v, is_causal=True, enable_gqa=True)
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        torch.testing.assert_close(mine, theirs)
    assert counts == {"recorded": 1, "played": 2}


def test_gradients_of_a_repeated_call_are_those_of_the_first(counts):
    for seed in range(4):
        leaves = tuple(x.requires_grad_() for x in heads(seed=seed))
        gradient = torch.randn(2, 4, 24, 8)
        mine = torch.autograd.grad(attention(*leaves, enable_gqa=True), leaves, gradient)
        theirs = torch.nn.functional.scaled_dot_product_attention(*leaves, enable_gqa=True)
        for x, y in zip(mine, torch.autograd.grad(theirs, leaves, gradient), strict=True):
            torch.testing.assert_close(x, y)
    assert counts == {"recorded": 2, "played": 4}


def test_the_operator_repeats_as_well_where_somebody_watches(counts):
    for seed in range(4):
        leaves = tuple(x.requires_grad_() for x in heads(seed=seed))
        with torch.profiler.profile():
            mine = attention(*leaves, enable_gqa=True)
            gradients = torch.autograd.grad(mine.sum(), leaves)
        theirs = torch.nn.functional.scaled_dot_product_attention(*leaves, enable_gqa=True)
        torch.testing.assert_close(mine, theirs)
        for x, y in zip(gradients, torch.autograd.grad(theirs.sum(), leaves), strict=True):
            torch.testing.assert_close(x, y)
    assert counts == {"recorded": 2, "played": 4}


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks_of_four_dimensions_belong_to_the_data(counts, dtype):
    q, k, v = heads()
    for seed in range(4):
        mask = (torch.rand(2, 1, 24, 40, generator=torch.Generator().manual_seed(seed)) < 0.8).to(dtype)
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        torch.testing.assert_close(attention(q, k, v, attn_mask=mask, enable_gqa=True), theirs)
    assert counts == {"recorded": 1, "played": 2}
    for _ in range(3):  # a view of it is made, whose form is not that of the mask
        torch.testing.assert_close(attention(q, k, v, attn_mask=mask[0, 0], enable_gqa=True)[0], theirs[0])
    assert counts == {"recorded": 1, "played": 2}


def test_a_mask_of_the_planner_is_of_the_form_of_the_window_that_says_the_same(counts):
    for given in ({"mask": SlidingWindow(width=7)}, {"window": (6, 0)}, {"mask": SlidingWindow(width=7)}):
        mine = attention(*heads(), enable_gqa=True, **given)
    assert counts == {"recorded": 1, "played": 1}
    assert torch.equal(mine, attention(*heads(), enable_gqa=True, window=7))


def test_forms_differ_in_all_that_launches_follow_from(counts):
    q, k, v = heads()
    apart = [
        known_of((q, k, v), PLAIN),
        known_of((q, k, v), (True, *PLAIN[1:])),
        known_of((q, k, v), (False, 0.5, *PLAIN[2:])),
        known_of((q, k, v), (*PLAIN[:4], 3, 0)),
        known_of((q, k, v), (*PLAIN[:3], True, None)),
        known_of((q[:, :, :8], k, v), PLAIN),
        known_of((q, k.transpose(2, 3).contiguous().transpose(2, 3), v), PLAIN),
        known_of((q, k[:, :, :32], v[:, :, :32]), PLAIN),
        known_of(tuple(x.half() for x in (q, k, v)), PLAIN),
        known_of((q, k, v.half()), PLAIN),
        known_of((q, k, k), PLAIN),
        known_of((q, k, k.clone()), PLAIN),
        known_of((q, q, q), PLAIN),
        known_of((q, k, v, q, q), PLAIN),
    ]
    assert len(set(apart)) == len(apart) and None not in apart
    assert known_of((q, k, v), PLAIN) is known_of(heads(seed=1), PLAIN)


def test_forms_of_gradients_differ_in_the_form_of_the_call_and_in_how_memory_is_laid_out(counts, monkeypatch):
    q, k, v = heads()
    call, output, gradient = known_of((q, k, v), PLAIN), torch.randn(2, 4, 24, 8), torch.randn(2, 4, 24, 8)
    largest, total = torch.randn(2, 2, 4, 24)
    tensors = (q, k, v, output, largest, total, gradient)
    apart = [
        known_after(call, tensors, repeats=False),
        known_after(call, tensors, repeats=True),
        known_after(known_of((q, k, v), (True, *PLAIN[1:])), tensors, repeats=False),
        known_after(call, (*tensors[:6], gradient.transpose(1, 2).contiguous().transpose(1, 2)), repeats=False),
        known_after(call, (*tensors[:6], gradient[:1, :1, :1, :1].expand_as(gradient)), repeats=False),
        known_after(call, (*tensors[:6], output), repeats=False),
        known_after(call, (q, k[:, :, :8], *tensors[2:]), repeats=False),
        known_after(call, (q.half(), *tensors[1:]), repeats=False),
    ]
    monkeypatch.setattr(repeating, "_stream_of", lambda _tensor: 6)
    apart.append(known_after(call, tensors, repeats=False))
    assert len(set(apart)) == len(apart) and None not in apart
    assert known_after(call, (*heads(seed=1), *tensors[3:]), repeats=False) is apart[-1]
    odd = torch.randn(gradient.numel() + 1)[1:].view(gradient.shape)
    assert known_after(call, (*tensors[:6], odd), repeats=False) is None


def test_what_was_kept_is_looked_at_anew_where_other_data_came_in_its_place(counts):
    for _ in range(3):
        leaves = tuple(x.requires_grad_() for x in heads())
        torch.autograd.grad(attention(*leaves, enable_gqa=True).sum(), leaves)
    before = counts["played"]
    output = attention(*leaves, enable_gqa=True)
    output.grad_fn._raw_saved_tensors[0].register_hooks(torch.Tensor.half, lambda packed: packed)
    torch.autograd.grad(output.sum(), leaves)
    output = attention(*leaves, enable_gqa=True)
    leaves[1].data = leaves[1].data[:, :, :8]
    with pytest.raises(RuntimeError):
        torch.autograd.grad(output.sum(), leaves)
    assert counts["played"] == before + 2  # the calls, and not their gradients


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("changed", [torch.Tensor.half, lambda saved: saved.mT.contiguous().mT], ids=["type", "step"])
def test_a_hook_on_anything_that_was_saved_makes_another_form(counts, place, changed):
    for _ in range(3):
        leaves = tuple(x.requires_grad_() for x in heads())
        torch.autograd.grad(attention(*leaves, enable_gqa=True).sum(), leaves)
    before = counts["played"]
    output = attention(*leaves, enable_gqa=True)
    output.grad_fn._raw_saved_tensors[place].register_hooks(changed, lambda packed: packed)
    with suppress(RuntimeError):  # types that do not go together
        torch.autograd.grad(output.sum(), leaves)
    assert counts["played"] == before + 1  # the call, and not its gradients


def test_a_second_derivative_is_refused_behind_a_known_form(counts):
    for _ in range(4):
        leaves = tuple(x.requires_grad_() for x in heads())
        output = attention(*leaves, enable_gqa=True)
        (first,) = torch.autograd.grad(output.sum(), leaves[:1], create_graph=True)
        with pytest.raises(NotComputed, match="no second derivative"):
            torch.autograd.grad(first.sum(), leaves)


def test_gradients_behind_a_known_form_repeat_if_that_is_asked_for_by_then(counts, monkeypatch):
    asked, genuine = [], operators.differentiate

    def differentiate(given):
        asked.append(given.deterministic)
        return genuine(given)

    for _ in range(3):
        leaves = tuple(x.requires_grad_() for x in heads())
        right = torch.autograd.grad(attention(*leaves, enable_gqa=True).sum(), leaves)
    output, before = attention(*leaves, enable_gqa=True), counts["played"]
    monkeypatch.setattr(operators, "differentiate", differentiate)
    torch.use_deterministic_algorithms(True)
    try:
        mine = torch.autograd.grad(output.sum(), leaves)
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == [True] and counts["played"] == before
    for each, other in zip(mine, right, strict=True):
        torch.testing.assert_close(each, other)


def test_gradients_that_are_more_than_their_memory_are_seen_also_behind_a_known_form(counts):
    leaves, gradient = tuple(x.requires_grad_() for x in heads()), torch.randn(2, 4, 24, 8)
    for given in (gradient,) * 3 + (torch._neg_view(-gradient),):
        found = torch.autograd.grad(attention(*leaves, enable_gqa=True), leaves, given)
        theirs = torch.nn.functional.scaled_dot_product_attention(*leaves, enable_gqa=True)
        for x, y in zip(found, torch.autograd.grad(theirs, leaves, gradient), strict=True):
            torch.testing.assert_close(x, y)
    assert counts == {"recorded": 2, "played": 3}


def test_what_may_change_under_a_form_has_none(counts):
    q, k, v = heads()
    assert known_of((q, k, v), (False, torch.tensor(0.5), *PLAIN[2:])) is None
    assert known_of((q, k, v), (*PLAIN[:4], [3, 0])) is None
    odd = torch.randn(q.numel() + 1)[1:].view(q.shape)
    assert known_of((odd, k, v), PLAIN) is None


@pytest.mark.parametrize(
    "options",
    [
        {"dropout_p": 0.5}, {"prefix": 3}, {"tolerance": 1e-3},
        {"cu_seqlens": (torch.tensor([0, 24]), torch.tensor([0, 40]))}, {"block_mask": torch.ones(1, 1).bool()},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_calls_that_data_restrict_are_not_kept(counts, options):
    for _ in range(3):
        attention(*heads(), enable_gqa=True, **options)
    assert not repeating._known


def test_gradients_that_data_restrict_are_not_recorded(counts):
    leaves = tuple(x.requires_grad_() for x in heads())
    for _ in range(3):
        attention(*leaves, enable_gqa=True, attn_mask=torch.ones(24, 40).bool()).sum().backward()
        attention(*leaves, enable_gqa=True, cu_seqlens=(torch.tensor([0, 24]), torch.tensor([0, 40]))).sum().backward()
    assert counts == {"recorded": 0, "played": 0}


def test_heads_that_had_to_be_brought_to_four_dimensions_are_not_recorded(counts):
    q, k, v = (x[0] for x in heads())
    for _ in range(3):
        attention(q, k, v, enable_gqa=True)
    assert counts == {"recorded": 0, "played": 0}


def test_what_cannot_be_recorded_is_tried_a_few_times(counts, monkeypatch):
    tried = []
    monkeypatch.setattr(repeating, "recording", lambda _tensor: lambda compute, _: (compute(), tried.append(1)))
    for _ in range(repeating._TRIES + 3):
        attention(*heads(), enable_gqa=True)
    assert len(tried) == repeating._TRIES


def test_a_tape_that_will_not_play_leaves_the_call_to_be_computed(counts, monkeypatch):
    whole = attention(*heads(), enable_gqa=True)
    monkeypatch.setattr(Played, "play", lambda *_given: None)
    for _ in range(3):
        assert torch.equal(attention(*heads(), enable_gqa=True), whole)


def test_the_oldest_forms_are_forgotten(counts, monkeypatch):
    monkeypatch.setattr(repeating, "_MOST", 3)
    for n in (8, 8, 9, 10, 11, 8, 11):
        attention(*heads(n), enable_gqa=True)
    assert counts == {"recorded": 2, "played": 0} and len(repeating._known) == 3


def test_wrong_calls_are_refused_every_time(counts):
    q, k, v = heads()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="make them equal, or set enable_gqa=True"):
            attention(q, k, v)
    assert counts == {"recorded": 0, "played": 0}


def test_tensors_that_come_back_otherwise_than_they_were_saved_are_another_form(counts):
    q, k, v = (x.transpose(2, 3).contiguous().transpose(2, 3).requires_grad_() for x in heads())

    def differentiated():
        return torch.autograd.grad(attention(q, k, v, enable_gqa=True).sum(), q)

    plain = [*differentiated(), *differentiated()]
    before = len(repeating._known)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x.contiguous()):
        plain += differentiated()
    assert len(repeating._known) == before + 1
    assert all(torch.allclose(plain[0], other) for other in plain)


def test_nothing_is_kept_on_the_cpu():
    before = dict(repeating._known)
    attention(*heads(), enable_gqa=True)
    assert repeating._known == before and known_of(heads(), PLAIN) is None


@pytest.mark.parametrize("wrong", [(5,), (None,), 5.0, (5.0, 0.0), (5.5, 0), (5, None), "5", (5, 0, 0)], ids=repr)
def test_windows_that_are_none_are_refused_also_after_one_that_they_are_equal_to(counts, wrong):
    q, k, v = heads()
    for window in (None, 5, (5, 0)) * 3:
        attention(q, k, v, enable_gqa=True, window=window)
    for _ in range(3):
        with pytest.raises(InvalidInput, match=r"window is .*; give") as refused:
            attention(q, k, v, enable_gqa=True, window=wrong)
        assert "\n" not in str(refused.value)


def test_windows_may_be_whole_numbers_of_another_type():
    q, k, v = heads()
    for window, same in ((np.int64(5), 5), ([5, 0], (5, 0)), ((np.int32(5), torch.tensor(-1)), (5, -1))):
        mine, theirs = (attention(q, k, v, enable_gqa=True, window=each) for each in (window, same))
        assert torch.equal(mine, theirs)


def test_threads_may_meet_new_forms_at_the_same_time(counts, monkeypatch):
    monkeypatch.setattr(repeating, "_MOST", 2)
    failed = []
    tensors = [torch.empty(2, 2, n, 8) for n in range(1, 9)]

    def meet(place):
        try:
            for step in range(500):
                x = tensors[(place + step) % len(tensors)]
                assert known_of((x, x, x), PLAIN) is not None
        except Exception as error:
            failed.append(error)

    at_once(meet, range(6))
    assert not failed and len(repeating._known) <= 2


@pytest.mark.parametrize("watched", [False, True])
def test_gradients_must_repeat_if_that_is_asked_for_by_then(monkeypatch, watched):
    asked = []

    def differentiate(given):
        asked.append(given.deterministic)
        return genuine(given)

    genuine = operators.differentiate
    monkeypatch.setattr(operators, "differentiate", differentiate)
    leaves = tuple(x.requires_grad_() for x in heads())
    first, second = (attention(*leaves, enable_gqa=True).sum() for _ in range(2))
    with torch.profiler.profile() if watched else nullcontext():
        torch.autograd.grad(first, leaves)
        torch.use_deterministic_algorithms(True)
        try:
            torch.autograd.grad(second, leaves)
        finally:
            torch.use_deterministic_algorithms(False)
    assert asked == [False, True]
