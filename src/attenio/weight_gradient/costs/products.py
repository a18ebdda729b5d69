"""Products of n x d with d x d, and of d x n with n x d, as phases of their own. Each happens twice, for X and for Y.

project (weights stay)   n d ceil(d/c) + d^2 + n d w              d c' + c'w + 1
project (rows stay)      n d ceil(d/c) + d^2 ceil(n/p) + n d w    p'c'w + p' + 1
update weights           n d ceil(d/c) + n d w ceil(d/p) + d^2    p'c'w + p' + w
"""

from attenio.planning.problems import Problems


def projection_words(problems: Problems, columns: int) -> int:
    """Both projections, with the weights of some result columns resident while rows pass."""
    n, d, w = problems.rows, problems.d, problems.intermediate_words
    return 2 * (n * d * -(-d // columns) + d * d + n * d * w)


def projection_peak(problems: Problems, columns: int) -> int:
    """Weights, sums of one row, one element."""
    d, c = problems.d, min(columns, problems.d)
    return d * c + c * problems.intermediate_words + 1


def tiled_projection_words(problems: Problems, rows: int, columns: int) -> int:
    """Both projections, with a tile of the result resident while rank-one updates stream past."""
    n, d, w = problems.rows, problems.d, problems.intermediate_words
    return 2 * (n * d * -(-d // columns) + d * d * -(-n // rows) + n * d * w)


def tiled_projection_peak(problems: Problems, rows: int, columns: int) -> int:
    """The tile, a column of elements, one element."""
    p, c = min(rows, problems.rows), min(columns, problems.d)
    return p * c * problems.intermediate_words + p + 1


def update_words(problems: Problems, rows: int, columns: int) -> int:
    """Both weight gradients, with a tile of them resident while rows of elements and intermediates stream past."""
    n, d, w = problems.rows, problems.d, problems.intermediate_words
    return 2 * (n * d * -(-d // columns) + n * d * w * -(-d // rows) + d * d)


def update_peak(problems: Problems, rows: int, columns: int) -> int:
    """The tile, part of a row of elements, one intermediate."""
    p, c, w = min(rows, problems.d), min(columns, problems.d), problems.intermediate_words
    return p * c * w + p + w
