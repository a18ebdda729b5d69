"""The backward kernels' own source, interpreted, against the CPU kernels, which are held against the definition."""

from itertools import pairwise
from typing import NamedTuple

import pytest
import torch
from gluon_interpreter import Box, interpreted, launch

from attenio.kernels import cpu
from attenio.kernels.gluon import backward
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED, Visibility

SERVICE = "attenio.kernels.gluon.backward_service"


class Sums(Box):
    """A box that can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


def kernel_of(name):
    """A kernel of a module, interpreted; additions by the copy engine have no word in Gluon, and are said here."""
    module = interpreted(f"attenio.kernels.gluon.backward_{name}", needing=(SERVICE,))
    module.add_sums.__globals__["_reduce_add"] = lambda box, place, source: box.add(place, source.tensor)
    return getattr(module, f"{name}_gradients_kernel")


def of_registers(sums, d):
    """Rows of d, of sums that lie in tiles of 64 x 64 as registers of a product hold them."""
    tiles = sums.reshape(-1, 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6).reshape(-1, d // 64, 64, 64)
    return tiles.transpose(1, 2).reshape(-1, d)


class Case(NamedTuple):
    """A problem, and how it is launched: ``cuts`` are the launches' ends of blocks, or of rows."""

    batch: int
    kv_heads: int
    group: int
    queries: int
    keys: int
    d: int
    width: int
    below: int = -UNBOUNDED
    above: int = UNBOUNDED
    spills: bool = False
    segments: tuple[tuple[int, int], ...] = ()
    block_cuts: tuple[int, ...] = ()
    row_cuts: tuple[int, ...] = ()

    @property
    def visible(self):
        """Packed sequences have ranges: of queries (q, k), each sees the keys of its own that the band allows."""
        if not self.segments:
            return Visibility(group=self.group, below=self.below, above=self.above)
        first, stop, key = [], [], 0
        for queries, keys in self.segments:
            rows = torch.arange(queries)
            first.append(key + torch.clamp(rows + max(self.below, -keys), 0, keys))
            stop.append(key + torch.clamp(rows + 1 + min(self.above, keys), 0, keys))
            key += keys
        return Visibility(group=self.group, first=torch.cat(first)[None], stop=torch.cat(stop)[None])


CASES = {
    "one tile": Case(1, 1, 1, 128, 128, 64, 64),
    "causal in groups": Case(2, 1, 2, 150, 300, 64, 64, above=0),
    "units in two launches": Case(2, 2, 1, 200, 140, 128, 128, block_cuts=(4,)),
    "a window": Case(1, 1, 1, 333, 300, 96, 128, below=-100, above=-33),
    "packed": Case(1, 2, 1, 300, 290, 64, 64, above=0, segments=((70, 70), (1, 140), (0, 10), (229, 70))),
    "spilled": Case(1, 2, 2, 200, 140, 128, 128, spills=True),
    "spilled, causal": Case(2, 1, 2, 150, 300, 64, 64, above=0, spills=True),
    "spilled in launches": Case(1, 1, 2, 150, 600, 128, 128, above=-90, spills=True, block_cuts=(1, 3)),
    "spilled in rows": Case(1, 1, 2, 600, 300, 64, 64, above=40, spills=True, row_cuts=(128, 384)),
    "spilled, packed": Case(
        1, 1, 1, 300, 290, 128, 64, below=-30, spills=True, segments=((70, 70), (1, 140), (229, 80)), row_cuts=(128,)
    ),
    "wide": Case(1, 1, 1, 200, 140, 256, 256, spills=True, block_cuts=(1,)),
    "wide, causal": Case(2, 1, 2, 150, 200, 192, 128, above=20, spills=True),
    "wide in rows": Case(1, 1, 1, 300, 150, 256, 256, below=-90, spills=True, row_cuts=(128, 256)),
    "wide, packed": Case(
        1, 2, 1, 300, 290, 256, 192, above=0, spills=True, segments=((70, 70), (1, 140), (0, 10), (229, 70))
    ),
}  # fmt: skip


