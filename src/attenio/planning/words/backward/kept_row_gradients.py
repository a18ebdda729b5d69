"""Kept rows for the gradient: keys and their gradients stay, rows pass through slots that keep some for the next keys.

moved = F(d + dv) + m(d + dv) + g ((V(b) - K(b, s))(d + dv + w + 2(d+1)w) - 2R(d+1)w + R dv + n d)
peak  = b'(d + dv)(1 + w) + s' g (d + dv + (d+2)w) + 2w + 1

K(b, s) are the positions that a tile of b keys finds in its s slots, one for all heads of a group. A row's first
arrival loads no partial dQ and no D but its outputs, and a row leaves with both, the last time with dQ alone.

Under a window keys may come and go one by one (rolling keys): V(b, s) with rows and keys exchanged takes the place of
V(b) - K(b, s). Of rows that leave, dQ and D of u may stay until their second visit (waiting sums): with V for the
visits that find no row in its slot, and V' for those that do not find its sums either,

moved = F(d + dv) + m(d + dv) + g (V(d + dv + w) + V' 2(d+1)w - 2R(d+1)w + R dv + n d)
peak  = u g (d+1)w more

Rows that meet all of their keys at one visit, E of each head, make L and D of these: with rolling keys both move
g E (dv + w) less. Where all sums wait the first rows of the band may stay until they are done (``rolling_sums``).

Where keys and rows move on there is a form in which keys pass one by one, and sums of rows begin when the gradient of
the first key has left. With s positions that need a key and the next one, t that need both neighbours of a key, and
u = max(s - t, 1):

moved = F(d + dv) + m(d + dv) + g (R(d + 2dv + w) + n d)
peak  = g (s'(d + dv + 2w) + t dw) + d + dv + max((d + dv)w, g u dw) + 2w + 1

Under a causal mask there is one in which tiles of keys stay until the r = min(n, q) positions that are left for the
last q keys fit, which then stay while keys take the room of those that are done; before that dQ of the last s positions
does, and at turns the first x of those that are left. With r_j = min(n, q + (P - j)b') after tile j of P,
x_j = min(x, b', r_j) or none if m > n, and y = min(x_1, r_1 - s):

moved = F(d + dv) + m(d + dv) + g (R(d + dv) + r_1(dv + w) + n d + (r_1 - x_1)w
        + sum of (r_j - x_j)(d + dv + 2w) + max(0, r_j - x_j - s)2dw)
peak  = 2w + 1 + the larger of
        g s'dw + max(b'(d + dv)(1 + w) + g (d + dv + (d + 2)w), b'(d + dv) + the largest of
            b'(d + dv)w + g x_1(d + 1 + 2w), b'(d + 1)w + g x_1(d + dv + 2w) and g (x_1(d + dv + 2w) + y dw)) and
        g r(d + dv + 2w) + d + dv + the smaller of
            g r dw + (d + dv)w and (q - r)(d + dv) + g min(r, s + x_P)dw + max((d + dv)w, g dw if x_P = 0)

If all are the last keys r_1 is 0 and the latter is held if s is 0; otherwise r_1 is R.

There is another in which all keys stay and rows pass (``all_keys``), and the last ones leave first: in tiles of which
F_j keys have left before number j, with F_j the least that leaves m' = F_{j+1} - F_j keys no more than b + F_j/w, and
R_j = g min(n, F_j) rows that have met earlier ones, of which s stay:

moved = F(d + dv) + m(d + dv) + g (R(d + dv) + n d) + sum of max(0, R_j - s)(d + dv + 2w) + max(0, R_P - s)w
peak  = s'(d + dv + 2w) + d + dv + dw + 4w and the largest of (m - F_j)(d + dv) + m'(d + dv)w

Where values are wider than keys, their gradients may be made afterwards, in G groups of c columns, with tiles of e keys
and t slots and with probabilities recomputed:

moved   G F d + g (V(e) - K(e, t))(G(d + w) + dv) more
peak    b'dv w less in the first pass, and e'(d + c'w) + t' g (d + c' + w) + w

Dense problems have a form in which dQ of s rows, one in hand among them, stays while Q and dO come again, with P tiles
of keys, N = g n rows, and one row that is still there for the next tile; D is stored once, by all but one if P is 2:

moved = g n (2d + 2dv + w) + 2m(d + dv) + (P - 1)((N - 1)(d + dv + 2w) + (N - s')2dw) + Nw
peak  = b'(d + dv)(1 + w) + s'dw + d + dv + 4w + 1

They have one in which dQ of all but s rows, of two groups of h at most, is there when no dK and dV are, h of them in
the place of those of a tile (``taking_turns``), while t rows are there for the next tile too; and in P tiles

moved = g n (2d + 2dv + w) + 2m(d + dv) + (P - 1)(N - t')(d + dv + 2w) + D w + A + B
peak  = b'(d + dv) + t'(d + dv + 2w) + s'dw + max(b'(d + dv)w, dw) + 2w + 1

with D = 0 for one tile, N - t' for two, min(N, 2(N - t')) for more, and what the groups A and B cost.

They have one in which tiles of keys turn as under a causal mask, with x of n positions at every turn, n/2 at most, and
with O and E of the n - s positions without places among those that stay at odd turns, the first, and at even ones, the
next; T = n if P > 2, n - x if P = 2; and y = min(x, n - s):

moved = g (n (2d + 2dv + w) + (P - 1)((n - x)(d + dv + 2w) + (n - s)2dw) - ((P/2)O + ((P - 1)/2)E)2dw + T w)
        + 2m(d + dv)
peak  = 2w + 1 and what tiles take there

Under a causal mask or a window sums take turns as well (``band_turns``). With s rows of all heads whose dQ has a place
of its own, t that are there over a turn, B_j rows that need keys on both sides of turn j of P - 1, X keys of tiles that
come again for a group, Z sums that travel instead, Y rows that come again, and rows of groups before the first tile for
B_0,

moved = g n (2d + 2dv + w) + 2m(d + dv) + X(d + dv) + Z 2dw + Yw + sum of max(0, B_j - t')(d + dv + 2w)
peak  = b'(d + dv) + t'(d + dv + 2w) + s'dw + max(b'(d + dv)w, dw) + 2w + 1

if no row of a group begins with the tile after its turn; those that do take slots of t there.

They have another in which all keys stay, so that rows make L and D of these, and dK and dV of t keys wait for a second
pass over the rows:

moved = g n (2d + dv) + 2m(d + dv), and g (n - s)(d + dv + 3w) more if t > 0
peak  = t(d + dv) + s' g (d + dv + 2w) + 2w + max((m - t)(d + dv)(1 + w) + g dw, t(d + dv)w)
"""

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, where
from attenio.planning.words.all_keys import AllKeys
from attenio.planning.words.backward.common import all_gradients, stationary_words
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.causal_sums import CausalSums
from attenio.planning.words.form import Form, KeptTile, RollingTile, Sizes
from attenio.planning.words.kept_keys import column_groups
from attenio.planning.words.row_ring import RowRing
from attenio.planning.words.staying_sums import StayingSums
from attenio.planning.words.taking_turns import TakingTurns
from attenio.planning.words.turn_rooms import TurnRoom
from attenio.planning.words.turning_tiles import TurningTiles
from attenio.planning.words.waiting_rows import WaitingRows

