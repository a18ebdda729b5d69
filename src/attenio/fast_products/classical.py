"""The ordinary product QKᵀ on the counted memory.

result-stationary, for each tile of rows x keys scores:
    S = 0;  for each depth t:  load a column of Q;  for each key load one word of K;  add their products
    store S
row-stationary, for each tile of rows:
    load the rows of Q
    for each key:  load its row of K;  S = the column of scores;  store S
"""

from attenio.fast_products.events import Multiplied
from attenio.fast_products.shape import Block
from attenio.fast_products.words import Order, ProductTile
from attenio.memory import EventKind, FastMemory, Tile
from attenio.memory.indices import as_array, cuts, singles, span


def multiply(fast: FastMemory, Q: Block, K: Block, S: Block, tile: ProductTile) -> None:
    """Store the product of the blocks Q and K transposed to the block S."""
    if tile.order is Order.RESULT_STATIONARY:
        _result_stationary(fast, Q, K, S, tile)
    else:
        _row_stationary(fast, Q, K, S, tile.rows)


def _result_stationary(fast: FastMemory, Q: Block, K: Block, S: Block, tile: ProductTile) -> None:
    a, b = tile.rows, tile.keys
    with (
        fast.buffer("S", a, b) as S_buffer,
        fast.buffer("Q", a, 1) as Q_column,
        fast.buffer("K", 1, 1) as K_word,
    ):
        for rows in cuts(Q.height, a):
            for keys in cuts(K.height, b):
                held = S.part(rows, keys)
                S_ij = S_buffer.zeros(held.rows, held.columns)
                for depth in singles(Q.width):
                    Q_part, K_part = Q.part(rows, depth), K.part(keys, depth)
                    with (
                        Q_column.holding(Q.array, Q_part.rows, Q_part.columns) as Q_t,
                        K_word.streaming(K.array, K_part.rows, K_part.columns, along="rows") as K_t,
                    ):
                        S_ij.values += Q_t.values * K_t.values.T
                        _note(fast, (Q, K, S), (rows, keys, depth))
                fast.store(S_ij, S.array)


def _row_stationary(fast: FastMemory, Q: Block, K: Block, S: Block, a: int) -> None:
    with (
        fast.buffer("Q", a, Q.width) as Q_buffer,
        fast.buffer("K", 1, K.width) as K_buffer,
        fast.buffer("S", a, 1) as S_column,
    ):
        for rows in cuts(Q.height, a):
            with Q_buffer.holding(Q.array, Q.part(rows, span(Q.width)).rows, Q.columns) as Q_i:
                for key in singles(K.height):
                    held = S.part(rows, key)
                    S_j: Tile = S_column.over(held.rows, held.columns)
                    with K_buffer.holding(K.array, K.part(key, span(K.width)).rows, K.columns) as K_j:
                        S_j.values[...] = Q_i.values @ K_j.values.T
                        _note(fast, (Q, K, S), (rows, key, span(Q.width)))
                    fast.store(S_j, S.array)


def _note(fast: FastMemory, blocks: tuple[Block, Block, Block], where: tuple[slice, slice, slice]) -> None:
    """Record a product of parts; S is always a whole array, so its rows and columns need no corner."""
    if fast.trace.record:
        (Q, K, S), (rows, keys, depth) = blocks, where
        fast.trace.events.append(
            Multiplied(
                kind=EventKind.COMPUTE,
                operand=S.array.name,
                rows=as_array(rows),
                columns=as_array(keys),
                inner=as_array(depth),
                stream=fast.trace.stream,
                left=Q.array.name,
                right=K.array.name,
                left_corner=Q.corner,
                right_corner=K.corner,
                depth=Q.width,
            )
        )
