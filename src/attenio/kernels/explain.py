"""``explain()``: what ``attention()`` would run on this machine, what that moves, and what the others would."""

from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from attenio.approximation.entries import checked_positive
from attenio.bounds import LowerBound
from attenio.bounds.attention import bounds_for, largest_ordinary
from attenio.errors import AttenioError, InvalidInput
from attenio.kernels.call.call import Call, call_of, problem_of
from attenio.kernels.call.checks import check_switches, checked_number
from attenio.kernels.call.masking import MaskArguments, Packing, Window, arguments_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.choice import Choice, choice_for
from attenio.kernels.cpu.beside import sizes_of
from attenio.kernels.tolerance import Way, way_for
from attenio.machine import Machine, MemoryLevel
from attenio.masks import BlockSparse, Causal, Dense, Documents, Mask, SharedPrefix, SlidingWindow
from attenio.planning import Candidate, Plan, candidates, plan_with
from attenio.quantities import show_bytes, show_words
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The plan of a call: dataflow and tiles as they run, the kernel and why it has these, the words they move over the
    boundary of a core's cache or an SM's memory, the least that ordinary products move there, every other dataflow with
    its best tiles, and which way a tolerance goes."""

    plan: Plan
    choice: Choice
    bound: LowerBound
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]
    way: Way | None = None

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers."""
        level = self.choice.level
        return {
            "workload": str(self.plan.workload),
            "dataflow": self.plan.dataflow.value,
            "tiles": dict(self.plan.tiles),
            "moved_words": self.plan.moved_words,
            "peak_words": self.plan.peak_words,
            "fast_words": self.plan.fast_words,
            "kernel": {"language": self.choice.language, **asdict(self.choice.kernel)},
            "because": self.choice.why,
            "machine": self.choice.machine_name,
            "level": {"name": level.name, "capacity_bytes": level.capacity_bytes, "units": level.units},
            "workers": self.choice.workers,
            "bound": {
                "words": self.bound.words,
                "theorem": self.bound.theorem,
                "strength": self.bound.strength.value,
                "covers": self.bound.covers,
            },
            "candidates": [
                {
                    "dataflow": each.dataflow.value,
                    "rule": each.rule.value,
                    "tiles": None if each.tiles is None else dict(each.tiles),
                    "moved_words": None if each.plan is None else each.plan.moved_words,
                    "reason": each.reason,
                }
                for each in self.candidates
            ],
            "notes": list(self.notes),
            "tolerance": None if self.way is None else self.way.to_json(),
        }

    def __str__(self) -> str:
        plan, choice = self.plan, self.choice
        capacity = choice.level.capacity_bytes or 0
        runs = "exactly" if self.way is not None and self.way.approximates else "runs"
        lines = [
            str(plan.workload),
            f"{runs:<10} {plan.dataflow.value}, {plan.tiles}, on {choice.workers} of {choice.machine_name}",
            f"fast       {choice.level.name} of {show_bytes(capacity)} each: {plan.fast_words:,} words of"
            f" {choice.dtype.value}, {plan.peak_words:,} used",
            f"kernel     in {choice.language}: {_settings(choice.kernel)}",
            f"moves      {show_words(plan.moved_words)}",
            f"at least   {show_words(self.bound.words)} ({self.bound.theorem}), a factor of"
            f" {plan.moved_words / max(1, self.bound.words):.3g},",
            f"           for {self.bound.covers}",
            f"because    {choice.why}",
            "others     words, with the best tiles that fit:",
        ]
        for each in sorted(self.candidates, key=lambda one: one.plan.moved_words if one.plan else float("inf")):
            what = each.reason if each.plan is None else f"{each.plan.moved_words:>20,}  {each.tiles}"
            lines.append(f"  {each.dataflow.value:<18} {each.rule.value:<9} {what}")
        lines += [f"note       {note}" for note in self.notes]
        return "\n".join(lines if self.way is None else [*lines, str(self.way)])


