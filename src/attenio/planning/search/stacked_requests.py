"""The tile of stacked requests that reads the fewest keys: whole requests, or a simple fraction of one.

A boundary on a request's first row costs no own keys (see ``PrefixedRequests``). So where a request fits, the best tile
holds as many as fit, unless a larger one makes fewer tiles, which leaves less than one request's rows to try. Dense
requests only ask how many boundaries are free, which the common divisor of tile and request says: divisors are tried.

Causal requests of h rows cost i*a mod h, summed over boundaries i = 1 to m. With x = a/h that is h times a sum of
fractional parts {i*x}. If 0 < |x - p/q| <= 1/q^2 in lowest terms, any q neighbouring terms add up to

    (q - 1)/2 * (1 - q*|x - p/q|)   or more,

for they are q points at distance 1/q, moved by less than that, of which one at most passes a whole number. Hence only
tiles near fractions with a small q cost visibly less than half a request for every boundary, and all others can be told
to lose against a larger tile without being counted. Between two neighbouring fractions with denominators up to m
nothing passes a whole number, and the keys read grow with the tile: its first tile is the best.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import PrefixedRequests
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.search.divisors import divisors
from attenio.planning.search.fractions import Shells, shells_between

Ints = NDArray[np.int64]
# Keys read and the tile that reads them; fewest keys first, then the smallest tile.
KeysRead = tuple[int, int]

# As many promising tiles are counted first, as what they find rules out others.
_FEW = 3
# Up to this many tiles, Python integers are faster than arrays.
_ONE_BY_ONE = 16
# Up to this many tiles are counted without further thought.
_SHORT = 800
# As many are counted before floors are looked at again.
_AT_ONCE = 768
# Floors in floating point are off by less than this factor.
_SLACK = 1e-9


def best_request_tile(pattern: PrefixedRequests, most: int, limit: int | None = None) -> KeysRead:
    """The fewest keys read by any tile from 1 to ``most``, and the smallest tile that reads them.

    If every tile reads more keys than ``limit``, any tile.
    """
    most = min(most, pattern.rows)
    if most >= pattern.own.rows:
        best, least = _whole_requests(pattern, most)
    else:
        tiles = {most, ceil_div(pattern.rows, ceil_div(pattern.rows, most))}
        best, least = min(_read(pattern, tile) for tile in tiles), 1
    if not pattern.slope:
        return _best_of(pattern, _dense_tiles(pattern, most), best)
    best = min(best, *_periodic(pattern, most))
    if limit is None or best[0] <= limit:
        return _best_causal(pattern, (least, most), best)
    no_tile = pattern.rows + 1
    better = _best_causal(pattern, (least, most), (limit, no_tile))
    return best if better[1] == no_tile else better


def _read(pattern: PrefixedRequests, tile: int) -> KeysRead:
    return int(pattern.key_loads(tile)), tile


def _whole_requests(pattern: PrefixedRequests, most: int) -> tuple[KeysRead, int]:
    """The best tile of whole requests, and the least tile that could read less: it makes fewer tiles."""
    height = int(pattern.own.rows)
    tiles = ceil_div(pattern.requests, most // height)
    best = _read(pattern, height * ceil_div(pattern.requests, tiles))
    return best, most + 1 if tiles == 1 else ceil_div(pattern.rows, tiles - 1)


def _dense_tiles(pattern: PrefixedRequests, most: int) -> Ints:
    """For every divisor of a request the best tile that shares it: it makes the fewest tiles that such a tile can."""
    shared = divisors(int(pattern.own.rows), most)
    tiles = ceil_div(pattern.rows, most // shared * shared)
    return np.asarray(ceil_div(ceil_div(pattern.rows, tiles), shared) * shared)


def _periodic(pattern: PrefixedRequests, most: int) -> list[KeysRead]:
    """A few promising tiles: over many boundaries, what counts is the common divisor of tile and request."""
    height = int(pattern.own.rows)
    shared = divisors(height, most)
    tiles = most // shared * shared
    costs = (pattern.prefix + pattern.fewest_alive + (height - shared) / 2) / tiles
    return [_read(pattern, tile) for tile in tiles[np.argsort(costs)[:_FEW]].tolist()]


def _best_causal(pattern: PrefixedRequests, limits: tuple[int, int], best: KeysRead) -> KeysRead:
    least, most = limits
    least = max(least, _least_tile(pattern, best[0]))
    if most - least < _SHORT:
        return _best_of(pattern, np.arange(least, most + 1, dtype=np.int64), best)
    if _pieces(pattern, least, most) <= min(_AT_ONCE, (most - least) // 4):
        return _best_of(pattern, _piece_starts(pattern, least, most), best)
    shells = shells_between(least, most, int(pattern.own.rows))
    floors = _floors(pattern, shells)
    order = np.argsort(floors, kind="stable")
    while (order := order[: np.searchsorted(floors[order] * (1 - _SLACK), best[0], side="right")]).size:
        counts = np.cumsum(shells.counts[order])
        if counts[-1] > _AT_ONCE and _pieces(pattern, least, most) < counts[-1]:
            starts = _piece_starts(pattern, least, most)
            return _best_downwards(pattern, starts[shells.hold(order, starts)], best)
        # The most promising shells first: what they find rules out most of the others.
        chosen, order = np.split(order, [max(1, int(np.searchsorted(counts, _AT_ONCE, side="right")))])
        best = _best_of(pattern, shells.tiles(chosen), best)
        least = max(least, _least_tile(pattern, best[0]))
    return best


def _best_downwards(pattern: PrefixedRequests, tiles: Ints, best: KeysRead) -> KeysRead:
    """The best of these tiles, ascending: from the last on, as every good one raises the smallest worth trying."""
    while tiles.size:
        best = _best_of(pattern, tiles[-_AT_ONCE:], best)
        tiles = tiles[:-_AT_ONCE]
        tiles = tiles[tiles >= _least_tile(pattern, best[0])]
    return best


def _least_tile(pattern: PrefixedRequests, keys: int) -> int:
    """No tile below this one reads as few keys."""
    roots = [ceil_div(area, keys - constant) for constant, area, _ in pattern.key_load_floors if keys > constant]
    return int(max([1, *roots]))


def _best_of(pattern: PrefixedRequests, tiles: Ints, best: KeysRead) -> KeysRead:
    if tiles.size <= _ONE_BY_ONE:
        return min([best, *(_read(pattern, tile) for tile in tiles.tolist())])
    keys = pattern.key_loads(tiles)
    fewest = keys.min()
    return min(best, (int(fewest), int(tiles[keys == fewest].min())))


def _pieces(pattern: PrefixedRequests, least: int, most: int) -> int:
    """About how many pieces there are on which the keys read only grow with the tile."""
    boundaries = ceil_div(pattern.rows, least) - 1
    return int(boundaries * (boundaries + 1) // 2 * (most - least) // pattern.own.rows + 2 * boundaries)


def _piece_starts(pattern: PrefixedRequests, least: int, most: int) -> Ints:
    """Tiles at which a boundary enters another request or leaves the rows, and those right behind."""
    height, boundaries = int(pattern.own.rows), ceil_div(pattern.rows, least) - 1
    i = np.arange(1, boundaries + 1, dtype=np.int64)
    first = least * i // height
    counts = most * i // height + 1 - first
    i, first, before = (np.repeat(values, counts) for values in (i, first, np.cumsum(counts) - counts))
    edges = (first + np.arange(len(i), dtype=np.int64) - before) * height // i
    leaving = ceil_div(pattern.rows, np.arange(ceil_div(pattern.rows, most), boundaries + 2, dtype=np.int64))
    tiles = np.unique(np.concatenate(([least], leaving, edges, edges + 1)))
    return np.asarray(tiles[(tiles >= least) & (tiles <= most)])


def _floors(pattern: PrefixedRequests, shells: Shells) -> NDArray[np.float64]:
    """For each shell a number of keys that no tile in it reads less than."""
    tiles = np.ceil(pattern.rows / shells.last * (1 - _SLACK))
    boundaries = tiles - 1
    own = pattern.own.rows * shells.fractions(boundaries) + pattern.fewest_alive * shells.crossings(boundaries)
    return np.asarray(pattern.prefix * tiles + pattern.requests * int(pattern.own.keys) + own)
