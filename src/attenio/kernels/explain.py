"""``explain()``: what ``attention()`` would run on this machine, what that moves, and what the others would."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Unpack

import torch
from torch import Tensor

from attenio.approximation.entries import checked_positive
from attenio.bounds import LowerBound
from attenio.bounds.attention import bounds_for, largest_ordinary
from attenio.errors import DoesNotFit, InvalidInput
from attenio.kernels.call.arguments import AllOptions, CallArguments, spelled_out
from attenio.kernels.call.call import call_of, problem_of
from attenio.kernels.call.checks import NICKNAMES, autocast, check_switches, checked_dropout
from attenio.kernels.call.choice import Choice
from attenio.kernels.call.jagged import is_jagged, jagged_of
from attenio.kernels.call.pages.explanation import explained
from attenio.kernels.call.pages.problem import PagedProblem, problem_on_pages
from attenio.kernels.call.planner_masks import arguments_of, nearest_mask
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.scores import aligned, scores_of
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.choice import Place, choose, choose_backward, place_of, workload_of
from attenio.kernels.cpu.beside import loses_digits, sizes_of
from attenio.kernels.cpu.pages import KEY_TILE
from attenio.kernels.gpu.capability import is_hopper
from attenio.kernels.tolerance import Way, way_for
from attenio.machine import Machine
from attenio.names import refuse_keyword
from attenio.planning import Candidate, Plan, Tiles, candidates, plan_of_tiles
from attenio.quantities import show_bytes, show_count, show_digits, show_shape, show_words
from attenio.workload import Workload

_CROWDED = "rows of all heads of a group do not fit the fast memory beside each other"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The plan of a call: dataflow and tiles as they run, the kernel and why it has these, the words they move over the
    boundary of a core's cache or an SM's memory, the least that ordinary products move there, every other dataflow with
    its best tiles, and which way a tolerance goes.

    ``choice`` is what ``attention`` runs, and ``backward`` what computes its gradients if they are required.
    """

    plan: Plan
    choice: Choice
    backward: Choice
    place: Place
    bound: LowerBound
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]
    way: Way | None = None

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers."""
        level, choice = self.place.level, self.choice.to_json()
        return {
            "workload": str(self.plan.workload),
            "dataflow": self.plan.dataflow.value,
            "tiles": dict(self.plan.tiles),
            "moved_words": self.plan.moved_words,
            "peak_words": self.plan.peak_words,
            "fast_words": self.plan.fast_words,
            **{name: choice[name] for name in ("kernel", "split", "own", "because", "why_not", "values_in_keys")},
            "backward": self.backward.to_json(),
            "machine": self.place.machine.name,
            "level": {"name": level.name, "capacity_bytes": level.capacity_bytes, "units": level.units},
            "workers": self.place.workers,
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
        plan, choice, place = self.plan, self.choice, self.place
        capacity = place.level.capacity_bytes or 0
        runs = "exactly" if self.way is not None and self.way.approximates else "runs"
        settings = " ".join(f"{name}={value}" for name, value in choice.settings().items() if name != "language")
        lines = [
            str(plan.workload),
            f"{runs:<10} {plan.dataflow.value}, {plan.tiles}, on {place.workers} of {place.machine.name}",
            f"fast       {place.level.name} of {show_bytes(capacity)} each: {show_words(plan.fast_words)} of"
            f" {place.dtype.value}, {plan.peak_words:,} used",
            f"kernel     in {choice.language}: {settings}",
            f"moves      {show_words(plan.moved_words)}",
            f"at least   {show_words(self.bound.words)} ({self.bound.theorem}), a factor of"
            f" {show_digits(plan.moved_words / max(1, self.bound.words))},",
            f"           for {self.bound.covers}",
            f"because    {choice.why}",
            *(f"not        {reason}" for reason in choice.why_not),
            f"backward   {self.backward.dataflow.value}, {self.backward.tiles}, in {self.backward.language}",
            "others     words, with the best tiles that fit:",
        ]
        for each in sorted(self.candidates, key=lambda one: one.plan.moved_words if one.plan else float("inf")):
            what = each.reason if each.plan is None else f"{each.plan.moved_words:>20,}  {each.tiles}"
            lines.append(f"  {each.dataflow.value:<18} {each.rule.value:<9} {what}")
        lines += [f"note       {note}" for note in self.notes]
        return "\n".join(lines if self.way is None else [*lines, str(self.way)])


def explain(
    query: Tensor, key: Tensor, value: Tensor, *plain: Any, machine: str | Machine | None = None,
    **options: Unpack[AllOptions],
) -> Any:  # fmt: skip
    """The plan that ``attention`` would run for the same arguments: print it, or ask its fields.

    ``machine`` asks about a GPU of the catalogue, such as ``"h200"``, that need not be here; tensors may then be on the
    CPU or on ``meta``, where they take no memory. Calls on pages give a ``PagedExplanation``: the tree of what requests
    share, and the words that it moves.
    """
    asked = _bound(plain, options)
    if asked.is_on_pages():
        if machine is not None:
            raise InvalidInput("machine is given with pages=, which are explained where they are; leave it out")
        paged = problem_on_pages(query, key, value, asked)
        return explained(paged, lambda together: _runs_on_pages(paged, together=together))
    if is_jagged(query, key, value):
        query, key, value, cu_seqlens, _ = jagged_of(query, key, value, asked)
        asked = asked._replace(cu_seqlens=cu_seqlens)
    attn_mask, is_causal, window = asked.attn_mask, asked.is_causal, asked.window
    if torch._C._is_any_autocast_enabled():
        query, key, value, attn_mask = autocast(query, key, value, attn_mask)
    check_switches(deterministic=asked.deterministic, return_lse=asked.return_lse)
    if isinstance(is_causal, str):
        is_causal, window = aligned(is_causal, window)
    dropout_p = checked_dropout(asked.dropout_p)
    asked = asked._replace(attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, window=window)
    if asked.mask is not None:
        asked = arguments_of(asked.mask, query, key, asked)
    call = call_of(query, key, value, asked)
    if not (call.query.numel() and call.key.shape[2]):
        raise InvalidInput(
            f"query is {show_shape(call.query.shape)} and there are {call.key.shape[2]:,} keys: nothing to plan;"
            " give at least one sequence, head, query and key"
        )
    scores = scores_of(call.query, asked.sinks, asked.softcap)
    problem = problem_of(call, asked.prefix, dropout_p)
    problem = replace(problem, softcap=scores.softcap, deterministic=asked.deterministic)
    sizes, place = None, place_of(problem, machine)
    known = dropout_p == 0.0 and asked.has_plain_scores() and asked.is_unpacked()
    if place.is_cpu and query.is_cpu and known:
        given = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
        if not loses_digits(given):
            sizes = sizes_of(problem, given, is_causal=is_causal, gqa=asked.enable_gqa)
    repeats = asked.deterministic or torch.are_deterministic_algorithms_enabled()
    learned = attn_mask is not None and attn_mask.requires_grad
    with torch.no_grad():  # data may be looked at
        choice = choose(problem, place, sizes)
        backward = choose_backward(replace(problem, deterministic=repeats), place, choice, with_bias=learned)
    # The planner's prefix leaves every request a key of its own.
    shared = min(problem.prefix, problem.keys - 1) if can_stack(problem) else 0
    nearest, notes = nearest_mask(call.visible, queries=problem.queries, keys=problem.keys, prefix=shared)
    workload, here = workload_of(problem, nearest, place.dtype), place.boundary
    fast_words = here.slowest_boundary.fast_words(workload.dtype)
    way = None
    if asked.tolerance is not None:
        way = way_for(problem, checked_positive("tolerance", asked.tolerance), machine)
    if asked.sinks is not None and not choice.folds_sinks:
        notes.append("sinks shrink outputs after the kernel: outputs are read and written once more")
    notes += _notes_of(problem, place, choice)
    if asked.deterministic:
        notes.append("results repeat to the bit: every sum is taken in one order, or in fixed point")
    return Explanation(
        plan=_plan_of(choice, replace(workload, values_in_keys=choice.values_in_keys), here, notes),
        choice=choice, backward=backward, place=place,
        bound=largest_ordinary(bounds_for(workload, fast_words, units=place.level.units)),
        candidates=candidates(workload, replace(here, granularity={workload.dtype: place.granularity})),
        notes=tuple(notes), way=way,
    )  # fmt: skip


explain.__signature__ = spelled_out(explain)  # type: ignore[attr-defined]


def _bound(plain: tuple[Any, ...], options: AllOptions) -> CallArguments:
    """The arguments behind the tensors, those by position and those by name."""
    spelled = signature(explain)
    for name in options:
        if name not in spelled.parameters:
            refuse_keyword("explain()", name, spelled.parameters, NICKNAMES)
    spelled.bind(None, None, None, *plain, **options)  # raises what Python would
    return CallArguments(*plain, **options)


def _plan_of(choice: Choice, workload: Workload, here: Machine, notes: list[str]) -> Plan:
    """The plan of what runs; where rows of a large group do not fit beside each other, that of as many as do."""
    tiles = choice.tiles
    while True:
        try:
            return plan_of_tiles(workload, here, choice.dataflow, tiles)
        except DoesNotFit:
            heads = tiles.get("head_tile", 1)
            if heads == 1:
                raise
            tiles = Tiles.of(**{**tiles, "head_tile": -(-heads // 2)})
            notes[:] = [note for note in notes if not note.startswith(_CROWDED)]
            notes.append(f"{_CROWDED}: words are those of {tiles['head_tile']} at a time")


def _notes_of(problem: KernelProblem, place: Place, choice: Choice) -> Iterator[str]:
    """What words are of where tensors are of another type, and what is read of keys that hold their values."""
    given = str(problem.query.dtype).removeprefix("torch.")
    if problem.query.element_size() != place.dtype.bytes:
        yield f"tensors are {given}; words and tiles are of {place.dtype.value}, as all are planned on this device"
    if not problem.values_in_keys:
        return
    d, width = problem.key.shape[-1], problem.value.shape[-1]
    words, apart = (show_words(problem.batch * problem.kv_heads * problem.keys * each) for each in (d, d + width))
    if choice.values_in_keys:
        yield f"values are the first {width} columns of keys: the latent is read once for both, {words}, not {apart}"
    else:
        yield f"values are the first {width} columns of keys, {words}; this kernel reads them once more, {apart}"


def _runs_on_pages(problem: PagedProblem, *, together: bool) -> str:
    """The kernels of a call on pages, and the tiles that they begin with."""
    if not problem.query.is_cuda:
        return f"on {show_count(torch.get_num_threads(), 'thread')}, tiles of {KEY_TILE} keys, read one at a time"
    from attenio.kernels.hopper import pages as hopper_pages
    from attenio.kernels.triton.pages import tiles_of

    here = is_hopper(problem.query.device)
    if together and here and hopper_pages.why_not(problem) is None:
        return "in Gluon and Triton: gluon_page_runs_kernel, page_runs_kernel and merge_pages_kernel"
    if not together and here and hopper_pages.why_not_apart(problem) is None:
        return f"in Gluon: split_pages_kernel, one launch, from {hopper_pages.APART_TILES}"
    names = "page_runs_kernel and merge_pages_kernel" if together else "paged_kernel, one launch"
    return f"in Triton: {names}, from {tiles_of(problem, together=together)[0]}"
