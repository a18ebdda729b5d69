"""Runs of tiles are the tiles, and their ramps are their steps."""

from functools import partial
from math import gcd

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.program import Engine, Node, Pace, Program, Ramp, Repeat, Step, Work, repeat
from attenio.accelerator.programs.query_tiles import TileRun, query_tiles, tiles_of_run
from attenio.patterns import Band


@settings(max_examples=200)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 15), st.integers(0, 15), st.integers(-30, 30), st.data())
def test_runs_list_the_keys_of_every_tile_and_never_mix_tiles_with_keys_and_without(
    rows: int, keys: int, left: int, right: int, shift: int, data: st.DataObject
) -> None:
    band = Band(rows=rows, keys=keys, left=left, right=right, shift=shift)
    tile = data.draw(st.integers(1, rows))
    runs = list(query_tiles(band, tile))
    listed = [(run.rows, run.keys_at(number)) for run in runs for number in range(run.count)]
    edges = [(start, min(start + tile, rows)) for start in range(0, rows, tile)]
    assert listed == [(stop - start, int(band.widths(start, stop))) for start, stop in edges]
    for run in runs:
        assert len({run.keys_at(number) > 0 for number in range(run.count)}) == 1


def _tile(key_tile: int, keys: int) -> tuple[Node, ...]:
    """A loop over tiles of keys with a ragged end, and a step that takes all keys at once."""
    load = Step(name="load", engine=Engine.HBM, cycles=2, work=Work(loaded_words=key_tile), keys=key_tile)
    whole, rest = divmod(keys, key_tile)
    ragged = Step(name="load", engine=Engine.HBM, cycles=1, work=Work(loaded_words=rest), keys=rest)
    pace = Pace(elements=keys, units=4)
    row = Step(
        name="row", engine=Engine.PE, cycles=pace.cycles + 3, keys=keys, pace=pace, work=Work(map_operations=keys)
    )
    return (*repeat(whole, load), *((ragged,) if rest else ()), *repeat(3, row))


@settings(max_examples=150)
@given(st.integers(0, 60), st.integers(0, 200), st.integers(-4, 7), st.integers(1, 6))
def test_a_ramp_has_the_steps_of_its_tiles(count: int, keys: int, growth: int, key_tile: int) -> None:
    if growth < 0:
        count = min(count, keys // -growth + 1)
    run = TileRun(count=count, rows=1, keys=keys, growth=growth)
    made = Program(tiles_of_run(run, key_tile // gcd(growth, key_tile), partial(_tile, key_tile)))
    listed = Program(tuple(node for number in range(count) for node in _tile(key_tile, run.keys_at(number))))
    assert list(made) == list(listed)
    assert (made.steps, made.work) == (listed.steps, listed.work)
    if growth and count >= 16 * key_tile:
        assert any(isinstance(node, Ramp) for node in made.body)
    assert all(isinstance(node, Step | Repeat | Ramp) for node in made.body)
