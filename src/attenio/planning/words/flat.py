"""FLAT: complete rows of scores on chip [FLAT].

    moved = g (L(a) d + n dv + U(a)(d + dv))
    peak  = a'(d + m w + dv w) + max(d, dv, 2w)

With ``resident_keys``, rows that do not fit: the first r scores of a row stay, the others are stored and loaded back.

    moved = g (R d + n dv + Z(d + dv) + 2w X(r))
    peak  = d + dv w + r'w + max(d, dv) + 3w

All keys are gone when values come, so that values which are part of them are read again.
"""

from attenio.masks.patterns.sums import larger
from attenio.planning.words.form import Form, Held, Resident, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Complete rows, then one row at a time."""
    d, dv, w, group = sizes.d, sizes.value_dim, sizes.intermediate_words, sizes.group
    both, passing = sizes.one_key + sizes.one_value, larger(sizes.one_key, sizes.one_value)
    held = Held(per_score=w, per_row=d + dv * w, beside=larger(passing, 2 * w))
    complete = RowTile("query_tile", None, held, live=d, loads=both)
    spilling = Resident("resident_keys", per_score=2 * w, beside=d + dv * w + passing + 3 * w)
    own = sizes.touched_rows * d + sizes.rows * dv + sizes.scores * both
    return (
        Form(("query_tile",), (complete,), group * sizes.rows * dv),
        Form(("query_tile", "resident_keys"), (spilling,), group * own, constant=(("query_tile", 1),)),
    )
