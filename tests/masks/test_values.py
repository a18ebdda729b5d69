"""Laws of masks as values."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.masks import (
    BlockSparse,
    Causal,
    Dense,
    Documents,
    Mask,
    SharedPrefix,
    SlidingWindow,
    mask_from_text,
)

laws = settings(deadline=None, derandomize=True, max_examples=60)
sizes = st.integers(1, 10**6)
spelled = st.one_of(
    st.just(Dense()),
    st.just(Causal()),
    st.builds(SlidingWindow, width=sizes, causal=st.booleans()),
    st.builds(SharedPrefix, length=sizes, causal=st.booleans()),
    st.builds(Documents, lengths=st.lists(sizes, min_size=1, max_size=8).map(tuple), causal=st.booleans()),
)


@laws
@given(spelled)
def test_what_a_mask_prints_can_be_read_back(mask: Mask) -> None:
    assert mask_from_text(str(mask)) == mask
    assert mask_from_text(f"  {str(mask).replace('window', 'Window')} ") == mask
    assert hash(mask_from_text(str(mask))) == hash(mask)


def test_sizes_in_masks_take_multiples() -> None:
    assert mask_from_text("window:4K") == SlidingWindow(width=4096)
    assert mask_from_text("documents:1K,512") == Documents(lengths=(1024, 512))


@pytest.mark.parametrize(
    "text",
    ["", "causall", "window", "window:", "window:0", "window:-3", "window:nan", "window:4:left", "documents:",
     "documents:5,", "documents:5,0", "prefix:8:9", "dense:3", "block-sparse"],
)  # fmt: skip
def test_a_mask_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        mask_from_text(text)


@laws
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_layout_is_the_same_as_booleans_numbers_or_additive_values(rows: list[list[bool]]) -> None:
    layout = np.array(rows)
    mask = BlockSparse.from_array(layout, query_block=16)
    assert mask == BlockSparse.from_array(layout.astype(int), query_block=16)
    if not layout.all():  # all zeros would read as 0/1 values that drop everything
        assert mask == BlockSparse.from_array(np.where(layout, 0.0, -np.inf), query_block=16)
    np.testing.assert_array_equal(mask.array, layout)
    assert mask.key_block == 16


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.5])
def test_a_layout_with_a_value_that_is_no_mask_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput):
        BlockSparse.from_array(np.array([[0.0, -np.inf], [bad, 0.0]]))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4,), (2, 2, 2)])
def test_a_layout_that_is_no_table_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="shape"):
        BlockSparse.from_array(np.zeros(shape, dtype=bool))


def test_rows_of_a_layout_are_equally_long() -> None:
    with pytest.raises(InvalidInput, match="rows of 1 to 2 blocks"):
        BlockSparse(layout=((True,), (True, False)))


def test_a_layout_is_read_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "layout.npy", np.eye(3, dtype=bool))
    mask = mask_from_text(f"block-sparse:{tmp_path / 'layout.npy'}:32")
    assert isinstance(mask, BlockSparse)
    assert (mask.query_block, mask.array.sum()) == (32, 3)


def test_a_layout_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.npy' does not exist"):
        mask_from_text(f"block-sparse:{tmp_path / 'none.npy'}")
    (tmp_path / "broken.npy").write_text("not an array")
    with pytest.raises(InvalidInput, match=r"broken\.npy' is not a NumPy array file"):
        mask_from_text(f"block-sparse:{tmp_path / 'broken.npy'}")


def test_documents_have_as_many_key_lengths_as_query_lengths() -> None:
    with pytest.raises(InvalidInput, match="2 query lengths and 1 key lengths"):
        Documents(lengths=(3, 4), key_lengths=(5,))
    with pytest.raises(InvalidInput, match="no document"):
        Documents(lengths=())
