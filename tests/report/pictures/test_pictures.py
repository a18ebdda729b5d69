"""Laws of the pictures: sound SVG whose description has the plan's own numbers."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio import Machine, Workload, best_plan, candidates
from attenio.bounds import bounds_for, largest_ordinary
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse, Documents
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.report.answer import answer
from attenio.report.pictures import frames_of, moves_svg, roofline_svg, small_plan, tiles_svg, words_svg

SVG = "{http://www.w3.org/2000/svg}"


def described(svg: str) -> str:
    tree = ET.fromstring(svg)
    assert tree.attrib["role"] == "img" and "viewBox" in tree.attrib
    assert tree.findtext(f"{SVG}title")
    return tree.findtext(f"{SVG}desc") or ""


def test_the_words_at_the_mark_are_those_of_the_planner() -> None:
    workload, words = Workload(n=2048, d=32, mask="causal"), 8192
    told = described(words_svg(workload, words))
    assert f"at least {largest_ordinary(bounds_for(workload, words)).words:,} words" in told
    for dataflow in (None, Dataflow.STANDARD):
        assert f"{best_plan_for(workload, words, dataflow=dataflow).moved_words:,} words" in told


@settings(max_examples=11)
@given(
    n=st.integers(1, 300),
    mask=st.sampled_from(["dense", "causal", "window:7"]),
    kilobytes=st.integers(1, 64),
    decode=st.booleans(),
)
def test_tiles_are_drawn_to_scale_and_told_in_words(n: int, mask: str, kilobytes: int, decode: bool) -> None:
    workload = Workload(queries=1 if decode else n, keys=n, d=8, mask=mask if n >= 7 else "dense")
    for candidate in candidates(workload, Machine.with_fast_bytes(f"{kilobytes}K")):
        if candidate.plan is not None:
            told = described(tiles_svg(candidate.plan))
            assert f"moves {candidate.plan.moved_words:,} word" in told
            assert f"at most {candidate.plan.peak_words:,} word" in told


@pytest.mark.parametrize("dataflow", list(Dataflow.towards("forward")), ids=lambda each: each.value)
def test_frames_of_a_small_plan_move_its_words_and_hold_only_rows_that_are_there(dataflow: Dataflow) -> None:
    workload = Workload(n=4096, d=64, heads=2, kv_heads=1, mask="causal")
    plan = small_plan(best_plan(workload, "attenio-512k", dataflow=dataflow))
    frames = frames_of(plan)
    assert plan.workload.keys <= 12
    assert frames[-1].loaded_words + frames[-1].stored_words == plan.moved_words
    lengths = {"Q": plan.workload.queries, "K": plan.workload.keys, "V": plan.workload.keys}
    for frame in frames:
        for operand, rows in frame.resident:
            assert all(0 <= row < lengths.get(operand, 10**6) for row in rows)
    assert f"In all {frames[-1].loaded_words} words are loaded" in described(moves_svg(plan))


def test_a_gradient_has_tiles_and_no_curve() -> None:
    workload = Workload(n=256, d=16, direction="backward")
    assert "(backward)" in described(tiles_svg(best_plan(workload, Machine.with_fast_bytes("16K"))))
    with pytest.raises(InvalidInput, match="of a forward pass; use --direction forward"):
        words_svg(workload, 4096)


@pytest.mark.parametrize("machine", ["attenio-512k", "h100", "graviton4"])
def test_the_roofline_has_the_rate_that_the_plan_allows_and_no_plan_right_of_the_bound(machine: str) -> None:
    found = answer(Workload(n=3000, d=48, mask="causal"), machine)
    drawn = roofline_svg(found)
    assert drawn is not None
    slowest = found.boundaries[-1]
    assert slowest.moved_words is not None and slowest.boundary.slow.bandwidth_bytes_per_s is not None
    intensity = found.workload.flops / (2 * slowest.moved_words)
    assert f"{intensity:,.4g} flops for each byte" in described(drawn)
    bandwidth, peak = slowest.boundary.slow.bandwidth_bytes_per_s, found.machine.flops_per_s[found.workload.dtype]
    assert ("arithmetic binds" in described(drawn)) == (intensity * bandwidth >= peak)
    tree = ET.fromstring(drawn)
    dots = [float(dot.attrib["cx"]) for dot in tree.iter(f"{SVG}circle")]
    bar = max(path.attrib["d"] for path in tree.iter(f"{SVG}path") if path.attrib["class"] == "s-bound")
    assert len(dots) > 5 and max(dots) <= float(bar[1:].split()[0]) + 0.1


def test_a_machine_without_rates_has_no_roof() -> None:
    assert roofline_svg(answer(Workload(n=64, d=8), Machine.with_fast_bytes("4KB"))) is None


@pytest.mark.parametrize(
    ("mask", "required"),
    [
        ("dense", 144),
        ("causal", 78),
        (Documents(lengths=(512, 256, 256)), 21 + 6 + 6),
        (BlockSparse.from_array(np.eye(16, dtype=bool)), 4 * 9),
        ("window:256", 12 * 3 - 3),
    ],
)
def test_a_plan_small_enough_to_watch_has_the_mask_of_the_plan_it_stands_for(mask: object, required: int) -> None:
    plan = best_plan_for(Workload(n=1024, d=16, mask=mask), 4096)
    assert small_plan(plan).workload.scores == required