_ROLLING = ("rolling_keys", "kept_rows")
_SUMS_WAIT = (*_ROLLING, "waiting_sums")
_APART = ("key_tile", "kept_rows", "value_keys", "value_rows", "value_columns")
# More than any memory has.
_NEVER = 2**62


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """The heads of a group together; with gradients of values apart, in as many groups as kept keys try; others.

    Those are for windows, with keys that come and go one by one, and for dense problems.
    """
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    state = 2 * (d + 1) * w
    phase = KeptTile(
        "key_tile",
        "kept_rows",
        per_row=stationary_words(sizes),
        per_slot=sizes.group * (d + dv + (d + 2) * w),
        beside=2 * w + 1,
        loads=d + dv + w + state,
        across=True,
    )
    fixed = all_gradients(sizes) + sizes.group * sizes.touched_rows * (dv - state)
    whole = Form(("key_tile", "kept_rows"), (phase,), fixed)
    several = [count for count in column_groups(d, dv) if type(count) is not int or count > 1]
    apart = (_apart(sizes, whole, ceil_div(dv, count)) for count in several)
    rolling = RollingTile(*_ROLLING, *phase[2:-1], once=dv + w)
    held = {"sums": _SUMS_WAIT[2], "per_sum": sizes.group * (d + 1) * w, "state": state}
    waiting = rolling._replace(loads=rolling.loads - state, ring=True, **held)
    rolls = Form(_ROLLING, (rolling,), fixed), Form(_SUMS_WAIT, (waiting,), fixed)
    return (
        whole,
        *apart,
        _waiting(sizes),
        *rolls,
        _sums(sizes),
        _ring(sizes),
        _turns(sizes, TakingTurns, "turn_rows"),
        _turning(sizes),
        _causal(sizes),
        _turns(sizes, BandTurns, "masked_turn_rows"),
        _all_keys(sizes),
    )


