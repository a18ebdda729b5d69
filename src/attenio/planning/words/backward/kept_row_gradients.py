"""Kept rows for the gradient: keys and their gradients stay, rows pass through slots that keep some for the next keys.

moved = F(d + dv) + m(d + dv) + g ((V(b) - K(b, s))(d + dv + w + 2(d+1)w) - 2R(d+1)w + R dv + n d)
peak  = b'(d + dv)(1 + w) + s' g (d + dv + (d+2)w) + 2w + 1

K(b, s) are the positions that a tile of b keys finds in its s slots, one for all heads of a group. A row's first
arrival loads no partial dQ and no D but its outputs, and a row leaves with both, the last time with dQ alone.

Under a window keys may come and go one by one (rolling keys): V(b, s) with rows and keys exchanged takes the place of
V(b) - K(b, s).
"""

from attenio.planning.words.backward.common import all_gradients, stationary_words
from attenio.planning.words.form import Form, KeptTile, RollingTile, Sizes

_ROLLING = ("rolling_keys", "kept_rows")


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """The heads of a group together."""
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
    rolling = RollingTile(*_ROLLING, *phase[2:])
    return Form(("key_tile", "kept_rows"), (phase,), fixed), Form(_ROLLING, (rolling,), fixed)
