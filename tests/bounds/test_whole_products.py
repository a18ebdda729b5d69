"""Whole products: no set of whole numbers does more, no plan moves less, and tiny memories gain by it."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.backward.fused_epochs import fused_gradient_epochs, fused_gradient_words
from attenio.bounds.epochs import products_per_epoch
from attenio.bounds.fused_epochs import fused_epoch_words, fused_epochs
from attenio.bounds.whole_products import LARGEST_FAST_WORDS, most_whole_products, whole_product_words
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)
MOST = most_whole_products(60)


def partitions(cells: int, widest: int) -> Iterator[tuple[int, ...]]:
    """Diagrams of rows that do not grow."""
    if cells == 0:
        yield ()
    for first in range(min(cells, widest), 0, -1):
        for rest in partitions(cells - first, first):
            yield (first, *rest)


def piles(cells: int, below: tuple[int, ...] | None = None) -> Iterator[list[tuple[int, ...]]]:
    """Layers of cubes, each within the layer below: compressing a set towards a corner leaves one of these."""
    if cells == 0:
        yield []
    for size in range(1, cells + 1):
        for layer in partitions(size, size):
            if below is None or (len(layer) <= len(below) and all(a <= b for a, b in zip(layer, below, strict=False))):
                for rest in piles(cells - size, layer):
                    yield [layer, *rest]


def test_no_pile_of_cubes_has_smaller_shadows_and_some_pile_has_these() -> None:
    for cells in range(1, 11):
        least = min(sum(pile[0]) + sum(len(layer) + layer[0] for layer in pile) for pile in piles(cells))
        assert MOST[least] >= cells > MOST[least - 1]


@laws
@given(st.sets(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40))
def test_no_set_of_products_has_fewer_words(cells: set[tuple[int, int, int]]) -> None:
    words = sum(len({cell[:axis] + cell[axis + 1 :] for cell in cells}) for axis in range(3))
    assert len(cells) <= MOST[words]
    assert MOST[words] <= products_per_epoch(float(words)) * (1 + 1e-12)


@laws
@given(st.data(), st.sampled_from(["forward", "backward"]), st.sampled_from(["dense", "causal", "window:3"]))
def test_no_run_in_a_tiny_memory_moves_less(data: st.DataObject, direction: str, mask: str) -> None:
    d, dv = (data.draw(st.integers(6, 20)) for _ in range(2))
    workload = Workload(n=data.draw(st.integers(3, 12)), d=d, value_dim=dv, mask=mask, direction=direction)
    fast_words = data.draw(st.integers(3, 14))
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    bound = fused_epochs if direction == "forward" else fused_gradient_epochs
    assert bound(workload, fast_words).words <= execute(plan).moved_words == plan.moved_words


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_tiny_memories_gain_up_to_three_tenths_and_larger_ones_nothing(direction: str) -> None:
    workload = Workload(n=4096, d=64, direction=direction)
    bound = fused_epochs if direction == "forward" else fused_gradient_epochs
    halves = 4 if direction == "forward" else 8
    for fast_words, gain in ((3, 1.299), (4, 1.25), (16, 1.08), (42, 1.04)):
        real = halves * workload.scores * 64 / fast_words**0.5
        assert bound(workload, fast_words).words + workload.scores == pytest.approx(gain * real, rel=5e-3)
    assert whole_product_words(1e9, 128.0, 64.0, 43.0) == 0.0
    assert whole_product_words(1e9, 1e4, 1e4, float(LARGEST_FAST_WORDS + 1)) == 0.0


@pytest.mark.parametrize("words_of", [fused_epoch_words, fused_gradient_words])
def test_arrays_say_what_floats_say(words_of) -> None:
    points = list(product((1e3, 1e8), (4.0, 16.0, 130.0), (8.0, 64.0), (3.0, 8.0, 33.0, 64.0, 65.0), (1.0, 3.0)))
    assert words_of(*np.array(points).T).tolist() == [words_of(*point) for point in points]
