"""A plan's tiles to scale: scores and mask, one tile with the rows of Q, K, V and O that it takes, what is held."""

import numpy as np

from attenio.planning.plan import Plan
from attenio.quantities import show_count, show_words
from attenio.report.pictures.canvas import box, outline, picture, text
from attenio.workload import Direction

_WIDTH, _HEIGHT = 640.0, 440.0
_X, _Y, _SIDE = 150.0, 110.0, 260.0
_STRIP = 26.0
_CELLS = 48  # of a mask's picture along each side
# Names that dataflows have for the rows of a tile, and for its keys.
_ROWS = (
    "query_tile",
    "rolling_rows",
    "exchanged_rows",
    "stacked_rows",
    "group_positions",
    "resident_rows",
    "whole_rows",
)
_KEYS = ("key_tile", "rolling_keys", "ring_keys")
# Names that say that rows, or keys, pass one by one.
_ONE_ROW = frozenset(("kept_rows", "ring_keys", "ring_rows", "row_sums", "turn_rows", "masked_turn_rows"))
_ONE_KEY = frozenset(
    ("kept_keys", "exchanged_keys", "key_sums", "late_rows", "ring_rows", "turn_keys", "masked_turn_keys")
)


def tiles_svg(plan: Plan) -> str:
    """The picture of a plan; its description has the sizes in words."""
    workload = plan.workload
    rows, keys = _tile(plan)
    queries = max(workload.queries, 1)
    height, width = _SIDE * min(rows / queries, 1), _SIDE * min(keys / workload.keys, 1)
    parts = [
        text(20, 28, "One tile, to scale", font_size="18", font_weight="600"),
        text(20, 48, f"{plan.dataflow.value}: {plan.tiles}", "soft"),
        *_mask(plan),
        outline(_X, _Y, _SIDE, _SIDE),
        outline(_X - _STRIP - 10, _Y, _STRIP, _SIDE),
        outline(_X, _Y - _STRIP - 10, _SIDE, _STRIP),
        outline(_X + _SIDE + 10, _Y, _STRIP, _SIDE),
        box(_X, _Y, width, height, "output", opacity="0.85"),
        box(_X - _STRIP - 10, _Y, _STRIP, height, "query"),
        box(_X, _Y - _STRIP - 10, width, _STRIP, "key"),
        box(_X + _SIDE + 10, _Y, _STRIP, height, "output"),
        text(_X - _STRIP - 16, _Y + 14, "Q", "query", text_anchor="end"),
        text(_X + _SIDE + 46, _Y + 14, "O", "output"),
        text(_X - 8, _Y - 18, "K, V", "key", text_anchor="end"),
        text(_X + _SIDE / 2, _Y + _SIDE + 22, show_count(workload.keys, "key"), "soft", text_anchor="middle"),
        text(_X - 44, _Y + _SIDE + 22, show_count(workload.queries, "query"), "soft", text_anchor="middle"),
        *_memory(plan),
    ]
    return picture(_WIDTH, _HEIGHT, "One tile, to scale", _description(plan, rows, keys), parts)


def _tile(plan: Plan) -> tuple[int, int]:
    """Queries and keys of a tile of scores, by whatever names the dataflow has for them."""
    tiles = dict(plan.tiles)
    # what passes does so one by one
    one_row, one_key = not _ONE_ROW.isdisjoint(tiles), not _ONE_KEY.isdisjoint(tiles)
    rows = next((tiles[name] for name in _ROWS if name in tiles), 0) or (
        1 if one_row else tiles.get("score_rows", plan.workload.queries)
    )
    of_keys = next((tiles[name] for name in _KEYS if name in tiles), 0) or tiles.get("score_keys", plan.workload.keys)
    keys = 1 if one_key else of_keys
    return min(rows, plan.workload.queries), min(keys, plan.workload.keys)


def _mask(plan: Plan) -> list[str]:
    """The required scores, looked at in the middle of each cell of a grid; of documents the first one."""
    pattern, _ = plan.workload.separate_patterns[0]
    rows, keys = int(pattern.rows), int(pattern.keys)
    down, across = min(_CELLS, rows), min(_CELLS, keys)
    middles = (2 * np.arange(across, dtype=np.int64) + 1) * keys // (2 * across)
    seen = [min(rows - 1, (2 * i + 1) * rows // (2 * down)) for i in range(down)]
    needed = np.zeros((down, across + 2), dtype=np.int8)
    for i, row in enumerate(seen):
        needed[i, 1:-1] = pattern.required(row, row + 1, middles.astype(np.intp))[0]
    # runs of required cells begin and end in turn
    at, edges = (found.tolist() for found in np.nonzero(np.diff(needed, axis=1)))
    tall, wide = _SIDE / down, _SIDE / across
    return [
        box(_X + wide * first, _Y + tall * i, wide * (stop - first), tall + 0.5, "score")
        for i, first, stop in zip(at[::2], edges[::2], edges[1::2], strict=True)
    ]


def _memory(plan: Plan) -> list[str]:
    """How full the fast memory is at most."""
    x, y, width = _X + _SIDE + 110, _Y, 60.0
    share = plan.peak_words / max(plan.fast_words, 1)
    filled = _SIDE * min(share, 1)
    return [
        text(x + width / 2, y - 18, "fast memory", "soft", text_anchor="middle"),
        outline(x, y, width, _SIDE),
        box(x, y + _SIDE - filled, width, filled, "query", opacity="0.75"),
        text(x + width / 2, y + _SIDE + 22, f"{share:.1%} in use", "soft", text_anchor="middle"),
    ]


def _description(plan: Plan, rows: int, keys: int) -> str:
    way = "" if plan.workload.direction is Direction.FORWARD else f" ({plan.workload.direction.value})"
    return (
        f"{plan.dataflow.value}{way}: a tile of {rows:,} of {show_count(plan.workload.queries, 'query')} and"
        f" {keys:,} of"
        f" {show_count(plan.workload.keys, 'key')}. It holds at most {show_words(plan.peak_words)} of"
        f" {plan.fast_words:,} in fast"
        f" memory and moves {show_words(plan.moved_words)}."
    )
