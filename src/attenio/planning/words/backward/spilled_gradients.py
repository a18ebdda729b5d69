"""Spilled gradients: keys and values stay, rows pass once; dQ is made afterwards, from score gradients that travelled.

    moved = (F + m)(d + dv) + g (V(b)(d + dv + 2w) + R dv + Zw + Z ceil(d/c)w + U(p)d + n d)
    peak  = max(b'(d + dv)(1 + w) + a'(d + dv) + 3a'w + a'b'w + 1,  p'c'w + p'w + 1)

With ``key_keys`` q and ``key_columns`` e, dK is made in the same way and is not resident (lean):

    moved   g (Z ceil(d/e)w + V(q)d) more
    peak    b'dw less in the first, and q'e'w + q'w + 1
"""

from attenio.planning.words.backward.common import (
    all_gradients,
    key_product,
    query_product,
    stationary_words,
    visit_words,
    visiting_words,
)
from attenio.planning.words.form import Form, Held, RowTile, Sizes

_NAMES = ("query_tile", "key_tile", "query_rows", "query_columns")
_LEAN = ("query_tile", "key_tile", "key_keys", "key_columns", "query_rows", "query_columns")


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """With dK resident, then without."""
    return _form(sizes, lean=False), _form(sizes, lean=True)


def _form(sizes: Sizes, *, lean: bool) -> Form:
    w = sizes.intermediate_words
    held = Held(w, stationary_words(sizes, lean=lean), visiting_words(sizes), beside=1)
    rows = RowTile("key_tile", "query_tile", held, loads=visit_words(sizes), across=True)
    products = (key_product(sizes), query_product(sizes)) if lean else (query_product(sizes),)
    own = sizes.touched_rows * sizes.value_dim + sizes.scores * w
    return Form(_LEAN if lean else _NAMES, (*products, rows), all_gradients(sizes) + sizes.group * own)
