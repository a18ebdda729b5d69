import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.partition import Sharding, positions, sharding_for, share_sizes
from attenio.errors import InvalidInput
from attenio.masks import mask_from_text

laws = settings(max_examples=20, deadline=None, derandomize=True)


@laws
@given(st.integers(0, 200), st.integers(1, 30), st.sampled_from(Sharding))
def test_every_token_is_in_one_share_and_shares_differ_by_a_token_at_most(
    length: int, shares: int, sharding: Sharding
) -> None:
    held = [positions(length, shares, share, sharding) for share in range(shares)]
    assert sorted(np.concatenate(held).tolist()) == list(range(length))
    assert all((np.diff(each) > 0).all() for each in held)
    sizes = share_sizes(length, shares, sharding)
    assert sizes.tolist() == [len(each) for each in held]
    assert sizes.max() - sizes.min() <= 1


@laws
@given(st.integers(1, 6), st.integers(1, 12))
def test_causal_work_is_the_same_for_any_two_zigzag_shares(chunk: int, shares: int) -> None:
    length = 2 * shares * chunk
    held = [positions(length, shares, share, Sharding.ZIGZAG) for share in range(shares)]
    pairs = {
        (int(p == q), int((rows[:, None] > keys).sum())) for p, rows in enumerate(held) for q, keys in enumerate(held)
    }
    # pairs of different tokens: half of them for two shares, and the same less half of the diagonal within one
    assert pairs <= {(0, 2 * chunk * chunk), (1, 2 * chunk * chunk - chunk)}


@pytest.mark.parametrize("sharding", [Sharding.ZIGZAG, Sharding.STRIPED])
@laws
@given(length=st.integers(1, 150), shares=st.integers(1, 10))
def test_ragged_causal_work_is_off_by_a_few_rows_of_a_share_at_most(
    sharding: Sharding, length: int, shares: int
) -> None:
    held = [positions(length, shares, share, sharding) for share in range(shares)]
    work = [int((rows[:, None] >= keys).sum()) for rows in held for keys in held]
    assert max(work) - min(work) <= 3 * (length // shares + 1)


def test_a_mask_says_which_tokens_are_together_and_others_are_refused() -> None:
    assert sharding_for(mask_from_text("dense")) is Sharding.CONTIGUOUS
    assert sharding_for(mask_from_text("window:4")) is Sharding.CONTIGUOUS
    assert sharding_for(mask_from_text("causal")) is Sharding.ZIGZAG
    with pytest.raises(InvalidInput, match="planned for dense, causal and window masks, and this is documents:4,4"):
        sharding_for(mask_from_text("documents:4,4"))
