"""Two passes, one for the gradient of queries and one for those of keys and values; as a rule nothing partial travels.

moved = g (L(p)(d + 2dv + 2w) + n d) + ceil(g/h) U(p)(d + dv)  +  F(d + dv) + g V(c)(d + dv + 2w) + m(d + dv)
peak  = max(h'p'(d + dv) + h'p'dw + 3h'p'w + h'p'b'w + b'(d + dv) + 1,
            c'(d + dv)(1 + w) + r'(d + dv) + 3r'w + r'c'w)

With ``kept_keys`` s and ``kept_rows`` t, slots keep what passes for the next tile, and scores are made one by one:

moved = g (L(p)(d + 2dv + 2w) + n d + (U(p) - K(p, s))(d + dv))
        + F(d + dv) + g (V(c) - K(c, t))(d + dv + 2w) + m(d + dv)
peak  = max(p'(d + dv + dw + 2w) + s'(d + dv) + 2w + 1,  c'(d + dv)(1 + w) + t' g (d + dv + 2w) + 2w)

Under a window or a causal mask rows may come and go one by one (rolling rows), under a window keys too (rolling keys):
R takes the place of L(p) and V(p, s) that of U(p) - K(p, s), and V(c, t) with rows and keys exchanged that of
V(c) - K(c, t).

In a dense group of N rows in all heads, with f late rows and h late keys, t = ceil((N-f)/a), s = ceil(f/a) and
u = ceil((m-h)/c):

moved = N (2d + 2dv + 2w) + m(d + dv) + (t m + s h + m - h)(d + dv) + 2w h (t + s - 1)(d + dv)
        + u (N(d + dv + 2w) + 2w f d)
peak  = max(a'(d + dv + (d + 2)w) + (d + dv)(1 + w) + 2w + 1,  c'(d + dv)(1 + w) + d + dv + (d + 4)w)

For bands there is one with a ring of all keys that a row needs, r of them, and then one of the s rows that need a key
and the next one; of a dense problem all keys, and all rows. With R touched rows and F touched keys

moved = g (R(2d + 2dv + 3w) + n d) + (2F + m)(d + dv)
peak  = max(r'(d + dv) + d + dv + dw + 4w,  g s'(d + dv + 2w) + (d + dv)(1 + w) + 2w)
"""

from attenio.masks.patterns.pattern import Counts
from attenio.planning.words.backward.common import (
    all_gradients,
    passing_words,
    stationary_words,
    visit_words,
    visiting_words,
)
from attenio.planning.words.form import Form, Held, KeptTile, KeyRing, RollingTile, RowTile, Sizes
from attenio.planning.words.left_over import LeftOver
from attenio.planning.words.row_ring import RowRing

_LEFT_OVER = ("stacked_rows", "late_rows", "stationary_keys", "late_keys")
_ROLLING_ROWS = ("rolling_rows", "kept_keys")
_ROLLING_KEYS = ("rolling_keys", "kept_rows")


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """A row of the first pass loads Q, dO, O and the log-sum-exp, and stores D."""
    w, both = sizes.intermediate_words, sizes.d + sizes.value_dim
    own = both + sizes.value_dim + 2 * w
    first = Held(w, passing_words(sizes), both, beside=1)
    second = Held(w, stationary_words(sizes), visiting_words(sizes))
    phases = (
        RowTile("query_tile", "key_tile", first, live=own, loads=both, heads="head_tile"),
        RowTile("stationary_keys", "passing_queries", second, loads=visit_words(sizes), across=True),
    )
    names = ("query_tile", "head_tile", "key_tile", "stationary_keys", "passing_queries")
    tiled = Form(names, phases, all_gradients(sizes))
    return tiled, *_with_slots(sizes, own), _left_over(sizes, own), _rings(sizes)


def _left_over(sizes: Sizes, own: Counts) -> Form:
    """Of a dense group the rows of all heads one under the other; some rows and keys are late."""
    d, w, both = sizes.d, sizes.intermediate_words, sizes.d + sizes.value_dim
    phase = LeftOver(
        *_LEFT_OVER,
        per_row=both + (d + 2) * w,
        per_key=stationary_words(sizes),
        beside_rows=both * (1 + w) + 2 * w + 1,
        beside_keys=both + (d + 4) * w,
        reads=both,
        visits=visit_words(sizes),
        row_travels=2 * d * w,
        key_travels=2 * both * w,
    )
    return Form(_LEFT_OVER, (phase,), all_gradients(sizes) + sizes.rows * (sizes.group * own))


def _rings(sizes: Sizes) -> Form:
    """Rows make D in the first pass, where all of their keys are there, and load it in the second."""
    d, w, both, group = sizes.d, sizes.intermediate_words, sizes.d + sizes.value_dim, sizes.group
    phases = (
        KeyRing("ring_keys", per_slot=both, beside=both + (d + 4) * w),
        RowRing(
            "ring_rows",
            per_slot=group * (both + 2 * w),
            per_sum=0 * d,
            per_key=both * w,
            beside=both + 2 * w,
            of_dense=True,
        ),
    )
    fixed = all_gradients(sizes) + sizes.touched_rows * (group * (2 * both + 3 * w)) + sizes.touched_keys * both
    return Form(("ring_keys", "ring_rows"), phases, fixed)


def _with_slots(sizes: Sizes, own: Counts) -> tuple[Form, Form, Form]:
    """Tiles of both, rows that roll past tiles of keys, and both rolling."""
    w, both = sizes.intermediate_words, sizes.d + sizes.value_dim
    rows = KeptTile(
        "query_tile",
        "kept_keys",
        per_row=both + (sizes.d + 2) * w,
        per_slot=both,
        beside=2 * w + 1,
        loads=both,
        live=own,
    )
    keys = KeptTile(
        "stationary_keys",
        "kept_rows",
        per_row=stationary_words(sizes),
        per_slot=sizes.group * (both + 2 * w),
        beside=2 * w,
        loads=visit_words(sizes),
        across=True,
    )
    fixed = all_gradients(sizes)
    one_by_one = RollingTile(*_ROLLING_ROWS, *rows[2:-1])
    return (
        Form(("query_tile", "kept_keys", "stationary_keys", "kept_rows"), (rows, keys), fixed),
        Form((*_ROLLING_ROWS, "stationary_keys", "kept_rows"), (one_by_one, keys), fixed),
        Form((*_ROLLING_ROWS, *_ROLLING_KEYS), (one_by_one, RollingTile(*_ROLLING_KEYS, *keys[2:-1])), fixed),
    )
