"""Runs of tiles are the tiles, and their ramps are their steps."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.program import Node, Program, Ramp, repeat
from attenio.accelerator.programs.query_tiles import Keys, TileRun, of_size, query_tiles, stream, tiles_of_run
from attenio.accelerator.step import Engine, Pace, Step, Work
from attenio.masks.patterns import Band


@settings(max_examples=40)
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


def _granule(bent: bool, keys: int, jump: bool) -> tuple[Node, ...]:
    """Keys that pass together; bent, they take a time that is no line over their number."""
    cycles = 2 + 3 * keys + 7 * jump + (keys * keys if bent else 0)
    return (Step(name="load", engine=Engine.HBM, cycles=cycles, work=Work(loaded_words=keys), keys=keys),)


def _row(keys: int) -> tuple[Node, ...]:
    pace = Pace(elements=keys, units=4)
    return (
        Step(
            name="row", engine=Engine.PE, cycles=pace.cycles + 3, keys=keys, pace=pace, work=Work(map_operations=keys)
        ),
    )


def _tile(key_tile: int, bent: bool, keys: Keys) -> tuple[Node, ...]:
    """A loop over tiles of keys with a ragged end, and steps that take all keys at once."""
    return (*stream(keys, key_tile, partial(_granule, bent), jump=True), *repeat(3, *of_size(keys, _row)))


def _steps_of(run: TileRun, key_tile: int, bent: bool) -> list[Step]:
    tiles = (_tile(key_tile, bent, Keys.fixed(run.keys_at(number))) for number in range(run.count))
    return list(Program(tuple(node for tile in tiles for node in tile)))


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(0, 200), st.integers(-4, 7), st.integers(1, 6), st.booleans())
def test_a_ramp_has_the_steps_of_its_tiles(count: int, keys: int, growth: int, key_tile: int, bent: bool) -> None:
    if growth < 0:
        count = min(count, keys // -growth + 1)
    run = TileRun(count=count, rows=1, keys=keys, growth=growth)
    made = Program(tiles_of_run(run, (0, key_tile - 1), partial(_tile, key_tile, bent)))
    listed = _steps_of(run, key_tile, bent)
    assert list(made) == listed
    assert (made.steps, made.work) == (len(listed), sum((step.work for step in listed), Work()))
    if growth and count >= 16 * key_tile:
        assert any(isinstance(node, Ramp) for node in made.body)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 6), st.booleans())
def test_tiles_that_follow_no_rule_are_listed(keys: list[int], key_tile: int, bent: bool) -> None:
    run = TileRun(count=len(keys), rows=1, keys=keys[0], listed=tuple(keys))
    made = Program(tiles_of_run(run, (0, key_tile - 1), partial(_tile, key_tile, bent)))
    listed = _steps_of(run, key_tile, bent)
    assert list(made) == listed
    assert (made.steps, made.work) == (len(listed), sum((step.work for step in listed), Work()))
