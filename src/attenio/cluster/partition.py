"""Which tokens of a sequence each device holds, and why the work comes out balanced.

Contiguous shares suit a mask without an order (dense), and windows, whose keys are then neighbours. Under a causal
mask late queries see more keys; zigzag shares pair an early chunk with a late one: of 2P chunks, share p has chunk p
and chunk 2P-1-p. The queries of any share then see half of the keys of any other, up to the rounding of lengths, so
that whichever rows and columns a device has, it works as long as every other. Striped shares (token t goes to share
t mod P) come as close and cut tokens finer.

Sizes of shares differ by one token at most.

>>> [positions(10, 3, share, Sharding.ZIGZAG).tolist() for share in range(3)]
[[0, 1, 9], [2, 3, 8], [4, 5, 6, 7]]
>>> share_sizes(10, 3, Sharding.ZIGZAG).tolist(), share_sizes(10, 3, Sharding.CONTIGUOUS).tolist()
([3, 3, 4], [4, 3, 3])
"""

from enum import Enum
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, Mask, SlidingWindow
from attenio.names import member_named

Sizes = NDArray[np.int64]


class Sharding(Enum):
    """Which tokens are together on a device."""

    CONTIGUOUS = "contiguous"
    ZIGZAG = "zigzag"
    STRIPED = "striped"

    @classmethod
    def named(cls, name: "str | Sharding") -> "Sharding":
        """The sharding with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "sharding")


def sharding_for(mask: Mask) -> Sharding:
    """The sharding that balances the work of a mask."""
    match mask:
        case Dense() | SlidingWindow():
            return Sharding.CONTIGUOUS
        case Causal():
            return Sharding.ZIGZAG
        case _:
            raise InvalidInput(
                f"many devices are planned for dense, causal and window masks, and this is {mask}; use one of these"
            )


def share_sizes(length: int, shares: int, sharding: Sharding) -> Sizes:
    """Tokens of every share."""
    match sharding:
        case Sharding.CONTIGUOUS | Sharding.STRIPED:
            return even_sizes(length, shares)
        case Sharding.ZIGZAG:
            chunks = even_sizes(length, 2 * shares)
            return chunks[:shares] + chunks[: shares - 1 : -1]
        case _:
            assert_never(sharding)


def positions(length: int, shares: int, share: int, sharding: Sharding) -> NDArray[np.int64]:
    """The positions of the tokens of one share, ascending."""
    match sharding:
        case Sharding.CONTIGUOUS:
            start, stop = _interval(length, shares, share)
            return np.arange(start, stop, dtype=np.int64)
        case Sharding.ZIGZAG:
            early, late = _interval(length, 2 * shares, share), _interval(length, 2 * shares, 2 * shares - 1 - share)
            return np.concatenate([np.arange(*early, dtype=np.int64), np.arange(*late, dtype=np.int64)])
        case Sharding.STRIPED:
            return np.arange(share, length, shares, dtype=np.int64)
        case _:
            assert_never(sharding)


def even_sizes(length: int, pieces: int) -> Sizes:
    """Sizes of pieces that differ by one at most, the larger ones first."""
    sizes = np.full(pieces, length // pieces, dtype=np.int64)
    sizes[: length % pieces] += 1
    return sizes


def _interval(length: int, pieces: int, piece: int) -> tuple[int, int]:
    """Where a piece of ``even_sizes`` starts and stops."""
    whole, more = divmod(length, pieces)
    start = piece * whole + min(piece, more)
    return start, start + whole + (piece < more)
