"""First rows: no rows and keys of a device are fewer than its own tokens ask for, and no placement sends less."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.bounds.causal_heads import CausalHeads
from attenio.cluster.bounds.first_rows import first_row_words, token_words
from attenio.cluster.bounds.own_positions import position_words
from cluster.bounds.test_causal_heads import subsets
from cluster.bounds.test_own_rows import Placement


@pytest.mark.parametrize(("tokens", "devices", "row", "key"), [(8, 4, 3, 1), (8, 2, 2, 1), (9, 3, 1, 1), (9, 3, 6, 2)])
def test_no_device_has_its_pairs_for_fewer_words_than_its_own_tokens_ask_for(
    tokens: int, devices: int, row: int, key: int
) -> None:
    head = CausalHeads(tokens=tokens, devices=devices, heads=1, group=1, row_words=row, key_words=key)
    t, every, closest = head.share, subsets(tokens), np.inf
    asked = {pairs: token_words(head, float(pairs)) for pairs in range(1, tokens * (tokens + 1) // 2 + 1)}
    of_token = {pairs: each[np.arange(1, tokens + 1) * len(each) // tokens - 1] for pairs, each in asked.items()}
    for own in combinations(range(tokens), t):
        sets = every[every[:, own].all(axis=1)].astype(np.int64)
        pairs = sets @ np.tri(tokens, dtype=np.int64) @ sets.T
        beyond = sets.sum(axis=1) - t
        words = row * beyond[:, None] + key * beyond
        for each, asked_for in of_token.items():
            if (pairs >= each).any():
                closest = min(closest, float(words[pairs >= each].min() - asked_for[list(own)].mean()))
    assert 0 <= closest < 2


@settings(max_examples=14, deadline=None, derandomize=True)
@given(
    st.sampled_from([(2, 1), (4, 1), (4, 4), (4, 8), (8, 2)]), st.integers(0, 2**31), st.sampled_from([(2, 2), (3, 4)])
)
def test_no_placement_exchanges_less_for_its_balance(shape: tuple[int, int], seed: int, words: tuple[int, int]) -> None:
    (devices, group), random = shape, np.random.default_rng(seed)
    tokens = 8 * devices
    placed = Placement(tokens, devices, group)
    placed.owner = random.permutation(placed.owner) if seed % 2 else placed.owner
    head = CausalHeads(tokens=tokens, devices=devices, heads=1, group=group, row_words=words[0], key_words=words[1])
    for _ in range(12):
        assert first_row_words(head, placed.imbalance) <= placed.words(*words)
        one, start = int(random.integers(group)), int(random.integers(tokens))
        placed.to_the_idlest(one, slice(start, start + tokens // 4), slice(int(random.integers(1, tokens))))


def test_first_rows_ask_for_more_where_many_query_heads_share_keys_and_for_less_where_work_is_uneven() -> None:
    for devices in (16, 32, 64, 128):
        head = CausalHeads(tokens=2**20, devices=devices, heads=1, group=16, row_words=384, key_words=512)
        even = first_row_words(head)
        assert position_words(head) < even < 1.05 * position_words(head)
        assert 0.995 * even < first_row_words(head, 1.0005) < even


def test_one_device_several_heads_and_pairs_that_are_dearer_than_a_word_prove_nothing() -> None:
    some = {"tokens": 64, "group": 4, "key_words": 4}
    alone = CausalHeads(devices=1, heads=1, row_words=4, **some)
    several = CausalHeads(devices=4, heads=2, row_words=4, **some)
    short = CausalHeads(devices=4, heads=1, row_words=17, **some)
    assert [first_row_words(each) for each in (alone, several, short)] == [0, 0, 0]
