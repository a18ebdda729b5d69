"""Laws of the bytes below a cache that programs share."""

import heapq
from collections import OrderedDict
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.planning.shared_cache import Grid, Sweep, kernel_of, traffic

H200 = 60 * 2**20


def forward(units: int, n: int, *, tile: int = 128, resident: int = 132, **more: object) -> Grid:
    """A forward pass of bf16 heads 128 wide."""
    return Grid(
        units=units, rows=n, passing=n, tile=tile, resident=resident,
        read_bytes=256, written_bytes=264, passing_bytes=512, **more,
    )  # fmt: skip


small = st.builds(
    Grid,
    units=st.integers(1, 5),
    rows=st.integers(1, 400),
    passing=st.integers(1, 400),
    tile=st.integers(1, 130),
    resident=st.integers(1, 12),
    read_bytes=st.integers(1, 64),
    written_bytes=st.integers(1, 64),
    passing_bytes=st.integers(1, 64),
    updated_bytes=st.sampled_from([0, 8]),
    sharing=st.integers(1, 3),
    causal=st.booleans(),
    together=st.integers(1, 6),
    backwards=st.booleans(),
    turns=st.booleans(),
    drops_reads=st.booleans(),
)


def least_read(grid: Grid) -> int:
    """Everything once; of a causal grid with fewer passing rows than rows, only rows that see some."""
    shared = -(-grid.units // grid.sharing)
    return grid.units * grid.rows * grid.read_bytes + shared * grid.passing * (grid.passing_bytes + grid.updated_bytes)


@given(small)
def test_a_cache_that_holds_everything_reads_everything_once_and_writes_nothing_yet(grid: Grid) -> None:
    found = traffic(grid, cache_bytes=2**40)
    assert found.read_bytes == least_read(grid)
    assert found.written_bytes == 0


@given(small, st.integers(0, 2**14))
def test_no_cache_reads_less_than_everything_once_and_what_is_written_is_counted_once(grid: Grid, cache: int) -> None:
    found = traffic(replace(grid, updated_bytes=0), cache_bytes=cache)
    assert found.read_bytes >= least_read(replace(grid, updated_bytes=0))
    assert found.written_bytes <= grid.units * grid.rows * grid.written_bytes


@given(small, st.integers(64, 2**13), st.integers(64, 2**13))
@settings(max_examples=20)
def test_a_larger_cache_never_moves_more(grid: Grid, one: int, other: int) -> None:
    smaller, larger = sorted((one, other))
    # the entry used last is always kept first: what a small cache holds, a large one holds too
    assert traffic(grid, cache_bytes=larger).moved_bytes <= traffic(grid, cache_bytes=smaller).moved_bytes


@given(small)
def test_no_cache_at_all_pays_for_every_wave(grid: Grid) -> None:
    alone = replace(grid, units=1, sharing=1, causal=False, turns=False, updated_bytes=0)
    waves = -(-alone.tiles // alone.resident)
    assert traffic(alone, cache_bytes=0).read_bytes == alone.rows * alone.read_bytes + waves * alone.sweep_bytes


def test_kernels_that_follow_each_other_write_back_what_the_first_left_dirty() -> None:
    grid = forward(1, 4096)
    alone, thrice = (traffic(*[grid] * count, cache_bytes=2**23) for count in (1, 3))
    assert thrice.read_bytes == 3 * alone.read_bytes
    assert (alone.written_bytes, thrice.written_bytes) == (0, 2 * 4096 * 264)


def gradients(
    units: int, n: int, size: int, *, d: int = 128, causal: bool = False, together: int = 1
) -> list[Grid | Sweep]:
    """A backward pass of bf16 heads in launches of so many units, as Gluon's kernels run it."""
    parts = -(-units // size)
    ends = [units * part // parts for part in range(parts + 1)]
    between = Sweep(
        done=0, following=0, first_unit=0, passing=n, read_bytes=4 * d + 8, written_bytes=2 * d, swept_bytes=2 * d,
        updated_bytes=4 * d,
    )  # fmt: skip
    keys = Grid(
        units=1, rows=n, passing=n, tile=128, resident=132, read_bytes=4 * d, written_bytes=4 * d,
        passing_bytes=4 * d + 8, swept_bytes=2 * d, updated_bytes=4 * d, causal=causal, together=together,
        backwards=True,
    )  # fmt: skip
    made: list[Grid | Sweep] = []
    for before, start, stop in zip([0, *ends], ends, ends[1:], strict=False):
        made.append(replace(between, done=start - before, following=stop - start, first_unit=start))
        made.append(replace(keys, units=stop - start, first_unit=start))
    return [*made, replace(between, done=ends[-1] - ends[-2])]


def test_sums_that_fit_never_leave_the_cache_and_what_a_sweep_read_is_not_read_again() -> None:
    tensor = 8 * 1024 * 256
    found = traffic(*gradients(8, 1024, 2), cache_bytes=2**40)
    assert found.read_bytes == 5 * tensor + 8 * 1024 * 16  # Q, K, V, O and dO, and two numbers of each row twice
    assert found.written_bytes == 0


def test_small_launches_move_less_than_one() -> None:
    in_one, in_eight = (traffic(*gradients(16, 8192, size), cache_bytes=H200).moved_bytes for size in (16, 2))
    assert in_eight < 0.5 * in_one


def test_without_a_cache_sums_are_moved_whenever_they_are_needed() -> None:
    tensor = 4 * 1024 * 256  # of 16 bits a number; sums have 32
    found = traffic(*gradients(4, 1024, 4), cache_bytes=0)
    # O and dO, then everything that passes the only wave, sums among it, then sums again.
    assert found.read_bytes == (2 + 4 + 2 + 2) * tensor + 4 * 1024 * 16
    # Sums cleared, sums added to, three gradients, the last rows of which have not left yet.
    assert found.written_bytes == pytest.approx((2 + 2 + 3) * tensor, rel=0.01)


@given(small)
def test_slopes_are_written_once_and_read_once(grid: Grid) -> None:
    plain, both = (
        traffic(replace(grid, **more), cache_bytes=0) for more in ({}, {"spilled_bytes": 2, "fetched_bytes": 3})
    )
    programs = map(grid.program, range(grid.units * grid.tiles))
    pairs = sum(kept * min(-(-met // 64) * 64, grid.passing) for _, kept, met, _ in programs)  # rows pass by 64
    assert both.written_bytes - plain.written_bytes == 2 * pairs
    assert both.read_bytes - plain.read_bytes == 3 * pairs


@given(small)
def test_programs_that_come_together_are_the_same_programs(grid: Grid) -> None:
    one, other = (
        sorted(each.program(index) for index in range(grid.units * grid.tiles))
        for each in (replace(grid, turns=False), replace(grid, turns=False, together=1))
    )
    assert one == other


@given(small)
def test_a_kernel_survives_being_written_down(grid: Grid) -> None:
    sweep = Sweep(
        done=1, following=2, first_unit=1, passing=grid.passing, read_bytes=2, written_bytes=1, swept_bytes=1,
        updated_bytes=4,
    )  # fmt: skip
    assert [kernel_of(asdict(kernel)) for kernel in (grid, sweep)] == [grid, sweep]


@pytest.mark.parametrize(
    ("grid", "measured_mb"),
    [
        # What an H200 counted: Triton's kernels with 128 and 256 rows in each of 132 SMs, one way and in turns,
        (forward(1, 2**18), 2292),
        (forward(1, 2**18, turns=True), 1930),
        (forward(1, 2**18, tile=256), 1211),
        (forward(1, 2**18, tile=256, turns=True), 1084),
        (forward(4, 2**16), 771),
        (forward(4, 2**16, turns=True), 485),
        (forward(4, 2**16, tile=256, turns=True), 424),
        (forward(16, 2**14), 265),
        (forward(16, 2**14, tile=256), 310),
        # the same where queries are loaded to be evicted first,
        (forward(1, 2**18, turns=True, drops_reads=True), 1886),
        (forward(4, 2**16, turns=True, drops_reads=True), 443),
        (forward(1, 2**16, turns=True, drops_reads=True), 85),
        (forward(16, 2**14, drops_reads=True), 262),
        # Gluon's with 192 rows, cuDNN with 128, and FlashAttention-2 with 128 in two programs of each SM.
        (forward(1, 2**18, tile=192, turns=True), 1409),
        (forward(1, 2**16, tile=192, turns=True), 88),
        (forward(1, 2**18), 2283),
        (forward(4, 2**16), 740),
        (forward(4, 2**16, resident=264), 521),
        (forward(16, 2**14, resident=264), 323),
    ],
)
def test_predictions_are_within_six_percent_of_what_a_gpu_counted(grid: Grid, measured_mb: int) -> None:
    assert traffic(grid, cache_bytes=H200).moved_bytes / 1e6 == pytest.approx(measured_mb, rel=0.06)


@pytest.mark.parametrize(
    ("kernels", "measured_mb"),
    [
        # What an H200 counted, all launches together: one launch, and ever smaller ones,
        (gradients(16, 8192, 16), 601),
        (gradients(16, 8192, 8), 568),
        (gradients(16, 8192, 6), 477),
        (gradients(16, 8192, 4), 392),
        (gradients(16, 8192, 2), 252),
        # tiles of four heads in turns,
        (gradients(16, 8192, 4, together=4), 495),
        # causal heads,
        (gradients(16, 8192, 16, causal=True), 566),
        (gradients(16, 8192, 8, causal=True, together=8), 758),
        (gradients(16, 8192, 4, causal=True, together=4), 379),
        # long heads, and narrow ones.
        (gradients(4, 32768, 4), 886),
        (gradients(4, 32768, 1), 504),
        (gradients(32, 8192, 32, d=64), 554),
        (gradients(32, 8192, 8, d=64), 404),
    ],
)
def test_predictions_of_gradients_are_within_seven_percent(kernels: list[Grid | Sweep], measured_mb: int) -> None:
    assert traffic(*kernels, cache_bytes=H200).moved_bytes / 1e6 == pytest.approx(measured_mb, rel=0.07)


@pytest.mark.parametrize("n", [2048, 8192, 32768, 65536, 131072])
@pytest.mark.parametrize(("tile", "resident"), [(128, 132), (192, 132), (128, 264)])
def test_walks_turn_where_turning_saves_bytes(n: int, tile: int, resident: int) -> None:
    grid = forward(max(1, 2**19 // n), n, tile=tile, resident=resident)
    chosen = traffic(grid.turned(H200), cache_bytes=H200).moved_bytes
    either = [traffic(replace(grid, turns=turns), cache_bytes=H200).moved_bytes for turns in (False, True)]
    assert chosen <= 1.02 * min(either)


def test_a_grid_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="resident of a grid is 0"):
        forward(1, 128, resident=0)


def drifting(grid: Grid, cache_bytes: float, spread: float) -> float:
    """Bytes of passing rows, counted anew, where speeds of the programs of one dense unit lie ``spread`` apart."""
    chunks, held, read = 64, OrderedDict[int, None](), 0
    rates = [1 + spread * (slot / (grid.resident - 1) - 0.5) for slot in range(grid.resident)]
    events = [(0.0, slot, 0, slot) for slot in range(grid.resident)]
    while events:
        now, slot, place, tile = heapq.heappop(events)
        read += place not in held
        held[place] = None
        held.move_to_end(place)
        if len(held) > cache_bytes / 2 / (grid.sweep_bytes / chunks):
            held.popitem(last=False)
        tile, place = (tile, place + 1) if place + 1 < chunks else (tile + grid.resident, 0)
        if tile < grid.tiles:
            heapq.heappush(events, (now + 1 / rates[slot], slot, place, tile))
    return read * grid.sweep_bytes / chunks


@pytest.mark.parametrize("waves", [4, 16])
def test_programs_lose_each_other_beyond_the_tolerated_spread_and_not_before(waves: int) -> None:
    grid = Grid(
        units=1, rows=32 * waves, passing=4096, tile=4, resident=8, read_bytes=1, written_bytes=1, passing_bytes=64
    )
    cache = grid.sweep_bytes  # half of it counts
    together = drifting(grid, cache, 0.0)
    assert (
        together
        == traffic(replace(grid, drops_reads=True, drops_writes=True), cache_bytes=cache).read_bytes - grid.rows
    )
    limit = grid.tolerated_spread(cache)
    assert drifting(grid, cache, 0.7 * limit) <= 1.1 * together
    assert drifting(grid, cache, 3 * limit) >= 1.3 * together
