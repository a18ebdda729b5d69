"""The backward pass that spills slopes: its host as it is, its kernels interpreted, against those of the CPU."""

from typing import NamedTuple

import pytest
import torch
from gluon_interpreter import Box, interpreted, launch

from attenio.kernels import cpu
from attenio.kernels.gluon import backward_forms, backward_slopes
from attenio.kernels.gluon.backward_masks import SeenRows
from attenio.kernels.gluon.backward_rows import Rows
from attenio.kernels.masking import seen_by
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import Visibility

HOST = "attenio.kernels.gluon."
NEEDS = {
    "narrow_gradients_kernel": ("backward_narrow", "backward_service"),
    "wide_gradients_kernel": ("backward_wide", "backward_service"),
    "query_gradients_kernel": ("backward_queries", "loading"),
}


class Sums(Box):
    """A box that can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


@pytest.fixture
def launched(monkeypatch):
    """Launches run interpreted; names of the kernels, with the numbers of their programs."""
    kernels, names = {}, []

    def kernel_of(name):
        module, needed = NEEDS[name]
        loaded = interpreted(HOST + module, needing=(HOST + needed,))
        if needed == "backward_service":
            loaded.add_sums.__globals__["_reduce_add"] = lambda box, place, source: box.add(place, source.tensor)
        return getattr(loaded, name)

    def run(kernel, programs, described, arguments, constants, _registers):
        name = kernel.__name__
        names.append((name, programs))
        kernels[name] = kernels.get(name) or kernel_of(name)
        launch(
            kernels[name], (programs,), *(Sums(box.base, box.block_shape) for box in described), *arguments, *constants
        )

    def between(rows, _done, _following):
        lse = torch.where(rows.total == 0, torch.inf, rows.largest + rows.total.log2()).flatten(0, 2)
        delta = (rows.output.float() * rows.gradient.float()).sum(-1).flatten(0, 1)
        for held, given, beyond in ((rows.lse, lse, torch.inf), (rows.delta, delta, 0.0)):
            held.fill_(beyond).view(len(given), rows.padded)[:, : given.shape[1]] = given

    for module in (backward_forms, backward_slopes):
        monkeypatch.setattr(module, "launch", run)
    monkeypatch.setattr(Rows, "between", between)
    # What was not written must not be read.
    monkeypatch.setattr(torch, "empty", lambda *size, **options: torch.full(*_shaped(size), torch.nan, **options))
    return names


def _shaped(size):
    return (size,) if isinstance(size[0], int) else size


class Case(NamedTuple):
    """A problem, and the rows of a key tile whose slopes the workspace has room for."""

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


CASES = {
    "one chunk": Case(2, 1, 2, 200, 140, 128, 128),
    "causal": Case(1, 2, 2, 300, 300, 64, 64, causal=True),
    "a window": Case(1, 1, 1, 420, 300, 96, 128, window=(40, 20)),
    "rows that see nothing": Case(1, 1, 1, 300, 100, 64, 64, window=(20, -1)),
    "keys that nobody sees": Case(1, 1, 1, 100, 700, 64, 64, causal=True),
    "packed": Case(1, 2, 2, 300, 290, 64, 64, causal=True, segments=([0, 70, 71, 71, 290], [0, 70, 210, 220, 290])),
    "packed windows": Case(1, 1, 1, 400, 300, 128, 64, window=(30, 9), segments=([0, 250, 330], [0, 60, 300])),
    "units in chunks": Case(3, 1, 1, 130, 200, 64, 64, room=4 * 256),
    "key tiles in chunks": Case(1, 1, 2, 300, 700, 64, 64, causal=True, room=4 * 384, queries_carried=True),
    "a window in chunks": Case(2, 1, 1, 1100, 1200, 64, 64, window=(90, 20), room=4 * 896, queries_carried=True),
    "rows in chunks": Case(1, 1, 1, 600, 300, 128, 128, causal=True, room=3 * 256, keys_carried=True),
    "both in chunks": Case(1, 1, 2, 600, 700, 64, 64, causal=True, room=4 * 256, queries_carried=True, keys_carried=True),
    "packed, in chunks": Case(
        1, 1, 1, 600, 700, 64, 64, segments=([0, 280, 600], [0, 500, 700]), room=4 * 256,
        queries_carried=True, keys_carried=True,
    ),
    "wide": Case(1, 2, 1, 200, 140, 256, 192),
    "wide, causal": Case(1, 1, 2, 300, 330, 192, 256, causal=True),
    "wide, in chunks": Case(1, 1, 2, 600, 400, 256, 256, causal=True, room=4 * 256, queries_carried=True, keys_carried=True),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_cpu(name, launched):
    case = CASES[name]
    torch.manual_seed(0)
    sizes = ((case.kv_heads * case.group, case.queries, case.d), (case.kv_heads, case.keys, case.d))
    q, k, v = (torch.randn(case.batch, *size).to(torch.bfloat16) for size in (*sizes, (*sizes[1][:2], case.width)))
    seen = visible(case, q, k)
    gradient = torch.randn(case.batch, case.kv_heads, case.group, case.queries, case.width).to(torch.bfloat16)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, case.d**-0.5)
    attended = cpu.attend(exactly)
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    problem = KernelProblem.of_heads(q, k, v, seen, case.d**-0.5)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    form = backward_forms.backward_form(max(case.d, case.width))
    room = case.room * 2 * case.group * form.keys
    found = backward_slopes.slopes_gradients(problem, saved, workspace_bytes=room)
    for mine, theirs in zip(found[:3], right[:3], strict=True):
        assert (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()
    chunks = backward_slopes.chunks_for(problem, form, SeenRows.of(problem), room)
    assert len(launched) == 2 * len(chunks)
    assert any(chunk.carries_queries for chunk in chunks) == case.queries_carried
    assert any(chunk.carries_keys for chunk in chunks) == case.keys_carried


def visible(case, q, k):
    """What the front door makes of the case's restrictions."""
    given = None if case.segments is None else tuple(torch.tensor(lengths) for lengths in case.segments)
    seen = seen_by(
        q, k, None, is_causal=case.causal, window=case.window, segments=given, block_mask=None, batch=(case.batch,)
    )  # fmt: skip
    return Visibility(group=case.group, below=seen.below, above=seen.above, first=seen.first, stop=seen.stop)
