"""Laws of what the hardware overwrites: nothing that someone still reads, at the times that RTL and simulator share.

A controller has no inputs: its run is one path, and what holds in every step of it holds in every state it reaches.
"""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.small import small_machine
from attenio.accelerator.tracks import Span, spans
from attenio.errors import AttenioError
from attenio.workload import Workload


@st.composite
def designs(draw: st.DrawFn) -> Design | None:
    """Small machines and workloads; None where they cannot be built."""
    lines, macs, width = (draw(st.integers(1, 5)) for _ in range(3))
    rate = draw(st.sampled_from((1, 2, 4)))
    rows = draw(st.integers(1, 12))
    machine = small_machine(
        lines=lines,
        macs=macs,
        modules=draw(st.sampled_from([each for each in range(1, lines * macs + 1) if lines * macs % each == 0])),
        cache_words=rows * (2 * width + 4) + width,
        rate=rate,
        miss_cycles=draw(st.integers(2, 11)),
    )
    mask = draw(st.sampled_from(("dense", "causal", "window:2")))
    shape = {"queries": draw(st.integers(1, 20)), "keys": draw(st.integers(1, 20)), "heads": draw(st.integers(1, 2))}
    try:
        return Design.of(Workload(d=width, mask=mask, **shape), machine)
    except AttenioError:
        return None


def runs(all_spans: list[Span], *names: str) -> list[Span]:
    return [span for span in all_spans if span.name in names]


@settings(max_examples=17, deadline=None)
@given(design=designs())
def test_no_block_is_filled_before_what_it_holds_was_broadcast(design: Design | None) -> None:
    if design is None:
        return
    every = list(spans(design.program))
    for load, use in (("load K", "scores"), ("load V", "outputs")):
        order = sorted(runs(every, load, use), key=lambda span: (span.begin, span.name == use))
        assert [span.name for span in order] == [load, use] * (len(order) // 2)  # filled, used, filled, used
        assert all(one.end <= other.begin for one, other in pairwise(order))


@settings(max_examples=17, deadline=None)
@given(design=designs())
def test_queries_and_outputs_are_not_overwritten_while_someone_reads_them(design: Design | None) -> None:
    if design is None:
        return
    every = list(spans(design.program))
    for writer, reader in (("load Q", "scores"), ("outputs", "store O")):
        writes, reads = runs(every, writer), runs(every, reader)
        assert all(one.end <= other.begin or other.end <= one.begin for one in writes for other in reads)
