"""Which scores are required: masks as values (``values``) and as people write them (``text``), sparse layouts by name
(``layouts``), and where the required scores of a problem lie, with what tiles of them cost (``patterns``).

>>> mask_from_text("window:4096")
SlidingWindow(width=4096, causal=True)
>>> mask_from_text("documents:100,28")
Documents(lengths=(100, 28), key_lengths=(100, 28), causal=True)
>>> mask_from_text("strided:2K")
Strided(block=64, stride=2048)
"""

from attenio.masks.layouts import BigBird, Dilated, Fixed, Layout, Longformer, Strided, layout_from_text
from attenio.masks.text import EXAMPLES, mask_from_text
from attenio.masks.values import (
    BandMask,
    BlockSparse,
    Causal,
    Dense,
    Documents,
    Mask,
    SharedPrefix,
    SlidingWindow,
    check_mask,
)

__all__ = [
    "EXAMPLES",
    "BandMask",
    "BigBird",
    "BlockSparse",
    "Causal",
    "Dense",
    "Dilated",
    "Documents",
    "Fixed",
    "Layout",
    "Longformer",
    "Mask",
    "SharedPrefix",
    "SlidingWindow",
    "Strided",
    "check_mask",
    "layout_from_text",
    "mask_from_text",
]
