"""FlashAttention-1: keys and values stay, queries and partial outputs of the whole group pass [FA].

moved = F(d + dv) + g (V(b) d + 2 (V(b) - R)(dv+2)w + n dv)      F touched keys, R touched rows
peak  = b'(d + dv) + a'd + a'(dv+3)w + a'b'w

A row's first visit loads and its last stores no state. Values that are part of their keys take no words of their own.
"""

from attenio.planning.words.form import Form, Held, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """The heads of a group together."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    state = 2 * (dv + 2) * w
    held = Held(per_score=w, per_row=sizes.key_words, per_key=d + (dv + 3) * w)
    phase = RowTile("key_tile", "query_tile", held, loads=d + state, across=True)
    own = sizes.rows * dv - sizes.touched_rows * state
    fixed = sizes.touched_keys * sizes.key_words + sizes.group * own
    return (Form(("query_tile", "key_tile"), (phase,), fixed),)
