"""Small questions of every kind, drawn for the laws of the report."""

from hypothesis import strategies as st

from attenio.catalogue import machine_named
from attenio.machine import Machine
from attenio.masks import BlockSparse, Causal, Dense, Documents, Mask, SharedPrefix, SlidingWindow
from attenio.workload import Workload


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    own = draw(st.integers(2, 40))
    masks: list[Mask] = [
        Dense(),
        Causal(),
        SlidingWindow(width=draw(st.integers(1, own))),
        Documents(lengths=(own - 1, 1)),
        BlockSparse(layout=((True, False), (True, True)), query_block=(own + 1) // 2, key_block=(own + 1) // 2),
    ]
    heads, group = draw(st.sampled_from([(1, 1), (4, 1), (4, 2)]))
    shape = {"heads": heads, "kv_heads": heads // group, "batch": draw(st.integers(1, 2)), "d": 8, "value_dim": 4}
    kind = draw(st.sampled_from(["self", "decode", "prefix"]))
    if kind == "decode":
        return Workload(queries=1, keys=own, mask=draw(st.sampled_from([Dense(), Causal()])), **shape)
    if kind == "prefix":
        return Workload(queries=own, keys=own + 7, mask=SharedPrefix(length=7), **shape)
    return Workload(n=own, mask=draw(st.sampled_from(masks)), **shape)


def machines() -> st.SearchStrategy[Machine]:
    named = ["toy-1k-words", "toy-three-levels", "attenio-64k", "h100"]
    return st.sampled_from([*map(machine_named, named), Machine.with_fast_bytes(600)])