def _ring(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    phase = RowRing(
        "ring_rows",
        per_slot=group * (d + dv + 2 * w),
        per_sum=group * d * w,
        per_key=(d + dv) * w,
        beside=d + dv + 2 * w + 1,
    )
    return Form(("ring_rows",), (phase,), all_gradients(sizes) + sizes.touched_rows * (group * (d + 2 * dv + w)))


def _causal(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    names = "key_tile", "last_keys", "standing_sums", "exchanged_positions"
    phase = CausalSums(*names, *_at_turns(sizes), reads=group * (dv + w))
    fixed = all_gradients(sizes) + sizes.touched_rows * (group * (d + dv))
    return Form(("last_keys", "key_tile", "standing_sums", "exchanged_positions"), (phase,), fixed)


def _all_keys(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    row = d + dv + 2 * w
    phase = AllKeys(
        "first_keys",
        "standing_rows",
        per_key=d + dv,
        per_sum=(d + dv) * w,
        per_row=row,
        beside=row + (d + 2) * w,
        loads=row,
        once=w,
        group=group,
    )
    return Form(
        ("first_keys", "standing_rows"), (phase,), all_gradients(sizes) + sizes.touched_rows * (group * (d + dv))
    )


def _at_turns(sizes: Sizes) -> tuple[TurnRoom, Counts, Counts, Counts]:
    """What keys and positions take where tiles of keys turn, and what positions move that come again."""
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    row, dQ = group * (d + dv + 2 * w), group * d * w
    room = TurnRoom(stationary_words(sizes), d + dv, (d + 1) * w, row, group * (d + 1 + 2 * w), dQ, beside=2 * w + 1)
    return room, row, 2 * dQ, group * w


def _turning(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    phase = TurningTiles("key_tile", "standing_sums", "exchanged_positions", *_at_turns(sizes))
    fixed = all_gradients(sizes) + sizes.rows * (group * (d + 2 * dv + w))
    return Form(("exchanged_positions", "key_tile", "standing_sums"), (phase,), fixed)


def _turns(sizes: Sizes, kind: type[TakingTurns | BandTurns], slots: str) -> Form:
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    phase = kind(
        "key_tile",
        slots,
        "own_row_sums",
        per_row=d + dv,
        own_sum=(d + dv) * w,
        per_slot=d + dv + 2 * w,
        per_sum=d * w,
        beside=2 * w + 1,
        loads=d + dv + 2 * w,
        again=d + dv,
        once=w,
        across=True,
    )
    fixed = all_gradients(sizes) + sizes.rows * (sizes.group * (d + 2 * dv + w))
    return Form((slots, "key_tile", "own_row_sums"), (phase,), fixed)


def _sums(sizes: Sizes) -> Form:
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    phase = StayingSums(
        "key_tile",
        "row_sums",
        per_row=stationary_words(sizes),
        per_slot=d * w,
        beside=d + dv + 4 * w + 1,
        loads=d + dv + 2 * w,
        travels=2 * d * w,
        once=w,
        across=True,
    )
    fixed = all_gradients(sizes) + sizes.rows * (sizes.group * (d + 2 * dv + w))
    return Form(("row_sums", "key_tile"), (phase,), fixed)


def _waiting(sizes: Sizes) -> Form:
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    phase = WaitingRows(
        "waiting_keys",
        "kept_rows",
        per_row=d + dv,
        per_sum=(d + dv) * w,
        per_slot=group * (d + dv + 2 * w),
        passing=group * d * w,
        beside=2 * w,
        loads=group * (d + dv + 3 * w),
        across=True,
    )
    fixed = all_gradients(sizes) + sizes.rows * (group * (d + dv))
    return Form(("waiting_keys", "kept_rows"), (phase,), fixed)


def form_at(sizes: Sizes, columns: Counts) -> Form:
    """With so many columns of the gradients of values at a time, apart from the others."""
    return _apart(sizes, forms(sizes)[0], columns)


def _apart(sizes: Sizes, whole: Form, columns: Counts) -> Form:
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    groups, columns = ceil_div(dv, columns), where(columns < dv, columns, dv)
    (phase,) = whole.phases
    assert isinstance(phase, KeptTile)
    values = KeptTile(
        "value_keys",
        "value_rows",
        per_row=d + columns * w,
        per_slot=sizes.group * (d + columns + w),
        beside=w,
        loads=groups * (d + w) + dv,
        across=True,
    )
    phases = phase._replace(per_row=phase.per_row - dv * w), values
    fixed = whole.fixed + sizes.touched_keys * (groups * d)
    # a single group is for tiles that are asked for, not for searches
    least = 0 if type(groups) is int else where(groups > 1, 0, _NEVER)
    return Form(_APART, phases, fixed, least_held=least, constant=(("value_columns", columns),))
