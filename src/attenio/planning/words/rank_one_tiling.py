"""Rank-one tiling: the two phases of square tiling, each with one resident tile that rank-one updates stream into.

moved = g ((T(a,b) + U(a)) d + Z w + 2 n w + Z ceil(dv/c) w + U(p) dv + n dv)
peak  = max(a'b'w + a' + 1 + a'w,  p'c'w + 3p'w + 1)
"""

from attenio.planning.words.form import Form, Held, Product, Rectangle, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(per_score=w, per_row=1 + w, beside=1)
    scores = Rectangle("score_rows", "score_keys", (held,), met=d, loads=d)
    outputs = Product("output_rows", "output_columns", width=dv, extra=3)
    fixed = sizes.group * (sizes.scores * w + sizes.rows * (2 * w + dv))
    return (Form(("score_rows", "score_keys", "output_rows", "output_columns"), (outputs, scores), fixed),)
