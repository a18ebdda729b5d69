"""Tiles of the Hopper kernel: what fits an SM, and in which order they are tried."""

from itertools import product

import pytest

from attenio.kernels.hopper.tiles import WIDTHS, GluonTiles, computed_width, hopper_tiles, side_by_side


@pytest.mark.parametrize(("d", "width"), list(product(WIDTHS, WIDTHS)))
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
    two, three = (GluonTiles(consumers=c, key_tile=128, stages=2, staged=True, ping_pong=False) for c in (2, 3))
    assert (two.registers, two.registers_at_start) == (240, 168)
    assert (three.registers, three.registers_at_start) == (160, 128)


@pytest.mark.parametrize(("width", "parts"), [(64, (64, 0)), (80, (64, 16)), (192, (128, 64)), (256, (256, 0))])
def test_widths_are_cut_into_powers_of_two(width, parts):
    assert side_by_side(width) == parts


def test_heads_are_computed_in_the_next_width_that_two_powers_of_two_make():
    computed = [computed_width(width) for width in range(8, 257, 8)]
    assert all(
        columns >= width and columns in WIDTHS for width, columns in zip(range(8, 257, 8), computed, strict=True)
    )
    # Products are padded by less than three tenths from 64 on.
    assert all(columns <= 1.3 * width for width, columns in zip(range(72, 257, 8), computed[8:], strict=True))
