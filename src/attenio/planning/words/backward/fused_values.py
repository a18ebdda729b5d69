"""Fused values for small fast memories: two score tiles stay, so that probabilities are used and never written.

D, dK, dQ   as tiled products
dV and dS   moved g (T(a,b)(d + dv) + U(a)(d + dv) + 2L(a)w + Zw) + 2w dv (g U(a) - F) + m dv
            peak  2a'b'w + a' + 1 + 2a'w + w

A key's first visit loads and its last stores no partial gradient.
"""

from attenio.planning.words.backward.common import delta_words, key_product, query_product
from attenio.planning.words.form import Form, Held, Rectangle, Sizes

_NAMES = ("score_rows", "score_keys", "key_keys", "key_columns", "query_rows", "query_columns")


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """The heads of a group together."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(per_score=2 * w, per_row=1 + 2 * w, beside=1 + w)
    scores = Rectangle("score_rows", "score_keys", (held,), visits=d + dv, loads=d + dv + 2 * w * dv, saved=-2 * w)
    products = (key_product(sizes), query_product(sizes))
    gradients = sizes.keys * (d + dv) - 2 * w * dv * sizes.touched_keys
    fixed = delta_words(sizes) + gradients + sizes.group * (sizes.scores * w + sizes.rows * d)
    return (Form(_NAMES, (*products, scores), fixed, least_held=w + 2),)
