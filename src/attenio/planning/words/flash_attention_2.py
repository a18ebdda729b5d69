"""FlashAttention-2: as AttenIO, with a key and its value in fast memory together [FA2].

moved = as AttenIO
peak  = a'd + a'(dv+3)w + a'b'w + b'(d + dv)
"""

from attenio.planning.words.attenio import held
from attenio.planning.words.form import Form, RowTile, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself."""
    keys = sizes.key_words
    phase = RowTile("query_tile", "key_tile", held(sizes, keys), live=sizes.d, loads=keys)
    return (Form(("query_tile", "key_tile"), (phase,), sizes.group * sizes.rows * sizes.value_dim),)
