"""Square tiling: scores written tile by tile, read back for the product with V [SY alg. 1].

moved = g ((T(a,b) + U(a)) d + Z w + 2 n w + Z ceil(dv/c) w + U(a) dv + n dv)
peak  = max(a'b'w + (a' + b')min(c, d) + a'w,  a'min(c, dv)w + a'b'w + b'min(c, dv) + 2a'w)

Depth only decides how often the scores are read again; for each number of reads the least depth leaves the most room.
"""

from attenio.masks.patterns.sums import ceil_div, smaller
from attenio.planning.words.cuts import column_tiles
from attenio.planning.words.form import Form, Held, Rectangle, Sizes


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """A form for every number of reads, the least depth first."""
    return tuple(form_at(sizes, depth) for _, depth in reversed(column_tiles(sizes.value_dim)))


def form_at(sizes: Sizes, depth: int) -> Form:
    """Every head by itself, with this depth."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    deep, wide = smaller(depth, d), smaller(depth, dv)
    held = (
        Held(per_score=w, per_row=deep + w, per_key=deep),
        Held(per_score=w, per_row=wide * w + 2 * w, per_key=wide),
    )
    phase = Rectangle("query_tile", "key_tile", held, visits=d, loads=d + dv)
    fixed = sizes.scores * w * (1 + ceil_div(dv, depth)) + sizes.rows * (2 * w + dv)
    names, constant = ("query_tile", "key_tile", "depth_tile"), (("depth_tile", depth),)
    return Form(names, (phase,), sizes.group * fixed, constant=constant, fewest="query_tile")
