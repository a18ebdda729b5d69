"""Query-stationary: rows and their gradients stay; keys pass, and their partial gradients with them.

moved = g (L(a)(d + 2dv + w) + n d) + g U(a)(d + dv) + 2w (g U(a) - F)(d + dv) + m(d + dv)
peak  = as key-stationary

A key's first visit loads and its last stores no partial gradient. In a second form slots keep keys with their partial
gradients for the next tile: U(a) - K(a, s) in the place of U(a), and a score at a time,

peak  = a'(d + dv + (d+2)w) + s'(d + dv)(1 + w) + 2w + 1

Under a window rows may come and go one by one (rolling rows): V(a, s) takes the place of U(a) - K(a, s). Of keys that
leave, dK and dV of u may stay until their second visit (waiting key sums): with V for the visits that find no key in
its slot, and V' for those that do not find its sums either,

moved = g (R(d + 2dv + w) + n d) + g (V(d + dv) + V' 2w(d + dv)) - 2wF(d + dv) + m(d + dv)
peak  = a'(d + dv + (d+2)w) + s'(d + dv)(1 + w) + u(d + dv)w + 2w + 1

Dense problems have a form in which all rows of a group stay, and dQ of t positions waits for a second pass over keys:

moved = g n (2d + 2dv + w) + 2m(d + dv), and (m - s)(d + dv) more if t > 0, or max(0, m - 2s)(d + dv) if t = n
peak  = g t (d + dv + 2w) + s'(d + dv) + 2w + 1 + max(g (n-t)(d + dv + 2w + dw) + (d + dv)w, g t dw)

They have another in which dK and dV of s keys, one in hand among them, stay while K and V come again, with P tiles of
the rows of all heads, and one key that is still there for the next tile:

moved = g n (2d + 2dv + w) + 2m(d + dv) + (P - 1)((m - 1)(d + dv) + (m - s')2(d + dv)w)
peak  = a'(d + dv + (d+2)w) + s'(d + dv)w + d + dv + 2w + 1

They have one in which dK and dV of all but s keys take turns with dQ of a tile (``taking_turns``), with t keys that
are there for the next tile too:

moved = g n (2d + 2dv + w) + 2m(d + dv) + (P - 1)(m - t')(d + dv) + A + B
peak  = a'(d + dv + 2w) + t'(d + dv) + s'(d + dv)w + max(a'dw, (d + dv)w) + 2w + 1

Under a causal mask or a window dK and dV of all but s keys take turns with dQ of a tile (``band_turns``), both from the
last ones on. With B_j keys that rows on both sides of turn j need, X positions that come again for a group, and Z sums
that travel instead,

moved = g n (2d + 2dv + w) + 2m(d + dv) + g X(d + dv + 3w) + Z 2(d + dv)w + sum of max(0, B_j - t')(d + dv)
peak  = g a'(d + dv + 2w) + t'(d + dv) + s'(d + dv)w + max(g a'dw, (d + dv)w) + 2w + 1

Where rows, columns and keys are a band there is a form with a ring of all keys that a row needs, r of them, with their
gradients. A row makes its log-sum-exp and D from these, so that neither it nor its output is read:

moved = g (R(d + dv) + n d) + (F + m)(d + dv)                      R touched rows, F touched keys
peak  = r'(d + dv)(1 + w) + d + dv + dw + 4w
"""

from attenio.masks.patterns.pattern import Counts
from attenio.planning.words.backward.common import all_gradients, passing_words, stationary_words
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.form import Form, Held, KeptTile, KeyRing, RollingTile, RowTile, Sizes
from attenio.planning.words.staying_sums import StayingSums
from attenio.planning.words.taking_turns import TakingTurns
from attenio.planning.words.waiting_rows import WaitingRows

_ROLLING = ("rolling_rows", "kept_keys", "waiting_key_sums")


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself, with slots and without; all rows of a group, if dense; and a ring of keys, for bands."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(w, passing_words(sizes), stationary_words(sizes), beside=1)
    phase = RowTile("query_tile", "key_tile", held, live=d + 2 * dv + w, loads=(d + dv) * (1 + 2 * w))
    fixed = (sizes.keys - 2 * w * sizes.touched_keys) * (d + dv) + sizes.group * sizes.rows * d
    slots = KeptTile(
        "query_tile",
        "kept_keys",
        per_row=d + dv + (d + 2) * w,
        per_slot=stationary_words(sizes),
        beside=2 * w + 1,
        loads=phase.loads,
        live=phase.live,
    )
    kept = Form(("query_tile", "kept_keys"), (slots,), fixed)
    return (
        kept,
        Form(("query_tile", "key_tile"), (phase,), fixed),
        _waiting(sizes),
        Form(_ROLLING, (_rolling(sizes, slots),), fixed),
        _ring(sizes),
        _sums(sizes),
        _turns(sizes, TakingTurns, ("stacked_rows", "turn_keys"), 1),
        _turns(sizes, BandTurns, ("query_tile", "masked_turn_keys"), sizes.group),
    )


def _rolling(sizes: Sizes, slots: KeptTile) -> RollingTile:
    """As with slots, and rows come and go one by one; a word of a key that waits takes one of its sums."""
    sums = (sizes.d + sizes.value_dim) * sizes.intermediate_words
    return RollingTile(
        *_ROLLING[:2],
        per_row=slots.per_row,
        per_slot=slots.per_slot,
        beside=slots.beside,
        loads=slots.loads - 2 * sums,
        live=slots.live,
        sums=_ROLLING[2],
        per_sum=sums,
        state=2 * sums,
    )


def _turns(sizes: Sizes, kind: type[TakingTurns | BandTurns], names: tuple[str, str], rows: Counts) -> Form:
    """``names`` of rows that stay and keys over a turn; so many ``rows`` are one of those that stay."""
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    stay, keys = names
    phase = kind(
        stay,
        keys,
        "own_key_sums",
        per_row=rows * (d + dv + 2 * w),
        own_sum=rows * d * w,
        per_slot=d + dv,
        per_sum=(d + dv) * w,
        beside=2 * w + 1,
        loads=d + dv,
        again=rows * (d + dv + 3 * w),
        once=0 * d,
    )
    fixed = all_gradients(sizes) + sizes.rows * (group * (d + 2 * dv + w))
    return Form((keys, stay, "own_key_sums"), (phase,), fixed)


def _sums(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    phase = StayingSums(
        "stacked_rows",
        "key_sums",
        per_row=d + dv + (d + 2) * w,
        per_slot=(d + dv) * w,
        beside=d + dv + 2 * w + 1,
        loads=d + dv,
        travels=2 * (d + dv) * w,
        once=0 * d,
    )
    fixed = all_gradients(sizes) + sizes.rows * (group * (d + 2 * dv + w))
    return Form(("stacked_rows", "key_sums"), (phase,), fixed)


def _ring(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    phase = KeyRing("ring_keys", per_slot=(d + dv) * (1 + w), beside=d + dv + (d + 4) * w)
    return Form(("ring_keys",), (phase,), all_gradients(sizes) + sizes.touched_rows * (group * (d + dv)))


def _waiting(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    phase = WaitingRows(
        "waiting_rows",
        "kept_keys",
        per_row=group * (d + dv + 2 * w),
        per_sum=group * d * w,
        per_slot=d + dv,
        passing=(d + dv) * w,
        beside=2 * w + 1,
        loads=d + dv,
        last=True,
    )
    fixed = all_gradients(sizes) + sizes.rows * (group * (d + 2 * dv + w))
    return Form(("waiting_rows", "kept_keys"), (phase,), fixed)
