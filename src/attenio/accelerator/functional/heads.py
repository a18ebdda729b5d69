"""Which rows and keys a program is about, head after head in the order in which it takes them."""

from collections.abc import Iterator
from dataclasses import dataclass

from attenio.errors import InvalidInput
from attenio.masks import SharedPrefix
from attenio.patterns import Pattern
from attenio.planning import Dataflow, Plan
from attenio.planning.costs.cost import problems_of
from attenio.reference.forward import parts

__all__ = ["Head", "heads_of"]


@dataclass(frozen=True, kw_only=True)
class Head:
    """Rows of one head of one sequence, or of several heads that are stacked, and the keys that they meet."""

    batch: int
    heads: tuple[int, ...]
    kv_head: int
    rows: slice
    keys: slice
    pattern: Pattern


def heads_of(plan: Plan) -> Iterator[Head]:
    """Every head of the plan's program."""
    workload = plan.workload
    if isinstance(workload.mask, SharedPrefix):
        raise InvalidInput(
            "the functional mode takes every sequence by itself, and a shared prefix stacks them; use another mask"
        )
    ordered = [
        part
        for pattern, _ in problems_of(workload, plan.dataflow).patterns
        for part in parts(workload)
        if part.pattern == pattern
    ]
    most = plan.tiles["head_tile"] if plan.dataflow is Dataflow.STACKED_GROUPS else 1
    whole = workload.group // most
    # all stacks of full height come before the lower ones, whichever KV head they belong to
    stacks = [range(number * most, (number + 1) * most) for number in range(whole)]
    rest = range(whole * most, workload.group)
    for group in (stacks, [rest] if rest else []):
        for batch in range(workload.batch):
            for kv_head in range(workload.kv_heads):
                for stack in group:
                    heads = tuple(kv_head * workload.group + member for member in stack)
                    for part in ordered:
                        yield Head(
                            batch=batch,
                            heads=heads,
                            kv_head=kv_head,
                            rows=part.rows,
                            keys=part.keys,
                            pattern=part.pattern,
                        )
