"""Laws of sparse layouts: which blocks each rule requires, against its own words token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.masks import BlockSparse, mask_from_text
from attenio.masks.layouts import EXAMPLES, BigBird, Dilated, Fixed, Layout, Longformer, Strided, layout_from_text
from attenio.planning import SweepGrid, best_plan_for, sweep
from attenio.workload import Workload

laws = settings(max_examples=20, deadline=None, derandomize=True)
blocks = st.integers(1, 9)
lengths = st.integers(1, 60)

layouts = st.one_of(
    st.builds(Longformer, block=blocks, window=lengths, global_tokens=st.integers(0, 60)),
    st.builds(
        BigBird,
        block=blocks,
        window=lengths,
        global_tokens=st.integers(0, 60),
        random_blocks=st.integers(0, 3),
        seed=st.integers(0, 3),
    ),
    st.builds(Strided, block=blocks, stride=lengths),
    st.builds(lambda block, stride, part: Fixed(block=block, stride=stride, summary=-(-stride // part)),
              blocks, lengths, st.integers(1, 9)),
    st.builds(Dilated, block=blocks, window=lengths, dilation=st.integers(1, 4)),
)  # fmt: skip


@laws
@given(layout=layouts)
def test_what_a_layout_prints_can_be_read_back(layout: Layout) -> None:
    assert layout_from_text(str(layout)) == layout
    assert mask_from_text(f" {str(layout).upper()}") == layout


@laws
@given(layout=layouts, keys=st.integers(1, 90), part=st.floats(0.01, 1))
def test_queries_need_what_the_last_positions_need(layout: Layout, keys: int, part: float) -> None:
    queries = max(1, round(keys * part))
    if layout.refusal(queries=queries, keys=keys) is not None:
        with pytest.raises(InvalidInput):
            layout.required(queries=queries, keys=keys)
        return
    everything = np.repeat(layout.required(queries=keys, keys=keys), layout.block, axis=0)[keys - queries : keys]
    expected = [
        everything[start : start + layout.block].any(axis=0).tolist() for start in range(0, queries, layout.block)
    ]
    assert layout.required(queries=queries, keys=keys).tolist() == expected


@laws
@given(block=blocks, window=lengths, tokens=st.integers(0, 60), more=st.integers(0, 60))
def test_longformer_requires_just_the_blocks_that_hold_a_required_score(
    block: int, window: int, tokens: int, more: int
) -> None:
    layout, n = Longformer(block=block, window=window, global_tokens=tokens), max(window, tokens) + more
    position = np.arange(n)
    required = np.abs(position[:, None] - position) <= window // 2
    required |= (position[:, None] < tokens) | (position < tokens)
    # The last block may be too short for its score to exist, so only what a rule says of whole blocks is compared.
    whole = n // block
    cells = required[: whole * block, : whole * block].reshape(whole, block, whole, block).any(axis=(1, 3))
    assert (layout.required(queries=n, keys=n)[:whole, :whole] == cells).all()


def test_bigbird_with_blocks_of_64_is_the_one_of_the_paper() -> None:
    found = BigBird(window=192, global_tokens=128, random_blocks=3).required(queries=4096, keys=4096)
    row = np.arange(64)
    regular = (np.abs(row[:, None] - row) <= 1) | (row[:, None] < 2) | (row < 2)
    assert (found >= regular).all()
    assert (found & ~regular).sum(axis=1).tolist() == [0, 0] + [3] * 62


def test_the_random_blocks_of_bigbird_depend_on_the_seed_alone() -> None:
    one, same, other = (
        BigBird(window=64, global_tokens=0, random_blocks=2, seed=seed).required(queries=2048, keys=2048)
        for seed in (1, 1, 2)
    )
    assert (one == same).all()
    assert (one != other).any()


@pytest.mark.parametrize("drawn", [0, 1, 3, 20, 33])
def test_the_random_blocks_of_bigbird_are_the_first_of_each_row_by_rank(drawn: int) -> None:
    found = BigBird(window=192, global_tokens=64, random_blocks=drawn, seed=5).required(queries=2112, keys=2112)
    regular = BigBird(window=192, global_tokens=64, random_blocks=0).required(queries=2112, keys=2112)
    for row, (required, ranks) in enumerate(zip(regular, np.random.default_rng(5).random((33, 33)), strict=True)):
        others = sorted(np.flatnonzero(~required), key=lambda column: ranks[column])
        assert set(np.flatnonzero(found[row])) == {*np.flatnonzero(required), *others[:drawn]}


def test_strided_and_fixed_follow_the_sparse_transformer() -> None:
    strided = Strided(block=1, stride=3).required(queries=9, keys=9)
    fixed = Fixed(block=1, stride=3, summary=1).required(queries=9, keys=9)
    assert np.flatnonzero(strided[8]).tolist() == [2, 5, 6, 7, 8]
    assert np.flatnonzero(fixed[7]).tolist() == [2, 5, 6, 7]
    assert not np.triu(strided, 1).any()
    assert not np.triu(fixed, 1).any()


def test_a_dilated_window_skips_blocks_and_one_without_gaps_skips_none() -> None:
    found = Dilated(block=1, window=5, dilation=2).required(queries=12, keys=12)
    assert np.flatnonzero(found[6]).tolist() == [2, 4, 6, 8, 10]
    plain = Dilated(block=1, window=5, dilation=1).required(queries=12, keys=12)
    assert (plain == Longformer(block=1, window=5).required(queries=12, keys=12)).all()


@laws
@given(layout=layouts, d=st.integers(1, 4))
def test_a_workload_with_a_layout_is_that_with_its_blocks(layout: Layout, d: int) -> None:
    n = 97
    if layout.refusal(queries=n, keys=n) is not None:
        return
    workload = Workload(n=n, d=d, mask=layout)
    same = Workload(n=n, d=d, mask=BlockSparse.laid_out(layout, queries=n, keys=n))
    assert workload == Workload(n=n, d=d, mask=str(layout))
    assert (workload.scores, workload.compulsory_words) == (same.scores, same.compulsory_words)
    assert best_plan_for(workload, 60).moved_words == best_plan_for(same, 60).moved_words


@pytest.mark.parametrize(
    ("text", "n", "words"),
    [
        ("longformer:512:64", 256, "window 512 of longformer:512:64 is wider than the 256 keys; use up to 256"),
        ("longformer:0:64", 256, "window is 0; it must be at least 1"),
        ("longformer:64:64:0", 256, "block is 0; it must be at least 1"),
        ("bigbird:64:64:9", 256, "length of random blocks 576 of bigbird:64:64:9 is wider than the 256 keys"),
        ("strided:512", 256, "stride 512 of strided:512 is wider"),
        ("fixed:64:128", 256, "summary 128 is longer than the stride 64; use a shorter one"),
        ("dilated:128:4", 256, "dilated window 512 of dilated:128:4 is wider"),
        ("dilated:128:x", 256, "dilation is 'x'; write a whole number"),
        ("longformer:512:64", 2**20, "16,384 blocks and at most 4,096 are counted; use a block of at least 256"),
        ("longformer:512", 1024, "mask 'longformer:512' is not known; did you mean longformer:512:64? use dense"),
        ("strided:512:64:64", 1024, "mask 'strided:512:64:64' is not known; did you mean strided:2048? use dense"),
    ],
)  # fmt: skip
def test_a_layout_that_cannot_be_laid_out_is_refused_in_one_line(text: str, n: int, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Workload(n=n, d=4, mask=text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_more_queries_than_keys_have_no_positions() -> None:
    with pytest.raises(InvalidInput, match="9 queries exceed the 8 keys"):
        Workload(queries=9, keys=8, d=1, mask=Strided(block=2, stride=4))


def test_every_example_is_written_as_the_layout_it_names() -> None:
    assert [str(layout_from_text(text)) for text in EXAMPLES.values()] == list(EXAMPLES.values())


def test_a_sweep_lays_a_layout_out_for_every_length() -> None:
    grid = SweepGrid(n=[256, 512], d=[4], masks=["strided:128"], fast_bytes=[512])
    expected = [best_plan_for(Workload(n=n, d=4, mask="strided:128"), 256).moved_words for n in (256, 512)]
    assert [row["moved_words"] for row in sweep(grid).rows()] == expected
