"""The backward pass in both forms, its host as it is and its kernels interpreted, against the kernels of the CPU."""

from typing import NamedTuple

import pytest
import torch
from interpreted_backward import interpret

from attenio.kernels import cpu
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.hopper.backward import chunks
from attenio.kernels.hopper.backward.config import config_of
from attenio.kernels.hopper.backward.key_stationary import key_stationary_gradients
from attenio.kernels.hopper.backward.launch_groups import LaunchGroups
from attenio.kernels.hopper.backward.spilled_gradients import chunks_for, spilled_gradients


class Case(NamedTuple):
    """A problem, and the rows of a key tile whose dS the workspace has room for."""

    batch: int
    kv_heads: int
    group: int
    queries: int
    keys: int
    d: int
    width: int
    causal: bool = False
    window: tuple[int, int] | None = None
    segments: tuple[list[int], list[int]] | None = None
    room: int = 10**6
    queries_carried: bool = False
    keys_carried: bool = False


BOTH = {"queries_carried": True, "keys_carried": True}
SPILLED = {
    "one chunk": Case(2, 1, 2, 200, 140, 256, 192),
    "causal": Case(1, 2, 2, 300, 330, 192, 256, causal=True),
    "two tiles side by side": Case(2, 1, 2, 200, 140, 192, 192),
    "values in two tiles": Case(1, 2, 1, 200, 140, 72, 160, causal=True),
    "a window": Case(1, 1, 1, 420, 300, 136, 128, window=(40, 20)),
    "rows that see nothing": Case(1, 1, 1, 300, 100, 192, 64, window=(20, -1)),
    "keys that nobody sees": Case(1, 1, 1, 100, 700, 136, 64, causal=True),
    "packed": Case(1, 2, 2, 300, 290, 192, 64, causal=True, segments=([0, 70, 71, 71, 300], [0, 70, 210, 220, 290])),
    "heads in chunks": Case(3, 1, 1, 130, 200, 136, 64, room=8 * 256),
    "key tiles in chunks": Case(1, 1, 2, 300, 700, 136, 64, causal=True, room=4 * 384, queries_carried=True),
    "a window in chunks": Case(2, 1, 1, 1100, 1200, 136, 64, window=(90, 20), room=4 * 896, queries_carried=True),
    "rows in chunks": Case(1, 1, 1, 600, 250, 136, 128, causal=True, room=4 * 256, keys_carried=True),
    "both in chunks": Case(1, 1, 2, 600, 400, 256, 256, causal=True, room=4 * 256, **BOTH),
    "both of two tiles in chunks": Case(1, 1, 2, 600, 400, 168, 192, causal=True, room=4 * 256, **BOTH),
    "packed, in chunks": Case(
        1, 1, 1, 600, 700, 136, 64, segments=([0, 280, 600], [0, 500, 700]), room=4 * 256, **BOTH,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPILLED)
def test_spilled_slopes_give_the_gradients_of_the_cpu(name, monkeypatch):
    case = SPILLED[name]
    problem, saved, right = drawn(case)
    config = config_of(problem)
    room = case.room * 2 * case.group * config.keys
    launched = interpret(monkeypatch)
    assert_close(spilled_gradients(problem, saved, workspace_bytes=room), right)
    chunks = chunks_for(problem, config, room)
    assert len(launched) == 2 * len(chunks)
    assert any(chunk.carries_queries for chunk in chunks) == case.queries_carried
    assert any(chunk.carries_keys for chunk in chunks) == case.keys_carried


def test_spilled_ds_of_heads_in_turns_is_that_of_each(monkeypatch):
    """Three of seven KV heads at a time, and four of their fourteen query heads: none of these divides the others."""
    cached = chunks.chunks_of, chunks.query_heads_in_turns
    monkeypatch.setattr(chunks, "heads_in_turns", lambda heads, *_: {7: 3, 14: 4}[heads])
    for each in cached:
        each.cache_clear()
    problem, saved, right = drawn(Case(1, 7, 2, 150, 140, 192, 64, causal=True))
    interpret(monkeypatch)
    assert_close(spilled_gradients(problem, saved), right)
    assert [chunk.together for chunk in chunks_for(problem, config_of(problem))] == [3]
    for each in cached:
        each.cache_clear()


# A case, the heads of each launch, and how many come together.
ADDED = {
    "one launch": (Case(2, 1, 2, 200, 140, 128, 128), (2,), 1),
    "causal": (Case(1, 2, 2, 300, 300, 64, 64, causal=True), (1, 1), 1),
    "a window": (Case(1, 1, 1, 420, 300, 96, 128, window=(40, 20)), (1,), 1),
    "rows that see nothing": (Case(1, 1, 1, 300, 100, 64, 64, window=(20, -1)), (1,), 1),
    "keys that nobody sees": (Case(1, 1, 1, 100, 700, 128, 64, causal=True), (1,), 1),
    "packed": (
        Case(1, 2, 2, 300, 290, 64, 64, causal=True, segments=([0, 70, 71, 71, 300], [0, 70, 210, 220, 290])), (2,), 2,
    ),
    "packed windows": (
        Case(1, 1, 1, 400, 300, 128, 64, window=(30, 9), segments=([0, 250, 400], [0, 60, 300])), (1,), 1,
    ),
    "heads in launches": (Case(3, 1, 1, 130, 200, 64, 64), (2, 1), 2),
    "two tiles of rows, groups of four": (Case(1, 2, 4, 60, 700, 128, 128), (1, 1), 1),
    "three tiles of rows or fewer": (Case(2, 1, 4, 190, 440, 96, 64, causal=True), (2,), 2),
    "one tile of rows, groups of four": (Case(1, 1, 4, 60, 700, 64, 64), (1,), 1),
    "more rows than blocks begin apart": (Case(1, 1, 2, 400, 650, 128, 128), (1,), 1),
    "more rows than blocks begin apart, causal": (Case(1, 1, 1, 700, 760, 64, 64, causal=True), (1,), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
def test_sums_give_the_gradients_of_the_cpu(name, monkeypatch):
    case, sizes, together = ADDED[name]
    problem, saved, right = drawn(case)
    launches = tuple(range(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes)))
    launched = interpret(monkeypatch)
    assert_close(key_stationary_gradients(problem, saved, LaunchGroups(launches, together)), right)
    assert len(launched) == len(launches)


def drawn(case):
    """A problem, what its forward pass saved, and its gradients in double precision."""
    torch.manual_seed(0)
    sizes = ((case.kv_heads * case.group, case.queries, case.d), (case.kv_heads, case.keys, case.d))
    q, k, v = (torch.randn(case.batch, *size).to(torch.bfloat16) for size in (*sizes, (*sizes[1][:2], case.width)))
    seen = visible(case, q, k)
    gradient = torch.randn(case.batch, case.kv_heads, case.group, case.queries, case.width).to(torch.bfloat16)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, case.d**-0.5)
    attended = cpu.attend(exactly)
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    return KernelProblem.of_heads(q, k, v, seen, case.d**-0.5), saved, right


def assert_close(found, right):
    for mine, theirs in zip(found[:3], right[:3], strict=True):
        assert (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()


def visible(case, q, k):
    """What the front door makes of the case's restrictions."""
    given = None if case.segments is None else tuple(torch.tensor(lengths) for lengths in case.segments)
    return visibility_of(
        q, k, CallArguments(is_causal=case.causal, window=case.window, cu_seqlens=given), (case.batch,)
    )
