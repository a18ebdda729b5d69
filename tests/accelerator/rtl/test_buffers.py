"""Laws of what the hardware overwrites: nothing that someone still reads, at the times that RTL and simulator share.

A controller has no inputs: its run is one path, and what holds in every step of it holds in every state it reaches.
"""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.tracks import Span, spans
from attenio.errors import AttenioError
from attenio.machine import Machine, MemoryLevel
from attenio.parts import AcceleratorParts, HbmParts
from attenio.workload import Workload


@st.composite
def designs(draw: st.DrawFn) -> Design | None:
    """Small machines and workloads; None where they cannot be built."""
    lines, macs, width = (draw(st.integers(1, 5)) for _ in range(3))
    rate = draw(st.sampled_from((1, 2, 4)))
    rows = draw(st.integers(1, 12))
    hbm = HbmParts(
        channels=1,
        burst_bytes=2 * rate,
        page_bytes=64,
        row_precharge_ns=draw(st.integers(0, 9)),
        row_activate_ns=1,
        read_latency_ns=1,
        four_activates_ns=0,
        refresh_ns=0,
    )
    modules = draw(st.sampled_from([each for each in range(1, lines * macs + 1) if lines * macs % each == 0]))
    parts = AcceleratorParts(
        pe_lines=lines, macs_per_line=macs, exp_modules=modules, kv_buffer_bytes=2 * width, hbm=hbm
    )
    levels = (
        MemoryLevel(name="cache", capacity_bytes=2 * rows * (2 * width + 4) + 2 * width),
        MemoryLevel(name="HBM", bandwidth_bytes_per_s=2 * rate * 10**9),
    )
    mask = draw(st.sampled_from(("dense", "causal", "window:2")))
    shape = {"queries": draw(st.integers(1, 20)), "keys": draw(st.integers(1, 20)), "heads": draw(st.integers(1, 2))}
    try:
        workload = Workload(d=width, mask=mask, **shape)
        return Design.of(workload, Machine(name="drawn", levels=levels, accelerator=parts))
    except AttenioError:
        return None


def runs(all_spans: list[Span], *names: str) -> list[Span]:
    return [span for span in all_spans if span.name in names]


@settings(max_examples=40, deadline=None)
@given(design=designs())
def test_no_block_is_filled_before_what_it_holds_was_broadcast(design: Design | None) -> None:
    if design is None:
        return
    every = list(spans(design.program))
    for load, use in (("load K", "scores"), ("load V", "outputs")):
        order = sorted(runs(every, load, use), key=lambda span: (span.begin, span.name == use))
        assert [span.name for span in order] == [load, use] * (len(order) // 2)  # filled, used, filled, used
        assert all(one.end <= other.begin for one, other in pairwise(order))


@settings(max_examples=40, deadline=None)
@given(design=designs())
def test_queries_and_outputs_are_not_overwritten_while_someone_reads_them(design: Design | None) -> None:
    if design is None:
        return
    every = list(spans(design.program))
    for writer, reader in (("load Q", "scores"), ("outputs", "store O")):
        writes, reads = runs(every, writer), runs(every, reader)
        assert all(one.end <= other.begin or other.end <= one.begin for one in writes for other in reads)
