"""Random workloads on random grids, ragged lengths and empty shares included."""

from hypothesis import strategies as st

from attenio.cluster import Grid
from attenio.workload import Workload

MASKS = ("dense", "causal", "window")


@st.composite
def problems(
    draw: st.DrawFn, *, longest: int = 40, directions: tuple[str, ...] = ("forward", "backward"), most_devices: int = 24
) -> tuple[Workload, Grid]:
    kv_heads, group = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    heads = draw(st.sampled_from([each for each in range(1, kv_heads + 1) if kv_heads % each == 0]))
    kind = draw(st.sampled_from(MASKS))
    rows = draw(st.integers(1, max(1, most_devices // heads)))
    columns = 1 if kind == "window" else draw(st.integers(1, max(1, most_devices // heads // rows)))
    keys = draw(st.integers(1, longest))
    queries = draw(st.one_of(st.just(keys), st.integers(1, keys)))
    mask = kind if kind != "window" else f"window:{draw(st.integers(1, keys))}" + draw(st.sampled_from(["", ":both"]))
    workload = Workload(
        queries=queries,
        keys=keys,
        d=draw(st.integers(1, 5)),
        value_dim=draw(st.integers(1, 5)),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        batch=draw(st.integers(1, 2)),
        mask=mask,
        direction=draw(st.sampled_from(directions)),
        accumulator=draw(st.sampled_from([None, "fp32"])),
    )
    return workload, Grid(heads=heads, queries=rows, keys=columns)
