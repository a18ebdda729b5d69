"""Tiled products for small fast memories: probabilities and their gradients travel, every product is tiled alone.

D           moved g R(2dv + w)                                         peak w + 2
P           moved g (T(a,b)d + U(a)d + L(a)w + Zw)                     peak a'b'w + a' + 1 + a'w
dS          moved g (T(a,b)dv + U(a)dv + L(a)w + 2Zw)                  peak a'b'w + a' + 1 + a'w + w
dV          moved g (Z ceil(dv/c)w + V(p)dv) + m dv                    peak p'c'w + p'w + 1
dK          moved g (Z ceil(d/c)w + V(p)d) + m d                       peak p'c'w + p'w + 1
dQ          moved g (Z ceil(d/c)w + U(p)d + n d)                       peak p'c'w + p'w + 1

With ``gradient_rows`` and ``gradient_keys`` in place of ``score_rows`` and ``score_keys``, the probabilities have been
saved by the forward pass and are read: there is no second line.
"""

from attenio.planning.words.backward.common import delta_words, key_product, query_product, value_product
from attenio.planning.words.form import Form, Held, Rectangle, Sizes

_PRODUCTS = ("value_keys", "value_columns", "key_keys", "key_columns", "query_rows", "query_columns")


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Probabilities are computed again."""
    return (_form(sizes, reading=False),)


def reading_form(sizes: Sizes) -> Form:
    """Probabilities are read."""
    return _form(sizes, reading=True)


def _form(sizes: Sizes, *, reading: bool) -> Form:
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    width, statistics, travels = (dv, w, 2) if reading else (d + dv, 2 * w, 3)
    rows, keys = ("gradient_rows", "gradient_keys") if reading else ("score_rows", "score_keys")
    held = Held(per_score=w, per_row=1 + w, beside=1 + w)
    scores = Rectangle(rows, keys, (held,), visits=width, loads=width, saved=-statistics)
    products = (value_product(sizes), key_product(sizes), query_product(sizes))
    own = travels * sizes.scores * w + sizes.rows * d
    fixed = delta_words(sizes) + sizes.keys * (d + dv) + sizes.group * own
    return Form((rows, keys, *_PRODUCTS), (*products, scores), fixed, least_held=w + 2)
