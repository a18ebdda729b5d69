"""The KV buffer: one tile of keys, and in its place their values, between the memory and the lines of the array.

It is read in order, one element a step, so the tile that comes next can take the room of elements that were broadcast:
values arrive while the scores of their keys are computed, and the next keys while the outputs are updated.
"""

from dataclasses import dataclass

from attenio.errors import DoesNotFit


@dataclass(frozen=True, kw_only=True)
class KvBuffer:
    """Room for one tile of keys or values."""

    words: int

    def check_tile(self, keys: int, width: int) -> None:
        """Refuse a tile that does not fit."""
        if keys * width > self.words:
            rest = "a narrower head or a smaller key_tile" if keys > 1 else "or a narrower head"
            raise DoesNotFit(
                f"the KV buffer holds {self.words:,} words, and {keys:,} x {width:,} words of keys do not fit;"
                f" use a larger kv_buffer_bytes, {rest}"
            )
