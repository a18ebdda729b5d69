"""Tiled products for small fast memories: probabilities and their gradients travel, every product is tiled alone.

D           moved g R(2dv + w)                                         peak w + 2
P           moved g (T(a,b)(d + w) + U(a)d + Zw)                       peak a'b'w + a' + 2w - 1
dS          moved g (T(a,b)(dv + w) + U(a)dv + 2Zw)                    peak a'b'w + a' + 2w - 1
dV          moved g (Z ceil(dv/c)w + V(p)dv) + m dv                    peak p'c'w + p'w + 1
dK          moved g (Z ceil(d/c)w + V(p)d) + m d                       peak p'c'w + p'w + 1
dQ          moved g (Z ceil(d/c)w + U(p)d + n d)                       peak p'c'w + p'w + 1

With ``query_tile`` and ``key_tile`` whole rows of Q, then of dO, stay while elements of keys, then of values, pass:

P and dS    moved g (L(a)(d + dv + 2w) + U(a)(d + dv) + 3Zw)           peak a'max(d,dv) + a'b'w + a'w + w + 1

which is better from about d²/4 words on. With ``resident_rows`` in place of ``score_rows`` log-sum-exps and D of the
rows stay beside the tile, which leaves room for about a key less:

P           moved g (T(a,b)d + U(a)d + L(a)w + Zw)                     peak a'b'w + a'w + a' + 2w - 1
dS          moved g (T(a,b)dv + U(a)dv + L(a)w + 2Zw)                  peak a'b'w + a'w + a' + 2w - 1

With ``stationary_keys`` c and ``passing_queries`` r beside ``query_tile`` and ``key_tile``, values stay with dV while
rows of dO pass, an element at a time; dS and dV are made together, and probabilities are read once:

P           moved g (L(a)(d + w) + U(a)d + Zw)                         peak a'd + a'b'w + a'w + 1
dS and dV   moved g (V(c)(dv + w) + 2Zw) + F dv + m dv                 peak c'dv(1 + w) + 2r'c'w + r'w + 1

Under a window, with ``whole_rows`` a and ``whole_keys`` b all scores of rows stay, l of each, or of keys, u of each:

P and dV    moved L'(b)d + g V(b)(d + dv + w) + g Zw + m dv            peak b'(g u + 1)w + 1
dS, dQ, dK  moved g (L(a)(d + dv) + U(a)(d + dv + 2dw) + Zw + n d)     peak a'(l + 1)w + a' + (l + 1)w + 1
              - 2dw F + m d

where L'(b) are keys in tiles of b of which a row needs any, and the first tile of rows, and the last one of keys, may
have more than others (``masks.patterns.whole_rows``). With ``summed_keys`` c beside these dS is written for dK:

dS and dQ   moved g (L(a)dv + U(a)(d + dv) + 2Zw + n d)                peak a'(l + 1)w + l w + 1
dK          moved g (V(c)d + Zw) + m d                                 peak c'(g u + 1)w + 1

D is the sum of P dP of a row whose scores are all there, so that no outputs are read.

With ``gradient_rows``, or ``resident_rows``, and ``gradient_keys`` in place of ``score_rows`` and ``score_keys``, the
probabilities have been saved by the forward pass and are read: there is no second line.
"""

from attenio.masks.patterns.sums import larger
from attenio.planning.words.backward.common import delta_words, key_product, query_product, value_product
from attenio.planning.words.form import Form, Held, Rectangle, RowTile, Sizes, WholeRows

_OTHERS = ("key_keys", "key_columns", "query_rows", "query_columns")
_PRODUCTS = ("value_keys", "value_columns", *_OTHERS)


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Probabilities are made: with a tile of scores, whole rows, resident statistics, values that stay, or windows."""
    stay = _values_stay(sizes), _whole_windows(sizes), _whole_windows(sizes, summed=True)
    return _form(sizes), _whole_rows(sizes), _form(sizes, resident=True), *stay


def reading_forms(sizes: Sizes) -> tuple[Form, ...]:
    """Probabilities are read: statistics pass, or are resident."""
    return _form(sizes, reading=True), _form(sizes, reading=True, resident=True)


def _whole_rows(sizes: Sizes) -> Form:
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(per_score=w, per_row=larger(d, dv) + w, beside=1 + w)
    scores = RowTile("query_tile", "key_tile", held, live=d + dv + 2 * w, loads=d + dv)
    products = (value_product(sizes), key_product(sizes), query_product(sizes))
    fixed = delta_words(sizes) + sizes.keys * (d + dv) + sizes.group * (3 * sizes.scores * w + sizes.rows * d)
    return Form(("query_tile", "key_tile", *_PRODUCTS), (*products, scores), fixed, least_held=w + 2)


def _values_stay(sizes: Sizes) -> Form:
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    made = RowTile("query_tile", "key_tile", Held(per_score=w, per_row=d + w, beside=1), live=d + w, loads=d)
    held = Held(per_score=2 * w, per_row=dv * (1 + w), per_key=w, beside=1)
    used = RowTile("stationary_keys", "passing_queries", held, loads=dv + w, across=True)
    fixed = delta_words(sizes) + sizes.touched_keys * dv + sizes.keys * (d + dv)
    fixed += sizes.group * (3 * sizes.scores * w + sizes.rows * d)
    names = ("query_tile", "key_tile", "stationary_keys", "passing_queries", *_OTHERS)
    return Form(names, (key_product(sizes), query_product(sizes), made, used), fixed, least_held=w + 2)


def _whole_windows(sizes: Sizes, *, summed: bool = False) -> Form:
    d, dv, w, g = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    used = WholeRows("whole_keys", g * w, w, 1, loads=g * (d + dv + w), live=d, across=True)
    fixed = sizes.keys * (d + dv) + g * ((4 if summed else 2) * w * sizes.scores + d * sizes.rows)
    if summed:
        rows = WholeRows("whole_rows", w, w, 1, loads=d + dv, live=dv, spare=w)
        keys = WholeRows("summed_keys", g * w, w, 1, loads=g * d, across=True)
        return Form(("whole_rows", "whole_keys", "summed_keys"), (used, rows, keys), fixed)
    rows = WholeRows("whole_rows", w, 1 + w, 1 + w, loads=d + dv + 2 * d * w, live=d + dv, spare=w)
    return Form(("whole_rows", "whole_keys"), (used, rows), fixed - sizes.touched_keys * (2 * d * w))


def _form(sizes: Sizes, *, reading: bool = False, resident: bool = False) -> Form:
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    width, statistics, travels = (dv, w, 2) if reading else (d + dv, 2 * w, 3)
    rows, keys = ("gradient_rows", "gradient_keys") if reading else ("score_rows", "score_keys")
    # columns pass beside the tile, and then, in their place, D and P of one score; as much is left where D is resident
    if resident:
        rows = "resident_rows"
        held = Held(per_score=w, per_row=1 + w, beside=2 * w - 1)
        scores = Rectangle(rows, keys, (held,), visits=width, loads=width, saved=-statistics, may_pass=True)
    else:
        held = Held(per_score=w, per_row=0 * d + 1, beside=2 * w - 1)
        scores = Rectangle(rows, keys, (held,), visits=width + statistics, loads=width)
    products = (value_product(sizes), key_product(sizes), query_product(sizes))
    own = travels * sizes.scores * w + sizes.rows * d
    fixed = delta_words(sizes) + sizes.keys * (d + dv) + sizes.group * own
    return Form((rows, keys, *_PRODUCTS), (*products, scores), fixed, least_held=w + 2)
