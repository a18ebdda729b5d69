"""Standard attention: three operators one after the other, blind to the mask; products tiled as in [COSMA].

scores    loads n d ceil(m/b) + m d ceil(n/a), stores nm w             peak a'b'w + a' + 1
softmax   loads n (m + (m - r')) w, stores nm w                        peak (r' + 3) w
outputs   loads nm w ceil(dv/c) + m dv ceil(n/p), stores n dv          peak p'c'w + p'w + 1
"""

from attenio.planning.words.form import Form, Held, Product, Rectangle, Resident, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(per_score=w, per_row=0 * d + 1, beside=1)
    phases = (
        Resident("resident_keys", per_score=w, beside=3 * w, every=True),
        Product("output_rows", "output_columns", width=dv, every=True),
        Rectangle("score_rows", "score_keys", (held,), visits=d, loads=d, every=True),
    )
    names = ("score_rows", "score_keys", "resident_keys", "output_rows", "output_columns")
    # scores written, and read and written by the softmax
    return (Form(names, phases, sizes.group * (3 * sizes.area * w + sizes.rows * dv)),)
