"""Tiles of the Hopper kernel: what fits an SM, and in which order they are tried."""

import pytest

from attenio.kernels.hopper.tiles import HopperTiles, hopper_tiles, side_by_side

WIDTHS = [(64, 64), (96, 96), (128, 128), (192, 192), (192, 128), (256, 256), (128, 64)]


@pytest.mark.parametrize(("d", "width"), WIDTHS)
def test_a_few_candidates_fit_registers_and_shared_memory(d, width):
    found = hopper_tiles(d, width)
    assert 1 <= len(found) <= 2
    for tiles in found:
        threads = 128 * tiles.consumers
        assert threads * tiles.registers + 128 * 24 <= 65536
        assert (threads + 128) * tiles.registers_at_start <= 65536
        words = tiles.row_tile * (d + width * tiles.staged) + tiles.stages * tiles.key_tile * (d + width)
        assert 2 * words < 227 * 2**10


def test_narrow_heads_want_three_consumers_and_wide_ones_two():
    assert [hopper_tiles(d, d)[0].consumers for d in (64, 128, 256)] == [3, 2, 2]
    assert [hopper_tiles(d, d)[0].key_tile for d in (64, 128, 256)] == [128, 128, 64]


def test_registers_are_what_the_loader_leaves():
    two, three = (HopperTiles(consumers=c, key_tile=128, stages=2, staged=True, ping_pong=False) for c in (2, 3))
    assert (two.registers, two.registers_at_start) == (240, 168)
    assert (three.registers, three.registers_at_start) == (160, 128)


@pytest.mark.parametrize(("width", "parts"), [(64, (64, 0)), (96, (64, 32)), (192, (128, 64)), (256, (256, 0))])
def test_widths_are_cut_into_powers_of_two(width, parts):
    assert side_by_side(width) == parts
