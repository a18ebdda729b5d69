"""Feature gradient: the approximate function itself, differentiated; states of keys and of queries in fast memory.

With c = dv + 1 columns of [V, 1] and r = C(d + t, t) features of degree t, per KV head, with the states of keys and of
queries at once (``resident_states=2``, dense problems only) or one after the other (``resident_states=1``):

moved = 3 m (d + dv) + g n (2 d + dv)                9 n d where all are alike
        3 m (d + dv) + g n (3 d + 2 dv + 4 w)        11 n d + 4 n w
peak  = s r c w + (t + 2) w + d + dv + d w + c w     with s states

A state of keys that the forward pass saved (``saved_state=1``, dense problems only) is read, r c w words, in place of
one pass over keys and values. Rows that need no key are not read, and their gradients are zeros.
"""

from attenio.planning.approximate.value_columns import columns, feature_count
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems

TILES = ("degree", "resident_states")
SAVED_TILES = (*TILES, "saved_state")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    counts = problems.counts
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    saved = tiles.get("saved_state", 0)
    again = 0 if tiles["resident_states"] > 1 else d + dv + 4 * w  # rows a second time, and two sums there and back
    keys = (3 - saved) * counts.keys * (d + dv)
    rows = counts.touched_rows * (d + dv + again) + counts.rows * d
    state = saved * counts.sequences * feature_count(d, tiles["degree"]) * columns(problems) * w
    return problems.runs * (keys + problems.group * rows + state)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once: states, a stack of products, and rows with their gradients."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    state = tiles["resident_states"] * feature_count(d, tiles["degree"]) * columns(problems) * w
    return state + (tiles["degree"] + 2) * w + d + dv + d * w + columns(problems) * w


def best_tiles(problems: Problems, fast_words: int, degree: int) -> MovingTiles | None:
    """The form that moves the fewest words, or None if none fits.

    A state saved by the forward pass is not counted on: which forward pass there was is not known here.
    """
    for states in (2, 1) if problems.counts.is_dense else (1,):
        tiles = Tiles.of(degree=degree, resident_states=states)
        if peak_words(problems, tiles) <= fast_words:
            return MovingTiles(moved_words(problems, tiles), tiles)
    return None
