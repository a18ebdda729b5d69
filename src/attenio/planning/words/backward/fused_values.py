"""Fused values for small fast memories: two score tiles stay, so that probabilities are used and never written.

D, dK, dQ   as tiled products
dV and dS   moved g (T(a,b)(d + dv) + U(a)(d + dv) + 2L(a)w + Zw) + 2w dv (g U(a) - F) + m dv
            peak  2a'b'w + a' + 1 + 2a'w + w

A key's first visit loads and its last stores no partial gradient.

Where values are wider than keys there are forms in which one score tile stays beside its queries and their dQ, and dV
is made afterwards, in G groups of c columns, with tiles of e keys and t slots:

D           as tiled products
dQ and dK   moved g (T(a,b)dv + U(a)(d + dv) + L(a)(d + w) + Rw + n d) + 2w d (g U(a) - F) + m d
            peak  a'b'w + a'(d + 1 + (d + 2)w) + d + 2w + 1
dV          moved G F d + g (V(e) - K(e, t))(G(d + w) + dv) + m dv
            peak  e'(d + c'w) + t' g (d + c' + w) + w
"""

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, where
from attenio.planning.words.backward.common import delta_words, key_product, query_product
from attenio.planning.words.form import Form, Held, KeptTile, Rectangle, Sizes
from attenio.planning.words.kept_keys import column_groups

_NAMES = ("score_rows", "score_keys", "key_keys", "key_columns", "query_rows", "query_columns")
_HELD = ("query_tile", "key_tile", "value_keys", "value_rows", "value_columns")
# More than any memory has.
_NEVER = 2**62


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """The heads of a group together; with one tile of scores, in as many groups of columns as kept keys try."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(per_score=2 * w, per_row=1 + 2 * w, beside=1 + w)
    scores = Rectangle("score_rows", "score_keys", (held,), visits=d + dv, loads=d + dv + 2 * w * dv, saved=-2 * w)
    products = (key_product(sizes), query_product(sizes))
    gradients = sizes.keys * (d + dv) - 2 * w * dv * sizes.touched_keys
    fixed = delta_words(sizes) + gradients + sizes.group * (sizes.scores * w + sizes.rows * d)
    several = [count for count in column_groups(d, dv) if type(count) is not int or count > 1]
    apart = (form_at(sizes, ceil_div(dv, count)) for count in several)
    return (Form(_NAMES, (*products, scores), fixed, least_held=w + 2), *apart)


def form_at(sizes: Sizes, columns: Counts) -> Form:
    """With one tile of scores, and so many columns of the gradients of values at a time."""
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    groups, columns = ceil_div(dv, columns), where(columns < dv, columns, dv)
    held = Held(per_score=w, per_row=d + 1 + (d + 2) * w, beside=d + 2 * w + 1)
    scores = Rectangle("query_tile", "key_tile", (held,), visits=dv, loads=d + dv + 2 * w * d, saved=-(d + w))
    values = KeptTile(
        "value_keys",
        "value_rows",
        per_row=d + columns * w,
        per_slot=group * (d + columns + w),
        beside=w,
        loads=groups * (d + w) + dv,
        across=True,
    )
    gradients = sizes.keys * (d + dv) + sizes.touched_keys * (groups * d - 2 * w * d)
    fixed = delta_words(sizes) + gradients + sizes.rows * (group * d) + sizes.touched_rows * (group * w)
    # a single group is for tiles that are asked for, not for searches
    least = w + 2 if type(groups) is int else where(groups > 1, w + 2, _NEVER)
    return Form(_HELD, (scores, values), fixed, least_held=least, constant=(("value_columns", columns),))
