"""What a call on pages reads once for several requests, and the words that this moves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attenio.bounds import LowerBound
from attenio.elements import ElementType
from attenio.kernels.call.latent import is_latent
from attenio.kernels.call.pages.plan import PagedPlan, plan_with
from attenio.kernels.call.pages.problem import FAR, PagedProblem
from attenio.kernels.call.pages.table import PageTable
from attenio.page_tree import Integers
from attenio.paging.bounds import compulsory_page_words
from attenio.paging.workload import PagedWorkload
from attenio.plain_values import plain_fields
from attenio.quantities import show_digits, show_words

_ELEMENTS = {
    torch.float32: ElementType.FP32, torch.float16: ElementType.FP16, torch.bfloat16: ElementType.BF16
}  # fmt: skip

NOT_LOOKED_AT = "the table is on the GPU and a call does not wait for it: requests are read apart; give a PageTable"
# Errors of outputs over their norm, for random keys and values: studies/paged-caches.
REDUCED_BITS = {
    torch.int8: "int8 is converted in the kernel, with a factor a page and head; outputs of random keys move by 1.2 %",
    torch.float8_e4m3fn: "fp8 is converted in the kernel, with a factor a page and head; outputs of random keys move"
    " by 3.7 %",
}


@dataclass(frozen=True, kw_only=True)
class PagedExplanation:
    """The tree of a call's page tables, and the words of it and of requests that each read their own pages.

    A word has the width of an element of the queries. ``beside_words`` are those of queries, outputs and sinks, which
    are the same whoever shares what; ``bound`` is what any exact algorithm moves, None where it is not known.
    """

    about: str
    plan: PagedPlan
    runs: str
    notes: tuple[str, ...]
    beside_words: int = 0
    bound: LowerBound | None = None

    @property
    def moved_words(self) -> int:
        """Words of keys, values and partial results that the call moves."""
        tree = self.plan.tree
        return tree.apart_words if NOT_LOOKED_AT in self.notes else tree.moved_words

    @property
    def total_words(self) -> int:
        """Words of everything that the call moves."""
        return self.moved_words + self.beside_words

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers."""
        tree = self.plan.tree
        return {
            "about": self.about,
            "tree": [
                {"requests": list(run.requests), "first": run.first, "stop": run.stop, "depth": run.depth}
                for run in tree.runs
            ],
            "own_pages": [stop - own for own, stop in zip(tree.own, tree.stop, strict=True)],
            "key_words": tree.key_words,
            "partial_words": tree.partial_words,
            "apart_words": tree.apart_words,
            "moved_words": self.moved_words,
            "total_words": self.total_words,
            "bound": None if self.bound is None else plain_fields(self.bound, "theorem", "words", "strength"),
            "runs": self.runs,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        tree = self.plan.tree
        lines = [
            self.about,
            *(f"{'tree' if not at else '':<10} {line}" for at, line in enumerate(str(tree).splitlines())),
            f"moves      {show_words(tree.moved_words)}: {tree.key_words:,} of keys and values,"
            f" {tree.partial_words:,} of partial results and queries read again",
            f"apart      {show_words(tree.apart_words)},"
            f" a factor of {show_digits(tree.apart_words / max(1, tree.moved_words))}",
            f"runs       {self.runs}",
        ]
        if self.bound is not None:
            factor = self.total_words / self.bound.words
            least = f"at least   {show_words(self.bound.words)} ({self.bound.theorem}) with queries and outputs"
            lines.insert(-1, f"{least}; these are {self.total_words:,}, a factor of {show_digits(factor)}")
        return "\n".join([*lines, *(f"note       {note}" for note in self.notes)])


def explained(problem: PagedProblem, runs: Callable[[bool], str]) -> PagedExplanation:
    """What ``attention`` does on these pages; a table on a GPU is waited for here.

    ``runs`` says what runs, by whether pages that requests share are read once.
    """
    known, starts = problem.placement.known, problem.known_starts
    notes = [] if problem.scales is None else [REDUCED_BITS[problem.key.dtype]]
    if known is None or starts is None:
        notes.append(NOT_LOOKED_AT)
        known = PageTable.of(problem.placement.table, problem.placement.lengths)
        known.checked(int(problem.key.shape[0]), problem.page_size)
        starts = (
            np.arange(problem.requests + 1) * problem.new
            if problem.starts is None
            else problem.starts.cpu().numpy().astype(np.int64)
        )
    about = (
        f"{problem.requests:,} requests with {int(starts[-1]):,} new tokens and {int(known.lengths.sum()):,} keys in"
        f" pages of {problem.page_size}, {problem.query.shape[1]}/{problem.kv_heads} heads,"
        f" d={problem.query.shape[2]}/{problem.width}, pages in {str(problem.key.dtype).removeprefix('torch.')}"
    )
    plan = plan_with(problem, known, starts)
    together = NOT_LOOKED_AT not in notes and not plan.tree.is_flat
    beside = int(starts[-1]) * int(problem.query.shape[1]) * (int(problem.query.shape[2]) + problem.width)
    return PagedExplanation(
        about=about, plan=plan, runs=runs(together), notes=tuple(notes),
        beside_words=beside + (0 if problem.sinks is None else int(problem.query.shape[1])),
        bound=_bound(problem, known, np.diff(starts)),
    )  # fmt: skip


def _bound(problem: PagedProblem, known: PageTable, new: Integers) -> LowerBound | None:
    """What any algorithm moves for these requests; not for elements of 64 bits, nor where a key or a token is idle.

    That is where a window hides keys, and where a request has fewer keys than new tokens.
    """
    kind = _ELEMENTS.get(problem.query.dtype)
    if kind is None or problem.left < FAR or not (new > 0).any() or bool((new > known.lengths).any()):
        return None
    asked, begun = np.flatnonzero(new > 0), known.begun(problem.page_size)
    workload = PagedWorkload(
        lengths=tuple(known.lengths[asked].tolist()), new=tuple(new[asked].tolist()), page_size=problem.page_size,
        table=tuple(tuple(known.pages[each, : begun[each]].tolist()) for each in asked.tolist()),
        d=int(problem.query.shape[2]), value_dim=problem.width, heads=int(problem.query.shape[1]),
        kv_heads=problem.kv_heads, dtype=kind,
        kv_bits=8 * problem.key.dtype.itemsize, sinks=problem.sinks is not None,
        values_in_keys=is_latent(problem.key, problem.value),
    )  # fmt: skip
    return compulsory_page_words(workload)
