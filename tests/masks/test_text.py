"""Laws of masks as people write them."""

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

laws = settings(deadline=None, derandomize=True, max_examples=20)
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
