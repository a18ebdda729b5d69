from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster import Grid, sent_words, stage_words
from attenio.cluster.partition import Sharding, positions
from attenio.cluster.words import Shares, halo_keys
from attenio.errors import InvalidInput
from attenio.workload import Direction, Workload
from cluster.messages import stage_messages
from cluster.strategies import problems

laws = settings(max_examples=20, deadline=None, derandomize=True)


@laws
@given(problems())
def test_what_ranks_send_and_receive_is_the_sum_of_their_messages(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    shares = Shares.of(workload, grid)
    for each in stage_words(workload, grid):
        sent, received = np.zeros((2, grid.devices), dtype=np.int64)
        for message in stage_messages(workload, grid, each.stage, shares):
            assert message.source != message.target and message.words > 0
            sent[message.source] += message.words
            received[message.target] += message.words
        assert each.sent.tolist() == sent.tolist()
        assert each.received.tolist() == received.tolist()


@laws
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.sampled_from([1, 2, 4]))
def test_shares_that_come_out_even_send_the_words_of_the_formula(h: int, a: int, b: int, more: int, group: int) -> None:
    d, share, kv_heads = 4, 2, h * more
    grid, heads = Grid(heads=h, queries=a, keys=b), kv_heads * group
    n = share * grid.devices
    sent = {
        direction: set(
            sent_words(Workload(n=n, d=d, heads=heads, kv_heads=kv_heads, direction=direction), grid).tolist()
        )
        for direction in Direction
    }
    rows, keys = b - Fraction(1, h), a - Fraction(1, h)
    forward = share * d * (2 * heads * rows + 2 * kv_heads * keys) + share * heads * (b - 1)
    more_rows = 2 * (b - 1) + 1 - Fraction(1, h)
    backward = share * d * (3 * heads * rows + 4 * kv_heads * keys) + share * heads * more_rows
    assert sent == {
        Direction.FORWARD: {forward},
        Direction.BACKWARD: {backward},
        # the forward pass kept Q, K, V and O of the own heads: of what backward scatters only dO is left
        Direction.TRAINING: {forward + backward - share * (1 - Fraction(1, h)) * (heads * (d + 1) + kv_heads * 2 * d)},
    }


@laws
@given(problems())
def test_under_a_window_only_keys_that_are_seen_travel(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    if "window" not in str(workload.mask):
        return
    ((pattern, _),) = workload.separate_patterns
    held = [
        [positions(length, grid.queries * grid.heads, share, Sharding.CONTIGUOUS) for share in range(grid.devices)]
        for length in (workload.queries, workload.keys)
    ]
    blocks = [
        [np.concatenate(each[row * grid.heads : (row + 1) * grid.heads]) for row in range(grid.queries)]
        for each in held
    ]
    halo = halo_keys(workload, grid, Shares.of(workload, grid))
    for target, rows in enumerate(blocks[0]):
        needed = pattern.needed_keys(int(rows[0]), int(rows[-1]) + 1) if len(rows) else np.array([], dtype=int)
        seen = [0 if source == target else len(np.intersect1d(needed, keys)) for source, keys in enumerate(blocks[1])]
        assert halo[:, target].tolist() == seen


def test_a_window_takes_one_column_of_keys() -> None:
    with pytest.raises(InvalidInput, match=r"a window is planned for contiguous tokens and one column of keys"):
        stage_words(Workload(n=64, d=4, mask="window:8"), Grid(queries=2, keys=2))
