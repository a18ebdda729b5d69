import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.search.fractions import shells_between

LAWS = settings(max_examples=100, deadline=None, derandomize=True)


@LAWS
@given(height=st.integers(2, 900), whole=st.integers(0, 3), terms=st.integers(1, 300), data=st.data())
def test_shells_hold_every_tile_and_their_floors_hold_for_each(
    height: int, whole: int, terms: int, data: st.DataObject
) -> None:
    least = data.draw(st.integers(1, height - 1))
    most = data.draw(st.integers(least, height - 1))
    shells = shells_between(whole * height + least, whole * height + most, height)
    everything = shells.tiles(np.arange(len(shells.first)))
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


def test_a_fraction_itself_is_the_lowest() -> None:
    shells = shells_between(1, 999, 1000)
    floors = shells.fractions(np.full(len(shells.first), 1000.0))
    half = (shells.first <= 500) & (shells.last >= 500) & (shells.q == 2)
    assert half.any()
    assert floors[half].min() * 1000 <= 500 * 500
