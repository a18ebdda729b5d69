"""Split keys: the keys of a tile are cut into runs that are worked on independently and merged afterwards.

moved = ceil(g/h) U(p)(d + dv) + g (T(p,z) d + 2 T(p,z)(dv+2)w + n dv)
peak  = max(as stacked groups, (2dv+4)w)
"""

from attenio.masks.patterns.sums import larger
from attenio.planning.words.attenio import held
from attenio.planning.words.form import Form, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every run costs a row its query, and its partial output and statistics out and in again."""
    dv, w = sizes.value_dim, sizes.intermediate_words
    phase = RowTile(
        "query_tile",
        "key_tile",
        held(sizes, larger(sizes.one_key, sizes.one_value)),
        loads=sizes.key_words,
        heads="head_tile",
        visits=sizes.d + 2 * (dv + 2) * w,
        split="keys_per_split",
    )
    names = ("query_tile", "head_tile", "keys_per_split", "key_tile")
    return (Form(names, (phase,), sizes.group * sizes.rows * dv, least_held=(2 * dv + 4) * w),)
