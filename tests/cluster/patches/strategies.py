"""Random patchworks and workloads for them."""

from hypothesis import strategies as st

from attenio.cluster.patches import Patchwork
from attenio.cluster.patches.halves import halves
from attenio.workload import Workload


@st.composite
def patchworks(draw: st.DrawFn) -> Patchwork:
    if draw(st.integers(0, 3)) == 3:
        return draw(st.sampled_from([halves(1, 0), halves(1, 1), halves(2, 1), halves(2, 0)]))
    ranks, each = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    blocks = ranks * each
    owners = draw(st.permutations([rank for rank in range(ranks) for _ in range(each)]))
    rank = st.integers(0, ranks - 1)
    cells = blocks * (blocks + 1) // 2
    heads = draw(st.integers(1, 3))
    makers = [tuple(draw(st.lists(rank, min_size=cells, max_size=cells))) for _ in range(heads)]
    return Patchwork(owners=tuple(owners), makers=tuple(makers))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Workload, Patchwork]:
    patchwork, more, group = draw(patchworks()), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    workload = Workload(
        n=draw(st.integers(patchwork.blocks + 8, patchwork.blocks + 40)), d=draw(st.integers(1, 4)),
        value_dim=draw(st.integers(1, 4)), heads=patchwork.heads * more * group, kv_heads=patchwork.heads * more,
        batch=draw(st.integers(1, 2)), mask="causal", accumulator=draw(st.sampled_from([None, "fp32"])),
        direction=draw(st.sampled_from(["forward", "backward", "training"])),
    )  # fmt: skip
    return workload, patchwork
