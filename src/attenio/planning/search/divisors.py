"""Divisors, and the tile that leaves the least remainder of a number of rows.

A tile a leaves r of n rows if it divides n - r. So instead of dividing n by every tile, small remainders are tried in
turn: n - r is taken apart into primes, and its divisors say whether a tile in question leaves r. About every second
number has a divisor in a range from x to 2x, whatever x, so that few remainders are tried unless the range is narrow;
then its tiles are few, or their quotients.
"""

from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Up to this many tiles, or quotients, dividing by each is as fast as taking one number apart.
_SHORT = 1024
# After so many remainders in vain, dividing by each is tried after all.
_TRIES = 24


def divisors(number: int, most: int) -> Ints:
    """Every divisor of a positive number up to ``most``, in no particular order."""
    products = np.ones(1, dtype=np.int64)
    largest = min(isqrt(number), most)
    primes = _primes(largest.bit_length())
    primes = primes[: np.searchsorted(primes, largest, side="right")]
    for prime in primes[number % primes == 0].tolist():
        powers = [1]
        while number % prime == 0:
            number //= prime
            powers.append(powers[-1] * prime)
        products = np.outer(products, powers).ravel()
    # What remains is a prime, or a product of primes that are all larger than any divisor asked for.
    if 1 < number <= most:
        products = np.concatenate((products, number * products))
    return products[products <= most]


@lru_cache(maxsize=64)
def _primes(bits: int) -> Ints:
    """All primes with so many bits or fewer."""
    sieve = np.ones(2**bits, dtype=np.bool_)
    sieve[:2] = False
    for prime in range(2, isqrt(len(sieve)) + 1):
        if sieve[prime]:
            sieve[prime * prime :: prime] = False
    return np.flatnonzero(sieve)


def least_remainder(number: int, limits: tuple[int, int], largest: int) -> tuple[int, int] | None:
    """The least remainder r that a tile leaves of a number, up to ``largest``, and the smallest tile that leaves it.

    Tiles are from the first limit, plus r, to the second. None if every one leaves more.
    """
    least, most = limits[0], min(limits[1], number)
    if least > most:
        return None
    if min(most - least, number // least - number // most) > _SHORT:
        for remainder in range(min(largest + 1, _TRIES)):
            tiles = divisors(number - remainder, most)
            tiles = tiles[tiles >= least + remainder]
            if tiles.size:
                return remainder, int(tiles.min())
        if largest < _TRIES:
            return None
    return _by_dividing(number, (least, most), largest)


def _by_dividing(number: int, limits: tuple[int, int], largest: int) -> tuple[int, int] | None:
    least, most = limits
    if most - least <= number // least - number // most:
        tiles = np.arange(least, most + 1, dtype=np.int64)
    else:  # of the tiles with the same quotient the largest leaves least
        tiles = np.minimum(number // np.arange(number // most, number // least + 1, dtype=np.int64), most)
    remainders = number % tiles
    good = np.flatnonzero((remainders <= largest) & (tiles >= least + remainders))
    if not good.size:
        return None
    remainder = remainders[good].min()
    return int(remainder), int(tiles[good][remainders[good] == remainder].min())