def run(case, problem, saved):
    """What the host does, with one kernel interpreted and those of single rows said in PyTorch."""
    output, largest, total, gradient = saved
    form = backward.backward_form(max(case.d, case.width))
    units, tiles = case.batch * case.kv_heads, -(-case.keys // form.keys)
    padded, rows = -(-case.queries // 128) * 128, units * case.group
    lse, delta = torch.full((rows, padded), torch.inf), torch.zeros(rows, padded)
    lse[:, : case.queries] = torch.where(total == 0, torch.inf, largest + total.log2()).flatten(0, 2)
    delta[:, : case.queries] = (output.float() * gradient.float()).sum(-1).flatten(0, 2)
    wide = [torch.zeros(*x.shape[:-1], form.d, dtype=x.dtype) for x in (problem.key, problem.value)]
    q, g = problem.query.flatten(1, 2), gradient.flatten(1, 2)
    box, small = (1, 1, form.rows, form.d), (1, 1, 64, form.d)
    below, above = (max(-(2**30), min(2**30, x)) for x in (case.below, case.above))
    first_rows = stop_rows = None
    if case.segments:
        ends = [end[0].contiguous() for end in (problem.visible.stop, problem.visible.first)]
        first_rows, stop_rows = (torch.searchsorted(x, torch.arange(case.keys), right=True).int() for x in ends)
    dq = torch.zeros(rows, padded, form.d)
    dk_sums, dv_sums = (torch.zeros(1, 1, units * tiles * form.keys * form.d // 64, 64) for _ in range(2))
    padded_keys = torch.zeros(units, 1, tiles * form.keys, form.d)
    padded_keys[:, 0, : case.keys, : case.d] = problem.key.flatten(0, 1)
    adds, choices, kept = bool(case.row_cuts), {}, (1, 1, 64, form.d // 2)
    if form.keys == 128:
        choices, kept = {"SPILLS": case.spills, "Fineness": None}, small
    blocks, row_ends = (0, *case.block_cuts, units * tiles), (0, *case.row_cuts, case.queries)
    for begin, end in pairwise(blocks):
        for row_begin, row_end in pairwise(row_ends):
            if case.spills:
                slopes = torch.zeros(end - begin, case.group, form.keys, -(-(row_end - row_begin) // 128) * 128)
                slopes = slopes.to(q.dtype)
                left = Box(slopes, (1, 1, 64, form.rows))
            else:
                sums = torch.zeros(1, 1, -(-(end - begin) // tiles) * case.group * padded * form.d // 64, 64)
                left = Sums(sums, (1, 1, 64, 64))
            launch(
                kernel_of("narrow" if form.keys == 128 else "wide"), (end - begin,),
                Box(q, box), Box(problem.key, kept), Box(problem.value, kept), Box(g, box),
                Sums(dk_sums, (1, 1, form.d, 64)) if adds else Box(wide[0], small),
                Sums(dv_sums, (1, 1, form.d, 64)) if adds else Box(wide[1], small),
                left, lse.flatten(), delta.flatten(), first_rows, stop_rows,
                problem.scale * backward.LOG2_E, problem.scale, begin, 1, case.kv_heads, case.group,
                case.keys, below, above, row_begin, row_end, padded,
                ROWS=form.rows, KEYS=form.keys, D=form.d, STAGES=form.stages, SLOTS=form.slots, HIDES=True,
                PACKED=bool(case.segments), **choices, ADDS=adds, REGISTERS=form.registers,
            )  # fmt: skip
            if case.spills:
                for slot, block in enumerate(range(begin, end)):
                    unit, key = block // tiles, block % tiles * form.keys
                    keys = padded_keys[unit, :, key : key + form.keys]
                    mine = dq[unit * case.group : (unit + 1) * case.group, row_begin : row_begin + slopes.shape[-1]]
                    mine += slopes[slot].float().transpose(1, 2) @ keys
            else:
                mine = of_registers(sums, form.d).view(-1, padded, form.d)
                first = begin // tiles * case.group
                dq[first : first + len(mine)] = mine
    if adds:
        shape = case.batch, case.kv_heads, tiles * form.keys, form.d
        wide = [of_registers(sums, form.d).view(shape)[:, :, : case.keys] for sums in (dk_sums, dv_sums)]
    dq = (dq * problem.scale).view(case.batch, -1, padded, form.d)[:, :, : case.queries, : case.d]
    return dq, wide[0][..., : case.d], wide[1][..., : case.width]


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gives_the_gradients_of_the_cpu(name):
    case = CASES[name]
    torch.manual_seed(0)
    heads = case.kv_heads * case.group
    sizes = ((heads, case.queries, case.d), (case.kv_heads, case.keys, case.d), (case.kv_heads, case.keys, case.width))
    q, k, v = (torch.randn(case.batch, *size).to(torch.bfloat16) for size in sizes)
    gradient = torch.randn(case.batch, case.kv_heads, case.group, case.queries, case.width).to(torch.bfloat16)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), case.visible, case.d**-0.5)
    attended = cpu.attend(exactly)
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    problem = KernelProblem.of_heads(q, k, v, case.visible, case.d**-0.5)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    found = run(case, problem, saved)
    for mine, theirs in zip(found, (right.query.flatten(1, 2), right.key, right.value), strict=True):
        assert (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()
