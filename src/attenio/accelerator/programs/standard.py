"""Standard attention on the same hardware: three operators one after the other, nothing overlaps.

    S = Q K^T:    for each tile of scores: for each depth: load a column of Q and one of K; add their products
                      store the tile
    P = softmax:  for each row: load it; maximum along it; subtract, exponentials; sum along it; divide; store it
    O = P V:      for each tile of outputs: for each key: load a column of P and a row of V; add their products
                      store the tile

Every pair of columns begins at a new place in memory, so it meets closed rows. Matrices are taken to lie as they are
read: Q and K by columns, P by columns although the softmax makes it by rows.
"""

from dataclasses import dataclass

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Node, repeat
from attenio.accelerator.programs.steps import Steps
from attenio.accelerator.step import Operation, Work
from attenio.masks.patterns import Pattern
from attenio.planning.plan import Tiles


@dataclass(frozen=True, kw_only=True)
class Standard:
    """Three operators with their tiles."""

    hardware: Hardware
    d: int
    value_dim: int
    tiles: Tiles

    def head(self, pattern: Pattern) -> tuple[Node, ...]:
        """One head of one sequence, blind to the mask."""
        rows, keys, tiles = pattern.rows, pattern.keys, self.tiles
        scores = outer_products(
            self.hardware, "QK", "S", (rows, keys, self.d), (tiles["score_rows"], tiles["score_keys"])
        )
        outputs = outer_products(
            self.hardware, "PV", "O", (rows, self.value_dim, keys), (tiles["output_rows"], tiles["output_columns"])
        )
        return (*scores, *repeat(rows, *self._row(keys)), *outputs)

    def _row(self, keys: int) -> tuple[Node, ...]:
        """The softmax of a row; the part that does not stay is read a second time."""
        steps = Steps(hardware=self.hardware)
        again = keys - min(self.tiles["resident_keys"], keys)
        return (
            steps.load("S", keys, after=("store S", "store P")).doing(Operation.LOAD_SCORES, rows=1, keys=keys),
            steps.reduction("maxima", keys, after=("load S",)),
            steps.map("subtract", keys, after=("maxima",)).doing(Operation.MAXIMUM, rows=1, keys=keys),
            steps.exponentials(keys, after=("subtract",)).doing(Operation.EXPONENTIALS, rows=1, keys=keys),
            steps.reduction("row sums", keys, after=("exponentials",), adds=True).doing(
                Operation.SUM, rows=1, keys=keys
            ),
            *((steps.load("S", again, after=("row sums",), jump=True),) if again else ()),
            steps.map("divide", keys, after=("row sums", "load S"), divides=True).doing(
                Operation.NORMALISE, rows=1, keys=keys
            ),
            steps.store("P", keys, after=("divide",)).doing(Operation.STORE_OUTPUTS, rows=1, keys=keys),
        )


def outer_products(
    hardware: Hardware, operands: str, result: str, shape: tuple[int, int, int], tile: tuple[int, int]
) -> tuple[Node, ...]:
    """A product of rows x columns results over a depth, tile by tile, one outer product at a time [COSMA]."""
    rows, columns, depth = shape
    nodes: tuple[Node, ...] = ()
    for row_count, height in _cuts(rows, tile[0]):
        line: tuple[Node, ...] = ()
        for column_count, width in _cuts(columns, tile[1]):
            line += repeat(column_count, *_result_tile(hardware, operands, result, (height, width, depth)))
        nodes += repeat(row_count, *line)
    return nodes


def _result_tile(hardware: Hardware, operands: str, result: str, size: tuple[int, int, int]) -> tuple[Node, ...]:
    height, width, depth = size
    steps, macs = Steps(hardware=hardware), height * width
    # the two columns are requested together, so that both rows open at once
    load = steps.load(
        operands, height + width, after=("products", f"store {result}", "store S", "store P"), jump=True
    ).doing(Operation.LOAD_COLUMNS, rows=height, keys=width)
    cycles = hardware.pe.broadcast_cycles(rows=height, steps=width) + hardware.pe.silicon.latency_cycles
    work = Work(macs=macs, cache_words=2 * macs + height, kv_words=width)
    products = steps.on_array("products", cycles, (load.name,), work).doing(
        Operation.OUTER_PRODUCT, rows=height, keys=width
    )
    store = steps.store(result, height * width, after=("products",), run_words=width)
    return (*repeat(depth, load, products), store.doing(Operation.STORE_TILE, rows=height, keys=width))


def _cuts(length: int, tile: int) -> list[tuple[int, int]]:
    whole, rest = divmod(length, tile)
    return [(count, size) for count, size in ((whole, tile), (1 if rest else 0, rest)) if count]
