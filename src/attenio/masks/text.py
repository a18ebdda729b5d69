"""Masks as people write them.

>>> mask_from_text("window:4096")
SlidingWindow(width=4096, causal=True)
>>> mask_from_text("documents:100,28:full")
Documents(lengths=(100, 28), key_lengths=(100, 28), causal=False)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.masks.layouts import EXAMPLES as LAYOUT_EXAMPLES
from attenio.masks.layouts import layout_from_text
from attenio.masks.values import BlockSparse, Causal, Dense, Documents, Mask, SharedPrefix, SlidingWindow
from attenio.names import closest
from attenio.quantities import parse_count

# One of each kind as people write it.
EXAMPLES = {
    "dense": "dense",
    "causal": "causal",
    "window": "window:4096",
    "documents": "documents:1024,512",
    "prefix": "prefix:8K",
    "block-sparse": "block-sparse:layout.npy:64",
    **LAYOUT_EXAMPLES,
}


def mask_from_text(text: str) -> Mask:
    """The mask people mean by ``dense``, ``causal``, ``window:4096``, ``documents:1024,512``, ``prefix:8K`` or
    ``block-sparse:layout.npy:64``; ``:both`` opens a window to both sides, ``:full`` drops causality inside. Layouts
    have names of their own, such as ``longformer:512:64`` (see ``attenio.masks.layouts``)."""
    layout = layout_from_text(text)
    if layout is not None:
        return layout
    kind, _, rest = text.strip().partition(":")
    parts = rest.split(":") if rest else []
    match kind.lower(), parts:
        case "dense" | "none" | "full", []:
            return Dense()
        case "causal", []:
            return Causal()
        case "window" | "sliding-window", [width]:
            return SlidingWindow(width=parse_count(width, "window"))
        case "window" | "sliding-window", [width, "both"]:
            return SlidingWindow(width=parse_count(width, "window"), causal=False)
        case "documents" | "segments" | "varlen", [lengths, *option] if option in ([], ["full"]):
            sizes = tuple(parse_count(part, "document length") for part in lengths.split(","))
            return Documents(lengths=sizes, causal=not option)
        case "prefix" | "shared-prefix", [length, *option] if option in ([], ["full"]):
            return SharedPrefix(length=parse_count(length, "prefix"), causal=not option)
        case "block-sparse", [path, *option] if len(option) <= 1:
            block = parse_count(option[0], "block") if option else 64
            return BlockSparse.from_array(_layout_file(path), query_block=block)
    near, (*examples, last) = closest(kind, EXAMPLES), EXAMPLES.values()
    hint = f"did you mean {EXAMPLES[near]}? " if near else ""
    raise InvalidInput(f"mask {text!r} is not known; {hint}use {', '.join(examples)} or {last}")


def _layout_file(path: str) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except FileNotFoundError:
        raise InvalidInput(f"layout file {path!r} does not exist; save one with numpy.save") from None
    except OSError as problem:
        reason = problem.strerror or "it ends early"
        raise InvalidInput(f"layout file {path!r} cannot be read ({reason}); save one with numpy.save") from None
    except (ValueError, EOFError):
        # NumPy's own words offer to load it unsafely, which nobody should.
        raise InvalidInput(f"layout file {path!r} is not a NumPy array file; save one with numpy.save") from None
