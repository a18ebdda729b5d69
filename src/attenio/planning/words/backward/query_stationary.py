"""Query-stationary: rows and their gradients stay; keys pass, and their partial gradients with them.

moved = g (L(a)(d + 2dv + w) + n d) + g U(a)(d + dv) + 2w (g U(a) - F)(d + dv) + m(d + dv)
peak  = as key-stationary

A key's first visit loads and its last stores no partial gradient.
"""

from attenio.planning.words.backward.common import passing_words, stationary_words
from attenio.planning.words.form import Form, Held, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(w, passing_words(sizes), stationary_words(sizes), beside=1)
    phase = RowTile("query_tile", "key_tile", held, live=d + 2 * dv + w, loads=(d + dv) * (1 + 2 * w))
    fixed = (sizes.keys - 2 * w * sizes.touched_keys) * (d + dv) + sizes.group * sizes.rows * d
    return (Form(("query_tile", "key_tile"), (phase,), fixed),)
