"""One random call as a value: printed, it is the line that makes the same call again."""

from dataclasses import dataclass, fields
from enum import Enum


class _Named(Enum):
    """Members that print as they are written, so that a case can be copied from what was printed."""

    def __repr__(self) -> str:
        return repr(self.value)


class Layout(_Named):
    """How the elements of a tensor (batch, heads, tokens, width) lie in memory."""

    PLAIN = "plain"
    TOKENS_FIRST = "tokens-first"
    PACKED = "packed"
    PADDED = "padded"
    OFFSET = "offset"
    COLUMNS = "columns"
    EXPANDED = "expanded"


class MaskKind(_Named):
    """What ``attn_mask`` is."""

    NONE = "none"
    BOOLEAN = "boolean"
    FLOAT = "float"
    SINGLE = "single"


class Packing(_Named):
    """How packed sequences are given."""

    NONE = "none"
    LENGTHS = "lengths"
    IDS = "ids"


class Mode(_Named):
    """What surrounds the call."""

    GRADIENTS = "gradients"
    PLAIN = "plain"
    NO_GRAD = "no-grad"
    INFERENCE = "inference"
    AUTOCAST = "autocast"
    AUTOCAST_INFERENCE = "autocast-inference"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything about a call; the defaults are the simplest one. Enums may be given by their values.

    ``times`` repeats the call with other numbers in the same form, so that what is remembered of it is used.
    ``spread`` is about how large scores are. ``mask_sizes`` are those dimensions of ``attn_mask`` that are not 1.
    ``default_dtype`` and ``meta`` set PyTorch's default type and device around the call, which must not matter;
    ``threads`` is PyTorch's number of them, 0 for what it is.
    """

    seed: int = 0
    dtype: str = "float32"
    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    queries: int = 1
    keys: int = 1
    d: int = 8
    width: int = 8
    dims: int = 4
    layouts: tuple[Layout | str, ...] = (Layout.PLAIN,) * 4
    same: bool = False
    enable_gqa: bool = False
    is_causal: bool = False
    window: int | tuple[int, int] | None = None
    packing: Packing | str = Packing.NONE
    blocks: tuple[int, int] | None = None
    prefix: int = 0
    mask: MaskKind | str = MaskKind.NONE
    mask_sizes: str = "qk"
    scale: float | None = None
    softcap: float | None = None
    sinks: bool = False
    spread: float = 1.0
    mode: Mode | str = Mode.PLAIN
    wanted: str = "qkv"
    made_inside: bool = False
    deterministic: bool = False
    default_dtype: str = "float32"
    meta: bool = False
    threads: int = 0
    times: int = 1
    stream: bool = False
    graph: bool = False

    def __post_init__(self) -> None:
        given = {
            "layouts": tuple(Layout(each) for each in self.layouts),
            "packing": Packing(self.packing),
            "mask": MaskKind(self.mask),
            "mode": Mode(self.mode),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """Only what differs from the simplest call."""
        said = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Case({', '.join(said)})"
