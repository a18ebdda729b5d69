from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.search import fractions
from attenio.planning.search.fractions import fractions_around, shells_between

LAWS = settings(max_examples=20, deadline=None, derandomize=True)


@LAWS
@given(height=st.integers(2, 900), whole=st.integers(0, 3), terms=st.integers(1, 300), data=st.data())
def test_shells_hold_every_tile_and_their_floors_hold_for_each(
    height: int, whole: int, terms: int, data: st.DataObject
) -> None:
    least = data.draw(st.integers(1, height - 1))
    most = data.draw(st.integers(least, height - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fractions, "_SHORT", data.draw(st.sampled_from([8, 768])))
        shells = shells_between(whole * height + least, whole * height + most, height)
    everything = np.unique(shells.tiles(np.arange(len(shells.first))))
    assert everything.tolist() == list(range(whole * height + least, whole * height + most + 1))
    sums, crossings = (
        floors(np.full(len(shells.first), float(terms))) for floors in (shells.fractions, shells.crossings)
    )
    for tile in everything.tolist():
        residues = np.arange(1, terms + 1) * tile % height
        held = (shells.first <= tile) & (tile <= shells.last)
        # edges are rounded outwards: one of the shells is the tile's own
        assert sums[held].min() * height * (1 - 1e-9) <= residues.sum()
        assert crossings[held].min() <= np.count_nonzero(residues)


@LAWS
@given(height=st.integers(1, 500), order=st.integers(1, 40), data=st.data())
def test_fractions_around_a_range_are_all_there_are_and_their_nearest_neighbours(
    height: int, order: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, height - 1))
    last = data.draw(st.integers(first, height))
    every = sorted({Fraction(p, q) for q in range(1, order + 1) for p in range(2 * q + 1)})
    found = fractions_around(first, last, height, order)
    begin = max(i for i, fraction in enumerate(every) if fraction * height <= first)
    assert [Fraction(*pair) for pair in found] == every[begin : begin + len(found)]
    assert all(gcd(*pair) == 1 for pair in found)
    assert len(found) >= 2
    assert Fraction(*found[-1]) * height >= last
    assert len(found) == 2 or Fraction(*found[-2]) * height < last


def test_a_fraction_itself_is_the_lowest() -> None:
    shells = shells_between(1, 999, 1000)
    floors = shells.fractions(np.full(len(shells.first), 1000.0))
    half = (shells.first <= 500) & (shells.last >= 500) & (shells.q == 2)
    assert half.any()
    assert floors[half].min() * 1000 <= 500 * 500
