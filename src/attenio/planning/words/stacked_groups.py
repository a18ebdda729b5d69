"""Stacked groups: AttenIO's nest over a tile of positions times a tile of the heads that share their keys.

moved = g (L(p) d + n dv) + ceil(g/h) U(p)(d + dv)
peak  = as AttenIO with h'p' rows
"""

from attenio.masks.patterns.sums import larger
from attenio.planning.words.attenio import held
from attenio.planning.words.form import Form, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """The heads of a tile together."""
    room = held(sizes, larger(sizes.one_key, sizes.one_value))
    phase = RowTile("query_tile", "key_tile", room, live=sizes.d, loads=sizes.key_words, heads="head_tile")
    names = ("query_tile", "head_tile", "key_tile")
    return (Form(names, (phase,), sizes.group * sizes.rows * sizes.value_dim),)
