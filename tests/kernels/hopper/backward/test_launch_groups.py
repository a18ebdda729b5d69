"""Cuts of a backward pass into launches whose accumulators stay in L2, tried on paper."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.kernels.hopper.backward.launch_groups import (
    _BLOCK,
    _LAUNCH,
    ACCUMULATOR_BYTES,
    STREAM_BYTES,
    STREAMS,
    LaunchGroups,
    _span,
    _time,
    _time_of_streams,
    busy_time,
    heads_in_turns,
    launch_groups,
)

steps = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(tuple)


@given(st.integers(1, 40), steps, st.integers(1, 2**20), st.integers(1, 16), st.integers(1, 2**22))
def test_every_head_is_in_one_launch(heads, steps, head_bytes, processors, accumulator_bytes):
    groups = launch_groups(heads, tuple(8 * step for step in steps), head_bytes, processors, accumulator_bytes)
    assert [head for launch in groups.launches for head in launch] == list(range(heads))
    most_bytes = accumulator_bytes if groups.streams == 1 else STREAM_BYTES
    fits = groups.most * head_bytes <= most_bytes or groups.most == 1
    assert fits or len(groups.launches) == 1
    # In fewer launches streams would have the accumulators of all heads at once.
    assert groups.streams == 1 or len(groups.launches) > groups.streams


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("tokens", [4096, 8192, 16384])
def test_launches_on_two_streams_are_as_small_as_fills_the_processors(d, tokens):
    """Blocks of two launches are enough for 132 processors, and those of smaller launches are not."""
    tiles = tokens // 128
    groups = launch_groups(2**20 // (tokens * d // 64), (tokens * d // 2**13,) * tiles, 4 * tokens * d, 132)
    assert groups.streams == STREAMS and groups.most * 4 * tokens * d <= STREAM_BYTES
    assert STREAMS * groups.most * tiles >= 132 and (groups.most == 1 or groups.most * tiles < 132)


def test_short_heads_stay_in_one_launch():
    """Of these a launch would end as soon as it began."""
    assert len(launch_groups(128, (2,), 2**16, 132).launches) == 1
    assert len(launch_groups(256, (16,) * 16, 2**19, 132).launches) == 1


def test_launches_alternate_between_streams_and_what_is_left_is_converted_last():
    heads, nothing = (range(2), range(2, 3), range(3, 5)), range(0)
    first, second, third = heads
    assert LaunchGroups(heads, 1).turns == ((0, first), (0, second), (0, third), (0, nothing))
    assert LaunchGroups(heads, 1, 2).turns == ((0, first), (1, second), (0, third), (0, nothing), (1, nothing))
    assert LaunchGroups(heads[:1], 1, 2).turns == ((0, first), (0, nothing))


@pytest.mark.parametrize(
    "tokens, group, streams",
    [(8192, 1, 2), (32768, 1, 2), (65536, 1, 2), (262144, 1, 1), (16384, 2, 2), (16384, 4, 2), (16384, 16, 1)],
)
def test_dense_heads_take_two_streams_while_accumulators_of_a_head_are_small(tokens, group, streams):
    heads, steps = 32 * max(1, 16384 // tokens) // group, (group * tokens // 128,) * (tokens // 128)
    assert launch_groups(heads, steps, 4 * group * tokens * 64, 132).streams == streams


def test_a_second_stream_saves_the_ends_of_launches():
    """16 launches of 128 blocks for 132 processors: in one stream four of them idle, and all wait after every
    launch."""
    steps, launches = (128,) * 64, LaunchGroups.even(32, 16, in_turns=False).launches
    one, two = _time(LaunchGroups(launches, 1), steps, 132), _time_of_streams(LaunchGroups(launches, 1, 2), steps, 132)
    whole = _time(LaunchGroups((range(32),), 1), steps, 132)
    assert whole <= two <= 1.001 * whole < 1.03 * whole < one


@given(st.integers(2, 40), steps, st.integers(1, 16), st.integers(1, 4))
def test_no_schedule_beats_the_work(heads, steps, processors, streams):
    groups = LaunchGroups.even(heads, min(heads, 5), in_turns=True, streams=streams)
    work = heads * sum(step + _BLOCK for step in steps)
    time = _time_of_streams(groups, steps, processors)
    assert max(work / processors, max(steps) + _BLOCK) <= time - _LAUNCH + 1e-6
    assert time <= work + _LAUNCH * len(groups.launches) + 1e-6
    if streams == 1:
        assert time == pytest.approx(_time(groups, steps, processors))


def test_accumulators_of_a_launch_never_take_much_memory():
    """66 heads of 2^18 tokens under a narrow window: small launches would cost time, one would take 9 GB."""
    head_bytes = 4 * 128 * 2**18
    groups = launch_groups(66, (4,) * 2047 + (2,), head_bytes, 132)
    assert ACCUMULATOR_BYTES < groups.most * head_bytes <= 2**30
    # Of a head with a gigabyte of accumulators there are not two at a time.
    assert launch_groups(4, (2**13,) * 2**12, 2**30, 132).streams == 1


def test_the_longest_blocks_of_causal_heads_come_first():
    falling = tuple(range(128, 0, -2))
    groups = launch_groups(16, falling, 4 * 2**20, 132)
    assert groups.together > 1 and groups.streams == 1
    work = 16 * sum(falling) / 132
    assert _time(groups, falling, 132) < 1.05 * work < _time(LaunchGroups((range(16),), 1), falling, 132)


def test_the_longest_blocks_come_first_even_of_heads_whose_accumulators_leave_the_cache():
    """Causal heads of 8K tokens, four of which share keys: one after the other the last long block would begin late."""
    falling, head_bytes = tuple(range(512, 0, -8)), 16 * 2**20
    few = launch_groups(8, falling, head_bytes, 132)
    one_by_one, all_at_once = (LaunchGroups((range(8),), together) for together in (1, 8))
    assert 1.2 * _time(few, falling, 132) < _time(one_by_one, falling, 132)
    # As few come together as save that time, because all that do move their accumulators.
    assert few.together == 2 and _time(few, falling, 132) < 1.01 * _time(all_at_once, falling, 132)
    # Of many heads the last one is a small part, and its accumulators stay.
    assert launch_groups(32, falling, head_bytes, 132).together == 1


@given(st.integers(1, 60), steps, st.integers(1, 16))
def test_heads_in_turns_leave_no_processor_waiting_that_all_heads_in_turns_would_not(heads, steps, processors):
    together = heads_in_turns(heads, steps, processors)
    assert 1 <= together <= heads
    most = _span(heads, heads, steps, processors) + 0.015 * busy_time(heads, steps, processors)
    assert len(set(steps)) == 1 or _span(heads, together, steps, processors) <= most + max(steps) + _BLOCK


def test_causal_heads_of_1k_tokens_come_a_few_at_a_time():
    """Rows of 176 heads of 192 columns are twice an L2."""
    assert heads_in_turns(176, tuple(range(16, 0, -1)), 132) < 30
    assert heads_in_turns(176, (16,) * 16, 132) == 1
