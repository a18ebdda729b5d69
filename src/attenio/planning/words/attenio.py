"""AttenIO: queries and outputs stay, keys and values stream through one buffer [AttenIO alg. 1].

moved = g (L(a) d + n dv + U(a)(d + dv))
peak  = a'd + a'(dv+3)w + a'b'w + b'max(d, dv)

Values that are part of their keys are there when the keys are: U(a) d in place of U(a)(d + dv). Where e entries of keys
and values share a word, U(a)(d + dv)/e are read into b'max(d, dv)/e words; so in every dataflow that reads whole keys.
"""

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import larger
from attenio.planning.words.form import Form, Held, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself."""
    passing = larger(sizes.one_key, sizes.one_value)
    phase = RowTile("query_tile", "key_tile", held(sizes, passing), live=sizes.d, loads=sizes.key_words)
    return (Form(("query_tile", "key_tile"), (phase,), sizes.group * sizes.rows * sizes.value_dim),)


def held(sizes: Sizes, per_key: Counts) -> Held:
    """Queries, outputs, three statistics and scores of a row, and so many words of a key."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    return Held(per_score=w, per_row=d + (dv + 3) * w, per_key=per_key)
