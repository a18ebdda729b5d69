"""Laws of the tiles of keys that stay while rows pass."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows.key_tiles import KeyTiles, row_tiles
from attenio.dataflows.problem import separate_problems
from attenio.memory.indices import as_array

from .laws import QUICK, workloads
from .test_problem import sharing


@QUICK
@given(workloads(), st.integers(1, 9), st.integers(1, 9))
def test_key_tiles_cover_the_required_scores_and_know_first_and_last_visits(workload, key_tile, row_tile):
    problem = next(separate_problems(sharing(workload), by_group=True))
    advanced = []
    problem = replace(problem, advance=advanced.append)
    rows, keys = problem.pattern.rows, problem.pattern.keys
    required = problem.pattern.required(0, rows, np.arange(keys))
    tiles = KeyTiles(problem, key_tile)
    visits = {position: [] for position in range(rows)}
    covered = np.zeros_like(required)
    for tile in tiles:
        covered[np.ix_(tile.positions, tile.keys)] = True
        assert required[:, tile.keys].any(axis=0).all()
        for position in tile.positions:
            visits[position].append(tile)
        listed = [as_array(some) for some, _ in row_tiles(problem, tile.positions, row_tile)]
        every = [head * rows + position for head in range(problem.group) for position in tile.positions]
        assert np.concatenate(listed).tolist() == every
    assert not (required & ~covered).any()
    assert sum(advanced) == keys
    for position, met in visits.items():
        one = np.array([position])
        assert tiles.needing[position] == required[position].any() == bool(met)
        assert [bool(tile.visited(one)[0]) for tile in met] == [turn > 0 for turn in range(len(met))]
        assert [bool(tile.last(one)[0]) for tile in met] == [turn == len(met) - 1 for turn in range(len(met))]
