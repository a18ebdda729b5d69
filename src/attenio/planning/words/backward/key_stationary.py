"""Key-stationary: keys, values and their gradients stay; rows pass, and their partial gradients with them [FA].

moved = F(d + dv) + m(d + dv) + g (V(b)(d + dv + 2w + 2dw) - 2Rdw + R dv + n d)
peak  = b'(d + dv)(1 + w) + a'(d + dv) + a'dw + 3a'w + a'b'w + 1

A row's first visit loads and its last stores no partial dQ.
"""

from attenio.planning.words.backward.common import all_gradients, passing_words, stationary_words, visit_words
from attenio.planning.words.form import Form, Held, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """The heads of a group together."""
    partial = 2 * sizes.d * sizes.intermediate_words
    held = Held(sizes.intermediate_words, stationary_words(sizes), passing_words(sizes), beside=1)
    phase = RowTile("key_tile", "query_tile", held, loads=visit_words(sizes) + partial, across=True)
    fixed = all_gradients(sizes) + sizes.group * sizes.touched_rows * (sizes.value_dim - partial)
    return (Form(("query_tile", "key_tile"), (phase,), fixed),)
