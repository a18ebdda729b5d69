"""Kept rows: keys stay, rows pass through slots that keep some for the next keys, with their partial outputs.

moved = g (F(d + dv) + n dv + (V(b) - K(b, s))(d + 2(dv+2)w) - 2R(dv+2)w)       R touched rows, F touched keys
peak  = b'(d + dv) + s'(d + (dv+2)w) + 2w

K(b, s) are the rows that a tile of b keys finds in its s slots. A row's first arrival loads no state, and a row leaves
with its maximum and its sum. Values that are part of their keys take no words of their own.
"""

from attenio.planning.words.form import Form, KeptTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    state = 2 * (dv + 2) * w
    phase = KeptTile(
        "key_tile",
        "kept_rows",
        per_row=sizes.key_words,
        per_slot=d + (dv + 2) * w,
        beside=2 * w,
        loads=d + state,
        across=True,
    )
    own = sizes.touched_keys * sizes.key_words + sizes.rows * dv - sizes.touched_rows * state
    return (Form(("key_tile", "kept_rows"), (phase,), sizes.group * own),)
