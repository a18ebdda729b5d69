import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster import Grid, grids
from attenio.cluster.grid import check_grid
from attenio.errors import InvalidInput
from attenio.workload import Workload

laws = settings(max_examples=17, deadline=None, derandomize=True)
sides = st.integers(1, 6)


@laws
@given(sides, sides, sides)
def test_every_rank_has_a_place_of_its_own_and_three_circles_of_peers_that_meet_in_it(h: int, a: int, b: int) -> None:
    grid = Grid(heads=h, queries=a, keys=b)
    assert [grid.rank(grid.place(rank)) for rank in range(grid.devices)] == list(range(grid.devices))
    for rank in range(grid.devices):
        circles = [grid.head_peers(rank), grid.row_peers(rank), grid.column_peers(rank)]
        assert [len(circle) for circle in circles] == [h, b, a]
        assert set.intersection(*map(set, circles)) == {rank}
        assert all(grid.head_peers(peer) == circles[0] for peer in circles[0])
        assert all(grid.row_peers(peer) == circles[1] for peer in circles[1])
        assert all(grid.column_peers(peer) == circles[2] for peer in circles[2])


@laws
@given(st.integers(1, 60), st.integers(1, 12))
def test_the_grids_of_some_devices_are_all_that_there_are(devices: int, kv_heads: int) -> None:
    found = [(grid.heads, grid.queries, grid.keys) for grid in grids(devices, kv_heads)]
    sizes = range(1, devices + 1)
    every = {(h, a, devices // h // a) for h in sizes for a in sizes if devices % (h * a) == 0 and kv_heads % h == 0}
    assert len(found) == len(set(found)) and set(found) == every


def test_a_grid_that_does_not_divide_and_numbers_that_no_cluster_has_are_refused_in_a_line() -> None:
    with pytest.raises(InvalidInput, match=r"cuts 8 KV heads into 3 groups.*divides 8$"):
        check_grid(Grid(heads=3, queries=2), Workload(n=8, d=4, heads=8))
    with pytest.raises(InvalidInput, match=r"queries of the grid is 0; it must be at least 1"):
        Grid(queries=0)
    with pytest.raises(InvalidInput, match=r"devices is 1,000,000,000; attenio plans up to 131,072: use fewer"):
        list(grids(10**9, 8))
    with pytest.raises(InvalidInput, match=r"devices is 0; it must be at least 1"):
        list(grids(0, 8))