def explain(  # noqa: PLR0913 - the arguments of attention
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: Window | None = None,
    cu_seqlens: Packing | None = None,
    segment_ids: Packing | None = None,
    block_mask: BlockSparse | Any | None = None,
    prefix: int | None = None,
    tolerance: float | None = None,
    deterministic: bool = False,
    segments: Packing | None = None,
    mask: Mask | None = None,
    machine: str | Machine | None = None,
) -> Explanation:
    """The plan that ``attention`` would run for the same arguments: print it, or ask its fields.

    ``machine`` asks about a GPU of the catalogue, such as ``"h200"``, that need not be here; tensors may then be on the
    CPU or on ``meta``, where they take no memory.
    """
    check_switches(deterministic=deterministic)
    dropout_p = checked_number("dropout_p", dropout_p)
    if mask is not None:
        window, cu_seqlens, block_mask, prefix = arguments_of(
            mask, query, key, is_causal=is_causal, window=window, cu_seqlens=cu_seqlens, segments=segments,
            block_mask=block_mask, prefix=prefix,
        )  # fmt: skip
    asked = MaskArguments(attn_mask, is_causal, window, cu_seqlens, segment_ids, segments, block_mask, prefix)
    call = call_of(query, key, value, asked, dropout_p=dropout_p, scale=scale, enable_gqa=enable_gqa)
    if not (call.query.numel() and call.key.shape[2]):
        raise InvalidInput(
            f"query is {tuple(call.query.shape)} and there are {call.key.shape[2]:,} keys: nothing to plan;"
            " give at least one sequence, head, query and key"
        )
    problem = problem_of(call, prefix, dropout_p)
    others = (cu_seqlens, segment_ids, segments, block_mask, prefix, tolerance)
    sizes = None
    if machine is None and query.is_cpu and dropout_p == 0.0 and all(other is None for other in others):
        given = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
        sizes = sizes_of(problem, given, is_causal=is_causal, gqa=enable_gqa)
    choice = choice_for(problem, machine, sizes)
    nearest, notes = _mask(call.visible, problem, block_mask)
    workload = _workload(call, nearest, choice)
    here = Machine(name=choice.machine_name, levels=(choice.level, MemoryLevel(name="below")))
    fast_words = here.slowest_boundary.fast_words(workload.dtype)
    way = None
    if tolerance is not None:
        tolerance = checked_positive("tolerance", tolerance)
        way = way_for(problem, tolerance, machine)
    if deterministic:
        notes.append("results repeat to the bit: every sum is made in one order, or of integers")
    return Explanation(
        plan=plan_with(workload, here, choice.dataflow, choice.tiles),
        choice=choice,
        bound=largest_ordinary(bounds_for(workload, fast_words, units=choice.level.units)),
        candidates=candidates(workload, replace(here, granularity={workload.dtype: choice.granularity})),
        notes=tuple(notes),
        way=way,
    )


def _settings(kernel: Any) -> str:
    """The settings of a kernel as text."""
    return " ".join(f"{name}={value}" for name, value in asdict(kernel).items())


def _workload(call: Call, mask: Mask, choice: Choice) -> Workload:
    """The call as the planner knows it; on a CPU words are those that are computed with, in single precision."""
    batch, heads, queries, d = call.query.shape
    return Workload(
        queries=queries, keys=call.key.shape[2], d=d, value_dim=call.value.shape[3], heads=heads,
        kv_heads=call.key.shape[1], batch=batch, mask=mask, dtype=choice.dtype,
    )  # fmt: skip


def _mask(seen: Visibility, problem: KernelProblem, blocks: Any) -> tuple[Mask, list[str]]:
    """The planner's mask that is nearest to what may be seen, and a note where it is not exactly that."""
    queries, keys = problem.queries, problem.keys
    notes = []
    if seen.bias is not None:
        notes.append("attn_mask is data: no tile is skipped for it, and the plan is that of the other restrictions")
    if seen.query_ids is not None:
        notes.append("ids of tokens are data: tiles are skipped as they are met, and the plan does not count on it")
    if seen.first is not None and seen.first.is_meta:
        raise InvalidInput("cu_seqlens are on meta, where they have no values; give them on the CPU")
    if can_stack(problem):
        return SharedPrefix(length=problem.prefix, causal=False), notes
    if isinstance(blocks, BlockSparse):
        return blocks, notes
    if seen.blocks is not None:
        return BlockSparse.from_array(seen.blocks.numpy()), notes
    if seen.first is not None and seen.stop is not None:
        return _documents(seen, queries), notes
    aligned = seen.above == keys - queries
    if aligned and seen.below <= -UNBOUNDED:
        return Causal(), notes
    width = keys - queries - seen.below + 1
    if aligned and 0 < width <= keys:
        return SlidingWindow(width=width), notes
    if 0 < width <= keys and seen.above - (keys - queries) == width - 1:
        return SlidingWindow(width=width, causal=False), notes
    if seen.above < UNBOUNDED or seen.below > -UNBOUNDED:
        notes.append("the band is not one that the planner knows; the plan is that of all scores")
    return Dense(), notes


def _documents(seen: Visibility, queries: int) -> Mask:
    """Ranges that change little from query to query are documents; where they cannot be told the plan is dense."""
    assert seen.first is not None and seen.stop is not None
    first = seen.first[0]
    changes = torch.nonzero(first[1:] != first[:-1]).flatten().tolist()
    edges = [0, *(change + 1 for change in changes), queries]
    lengths = tuple(stop - start for start, stop in pairwise(edges))
    last = seen.stop[0, [edge - 1 for edge in edges[1:]]].tolist()
    key_lengths = tuple(int(stop - start) for start, stop in zip(first[edges[:-1]].tolist(), last, strict=True))
    try:
        causal = bool((seen.stop[0, 1:] != seen.stop[0, :-1]).sum() >= queries - len(lengths))
        return Documents(lengths=lengths, key_lengths=key_lengths, causal=causal and max(lengths) > 1)
    except AttenioError:
        return Dense()
