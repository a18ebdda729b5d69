"""Score-stationary: a tile of scores stays; its queries, keys, values and partial outputs stream past.

moved = g (T(a,b) d + U(a)(d + dv) + 2w dv (T(a,b) - L(a)) + n dv)
peak  = a'b'w + 3a'w + max(a' + 1, a'w + 1)

Intermediates are never narrower than elements, so a column of partial outputs outweighs one of queries.

With ``resident_rows`` a queries and outputs stay too, and elements of b keys and values at a time pass:

moved = g (L(a) d + n dv + U(a)(d + dv))
peak  = a'(d + (dv+2)w) + a'b'w + 1

It has room for more rows than whole keys leave, which take d + dv words beside them, up to about (d + dv)² words.

With ``whole_rows`` all scores of a rows stay, l of each, which is the most that a row needs under a window:

moved = g (L(a) d + n dv + U(a)(d + dv))
peak  = a'lw + a'w + 2w + 1

A tile of a rows and all of their keys would have l + a - 1 scores for each of them, and no fewer words. Where the first
row needs one key, the second two and so on, the first tile has l (l - 1) / (2 (l + 1)) more rows, rounded down, if U(a)
is smaller then (``masks.patterns.whole_rows``).
"""

from attenio.planning.words.form import Form, Held, Rectangle, RowTile, Sizes, WholeRows


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself: a tile of scores alone, with resident rows, and all scores of rows."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    carried = 2 * w * dv
    held = Held(per_score=w, per_row=4 * w, beside=1)
    phase = Rectangle("query_tile", "key_tile", (held,), visits=d + carried, loads=d + dv, saved=carried)
    outputs = sizes.group * sizes.rows * dv
    whole = Held(per_score=w, per_row=d + (dv + 2) * w, beside=1)
    rows = RowTile("resident_rows", "key_tile", whole, live=d, loads=d + dv)
    complete = WholeRows("whole_rows", per_score=w, per_row=w, beside=2 * w + 1, live=d, loads=d + dv)
    return (
        Form(("query_tile", "key_tile"), (phase,), outputs),
        Form(("resident_rows", "key_tile"), (rows,), outputs),
        Form(("whole_rows",), (complete,), outputs),
    )
