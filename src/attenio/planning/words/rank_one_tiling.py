"""Rank-one tiling: the two phases of square tiling, each with one resident tile that rank-one updates stream into.

moved = g ((T(a,b) + U(a)) d + Z w + Z ceil(dv/c) w + U(p) dv + n dv)
peak  = max(a'b'w + a' + 1,  p'c'w + 3p'w + 1)

From about d²/4 words on it is better that whole rows of queries stay and elements of keys pass, in runs of b:

moved = g (L(a) d + U(a) d + Z w + Z ceil(dv/c) w + U(p) dv + n dv)
peak  = max(a'd + a'b'w + 1,  p'c'w + 3p'w + 1)

With ``later_rows`` q the first c value columns settle the maxima and sums, which the r - 1 later tiles of columns read
back, r = ceil(dv/c): after the first phase as in either form these move, and hold,

moved = g (Z r w + U(p) c' + U(q)(dv - c') + (r + 2) n w + n dv)     r > 1
peak  = max(p'c'w + 3p'w + 1,  q'c'w + 2q'w + 1)

Where not even a tile of scores fits, probabilities are written between the phases, a row at a time of which r scores
stay (and X(r) do not):

moved = g ((T(a,b) + U(a)) d + 3 Z w + X(r) w + Z ceil(dv/c) w + U(p) dv + n dv)
peak  = max(a'b'w + a' + 1,  (r' + 3) w,  p'c'w + p'w + 1)
"""

from attenio.planning.words.form import Form, Held, Product, Rectangle, Resident, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself: a tile of scores, whole rows of queries, probabilities that are written, settled sums."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    scores = _scores(sizes)
    outputs = Product("output_rows", "output_columns", width=dv, extra=3)
    fixed = sizes.group * (sizes.scores * w + sizes.rows * dv)
    tile_of_scores = Form(("score_rows", "score_keys", "output_rows", "output_columns"), (outputs, scores), fixed)
    queries = RowTile("query_tile", "key_tile", Held(per_score=w, per_row=d, beside=1), live=d, loads=d)
    whole_queries = Form(("query_tile", "key_tile", "output_rows", "output_columns"), (outputs, queries), fixed)
    settled = outputs._replace(later="later_rows")
    return (
        tile_of_scores,
        whole_queries,
        _with_probabilities(sizes),
        Form((*tile_of_scores.names, "later_rows"), (settled, scores), fixed),
        Form((*whole_queries.names, "later_rows"), (settled, queries), fixed),
    )


def _scores(sizes: Sizes) -> Rectangle:
    d, w = sizes.d, sizes.intermediate_words
    held = Held(per_score=w, per_row=0 * d + 1, beside=1)
    return Rectangle("score_rows", "score_keys", (held,), visits=d, loads=d)


def _with_probabilities(sizes: Sizes) -> Form:
    dv, w = sizes.value_dim, sizes.intermediate_words
    phases = (
        Resident("resident_keys", per_score=w, beside=3 * w),
        Product("output_rows", "output_columns", width=dv),
        _scores(sizes),
    )
    names = ("score_rows", "score_keys", "resident_keys", "output_rows", "output_columns")
    return Form(names, phases, sizes.group * (3 * sizes.scores * w + sizes.rows * dv))
