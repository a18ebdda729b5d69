"""FlashAttention-2 on the same hardware: nothing overlaps, and softmax runs along rows [FA2].

for each tile i of queries:
    load Q_i
    for each tile j of keys:
        load K_j and V_j
        S = Q_i K_j^T;  maxima along rows;  subtract, exponentials;  sums along rows
        O_i = rescaled O_i + P V_j
    normalise O_i; store O_i
"""

from functools import lru_cache, partial

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Node
from attenio.accelerator.programs.query_tiles import Keys, query_tiles, stream, tiles_of_run
from attenio.accelerator.programs.steps import Steps
from attenio.accelerator.step import Operation
from attenio.masks.patterns import Pattern


def flash_attention_2_head(
    hardware: Hardware, pattern: Pattern, tiles: tuple[int, int], widths: tuple[int, int]
) -> tuple[Node, ...]:
    """One head of one sequence; ``tiles`` of queries and keys, ``widths`` of keys and values."""
    nodes: tuple[Node, ...] = ()
    for run in query_tiles(pattern, tiles[0]):
        tile = partial(_tile, Steps(hardware=hardware), run.rows, tiles[1], widths)
        nodes += tiles_of_run(run, (0, tiles[1] - 1), tile)
    return nodes


def _tile(steps: Steps, rows: int, key_tile: int, widths: tuple[int, int], keys: Keys) -> tuple[Node, ...]:
    queries, finish = _ends(steps, rows, widths)
    if keys.most == 0:
        return finish
    return (*queries, *stream(keys, key_tile, partial(_keys, steps, rows, widths), jump=True), *finish)


@lru_cache(maxsize=4096)
def _ends(steps: Steps, rows: int, widths: tuple[int, int]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What a tile of queries begins and ends with."""
    d, value_dim = widths
    load = steps.load("Q", rows * d, after=("store O",)).doing(Operation.LOAD_QUERIES, rows=rows)
    return (load,), steps.finished(rows, value_dim)


@lru_cache(maxsize=4096)
def _keys(steps: Steps, rows: int, widths: tuple[int, int], keys: int, jump: bool) -> tuple[Node, ...]:
    d, value_dim = widths
    scores = rows * keys  # the new maximum is subtracted from them, and from the old one of every row
    return (
        steps.load("K", keys * d, after=("outputs", "load Q"), jump=jump).doing(
            Operation.LOAD_KEYS, rows=rows, keys=keys
        ),
        steps.load("V", keys * value_dim, after=("outputs",)).doing(Operation.LOAD_VALUES, rows=rows, keys=keys),
        steps.scores(rows, keys, d, after=("load Q", "load K", "load V")),
        steps.reduction("maxima", scores, after=("scores",)),
        steps.map("subtract", scores + rows, after=("maxima",)).doing(Operation.MAXIMUM, rows=rows, keys=keys),
        steps.exponentials(scores, after=("subtract",)).doing(Operation.EXPONENTIALS, rows=rows, keys=keys),
        steps.exponentials(rows, after=("subtract",), name="rescaling").doing(Operation.RESCALING, rows=rows),
        steps.reduction("row sums", scores, after=("exponentials", "rescaling"), adds=True).doing(
            Operation.SUM, rows=rows, keys=keys
        ),
        steps.map("rescale", rows * (value_dim + 1), after=("row sums",)),  # outputs and the sum so far
        steps.outputs((rows, keys, value_dim), after=("load V", "rescale")),
    )
