"""The backward pass as the host launches it, in groups of heads that share a buffer of sums, all of it interpreted."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from interpreted_backward import interpret

from attenio.kernels import cpu
from attenio.kernels.hopper.backward.config import form_of
from attenio.kernels.hopper.backward.fixed_point import Extremes
from attenio.kernels.hopper.backward.key_stationary import sums_gradients
from attenio.kernels.hopper.backward.launch_groups import (
    _BLOCK,
    _LAUNCH,
    LANE_BYTES,
    LANES,
    SUMS_BYTES,
    Groups,
    _time,
    _time_of_lanes,
    groups_of,
)
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED, Visibility

# Sequences, KV heads, group, queries, keys, d, width, above; units of each launch, how many come together, and lanes.
CASES = {
    "some heads at a time": (2, 3, 1, 150, 130, 64, 64, UNBOUNDED, (4, 2), 1, 1),
    "in turns": (3, 2, 2, 100, 200, 64, 40, 20, (1, 5), 3, 2),
    "all at once": (1, 2, 1, 140, 300, 72, 40, 0, (2,), 2, 1),
    "in two lanes": (2, 2, 2, 70, 150, 64, 64, UNBOUNDED, (1, 2, 1), 1, 2),
    "more lanes than launches": (1, 2, 1, 70, 90, 128, 128, 0, (1, 1), 1, 3),
}


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_launches_that_share_sums_give_the_gradients_of_the_cpu(case, deterministic, monkeypatch):
    batch, kv_heads, group, queries, keys, d, width, above, sizes, together, lanes = CASES[case]
    torch.manual_seed(0)
    shapes = ((kv_heads * group, queries, d), (kv_heads, keys, d), (kv_heads, keys, width))
    q, k, v = (torch.randn(batch, *shape).to(torch.bfloat16) for shape in shapes)
    gradient = torch.randn(batch, kv_heads, group, queries, width).to(torch.bfloat16)
    seen = Visibility(group=group, above=above)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, d**-0.5)
    attended = cpu.attend(exactly)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    problem = KernelProblem.of_heads(q, k, v, seen, d**-0.5, deterministic=deterministic)
    launches = tuple(range(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes)))
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    launched, scanned = interpret(monkeypatch), []
    find = Extremes.find
    monkeypatch.setattr(Extremes, "find", lambda extremes, units: (scanned.append(units), find(extremes, units)))
    found = sums_gradients(problem, saved, Groups(launches, together, lanes))
    assert launched == [form_of(problem).kernel.__name__] * len(launches)
    # Extremes of units whose launches overlap are found before them.
    assert scanned == ([] if not deterministic else list(launches) if lanes == 1 else [range(batch * kv_heads)])
    for mine, theirs in zip(found[:3], right[:3], strict=True):
        assert (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()


steps = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(tuple)


@given(st.integers(1, 40), steps, st.integers(1, 2**20), st.integers(1, 16), st.integers(1, 2**22))
def test_every_unit_is_in_one_launch(units, steps, unit_bytes, processors, sums_bytes):
    groups = groups_of(units, tuple(8 * step for step in steps), unit_bytes, processors, sums_bytes)
    assert [unit for launch in groups.launches for unit in launch] == list(range(units))
    most_bytes = sums_bytes if groups.lanes == 1 else LANE_BYTES
    fits = groups.most * unit_bytes <= most_bytes or groups.most == 1
    assert fits or len(groups.launches) == 1
    # In fewer launches lanes would have the sums of all units at once.
    assert groups.lanes == 1 or len(groups.launches) > groups.lanes


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("tokens", [4096, 8192, 16384])
def test_lanes_are_as_small_as_fills_the_processors(d, tokens):
    """Blocks of two launches are enough for 132 processors, and those of smaller launches are not."""
    tiles = tokens // 128
    groups = groups_of(2**20 // (tokens * d // 64), (tokens * d // 2**13,) * tiles, 4 * tokens * d, 132)
    assert groups.lanes == LANES and groups.most * 4 * tokens * d <= LANE_BYTES
    assert LANES * groups.most * tiles >= 132 and (groups.most == 1 or groups.most * tiles < 132)


def test_short_heads_stay_in_one_launch():
    """Of these a launch would end as soon as it began."""
    assert len(groups_of(128, (2,), 2**16, 132).launches) == 1
    assert len(groups_of(256, (16,) * 16, 2**19, 132).launches) == 1


def test_launches_take_turns_in_lanes_and_sums_are_left_last_in_the_order_of_lanes():
    units, nothing = (range(2), range(2, 3), range(3, 5)), range(0)
    first, second, third = units
    assert Groups(units, 1).turns == ((0, first), (0, second), (0, third), (0, nothing))
    assert Groups(units, 1, 2).turns == ((0, first), (1, second), (0, third), (0, nothing), (1, nothing))
    assert Groups(units[:1], 1, 2).turns == ((0, first), (0, nothing))


@pytest.mark.parametrize(
    "tokens, group, lanes", [(8192, 1, 2), (32768, 1, 2), (65536, 1, 1), (16384, 2, 2), (16384, 4, 1)]
)
def test_dense_heads_take_two_lanes_while_a_unit_has_few_sums(tokens, group, lanes):
    units, steps = 32 * max(1, 16384 // tokens) // group, (group * tokens // 128,) * (tokens // 128)
    assert groups_of(units, steps, 4 * group * tokens * 64, 132).lanes == lanes


def test_lanes_save_the_ends_of_launches():
    """16 launches of 128 blocks for 132 processors: in one lane four of them idle, and all wait after every launch."""
    steps, launches = (128,) * 64, Groups.even(32, 16, in_turns=False).launches
    one, two = _time(Groups(launches, 1), steps, 132), _time_of_lanes(Groups(launches, 1, 2), steps, 132)
    whole = _time(Groups((range(32),), 1), steps, 132)
    assert whole <= two <= 1.001 * whole < 1.03 * whole < one


@given(st.integers(2, 40), steps, st.integers(1, 16), st.integers(1, 4))
def test_no_schedule_beats_the_work(units, steps, processors, lanes):
    groups = Groups.even(units, min(units, 5), in_turns=True, lanes=lanes)
    work = units * sum(step + _BLOCK for step in steps)
    time = _time_of_lanes(groups, steps, processors)
    assert max(work / processors, max(steps) + _BLOCK) <= time - _LAUNCH + 1e-6
    assert time <= work + _LAUNCH * len(groups.launches) + 1e-6
    if lanes == 1:
        assert time == pytest.approx(_time(groups, steps, processors))


def test_sums_of_a_launch_never_take_much_memory():
    """66 heads of 2^18 tokens under a narrow window: small launches would cost time, one would take 9 GB."""
    unit_bytes = 4 * 128 * 2**18
    groups = groups_of(66, (4,) * 2047 + (2,), unit_bytes, 132)
    assert SUMS_BYTES < groups.most * unit_bytes <= 2**30
    # Of a head with a gigabyte of sums there are not two at a time.
    assert groups_of(4, (2**13,) * 2**12, 2**30, 132).lanes == 1


def test_the_longest_blocks_of_causal_heads_come_first():
    falling = tuple(range(128, 0, -2))
    groups = groups_of(16, falling, 4 * 2**20, 132)
    assert groups.together > 1 and groups.lanes == 1
    work = 16 * sum(falling) / 132
    assert _time(groups, falling, 132) < 1.05 * work < _time(Groups((range(16),), 1), falling, 132)


def test_the_longest_blocks_come_first_even_of_units_whose_sums_leave_the_cache():
    """Causal heads of 8K tokens, four of which share keys: unit after unit the last long block would begin late."""
    falling, unit_bytes = tuple(range(512, 0, -8)), 16 * 2**20
    few = groups_of(8, falling, unit_bytes, 132)
    one_by_one, all_at_once = (Groups((range(8),), together) for together in (1, 8))
    assert 1.2 * _time(few, falling, 132) < _time(one_by_one, falling, 132)
    # As few come together as save that time, because all that do move their sums.
    assert few.together == 2 and _time(few, falling, 132) < 1.01 * _time(all_at_once, falling, 132)
    # Of many units the last one is a small part, and its sums stay.
    assert groups_of(32, falling, unit_bytes, 132).together == 1
