"""Score-stationary: a tile of scores stays; its queries, keys, values and partial outputs stream past.

moved = g (T(a,b) d + U(a)(d + dv) + 2w dv (T(a,b) - L(a)) + n dv)
peak  = a'b'w + 3a'w + max(a' + 1, a'w + 1)

Intermediates are never narrower than elements, so a column of partial outputs outweighs one of queries.
"""

from attenio.planning.words.form import Form, Held, Rectangle, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    carried = 2 * w * dv
    held = Held(per_score=w, per_row=4 * w, beside=1)
    phase = Rectangle("query_tile", "key_tile", (held,), visits=d + carried, loads=d + dv, saved=carried)
    return (Form(("query_tile", "key_tile"), (phase,), sizes.group * sizes.rows * dv),)
