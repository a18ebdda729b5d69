"""Whether a run fits the computer that executes it, which has to hold the counted machine's slow memory."""

from typing import assert_never

from attenio.errors import DoesNotFit
from attenio.masks.patterns import Band
from attenio.planning.nested import NestedPlan
from attenio.planning.plan import (
    ApproximateDataflow,
    Dataflow,
    GradientDataflow,
    Plan,
    Tiles,
    is_approximate,
    is_exact_forward,
    is_exact_gradient,
    takes_heads_as_rows,
)
from attenio.planning.training import TrainingPlan
from attenio.quantities import show_bytes
from attenio.workload import Direction, Workload

HOST_LIMIT_BYTES = 4 * 2**30

_BYTES_PER_VALUE = 4  # every value is kept as float32, whatever its counted width


def check_host_memory(plan: Plan | NestedPlan | TrainingPlan) -> None:
    """Refuse a run whose inputs, tiles and spilled intermediates would not fit into the limit."""
    if isinstance(plan, TrainingPlan):
        for one in (plan.forward, plan.backward):
            check_host_memory(one)
        return
    workload = plan.workload
    fast = sum(plan.peak_words) if isinstance(plan, NestedPlan) else plan.peak_words
    held = _BYTES_PER_VALUE * (_inputs_and_outputs(workload) + fast)
    spilled = 0 if isinstance(plan, NestedPlan) else _BYTES_PER_VALUE * _spilled_values(plan)
    if held + spilled <= HOST_LIMIT_BYTES:
        return
    if held > HOST_LIMIT_BYTES:
        raise DoesNotFit(
            f"running {workload} would take {show_bytes(held)} of this computer's memory for inputs, outputs and"
            f" fast memory, over the limit of {show_bytes(HOST_LIMIT_BYTES)}; use a smaller n, batch or number of heads"
        )
    assert isinstance(plan, Plan)
    raise DoesNotFit(
        f"running {plan.dataflow.value} would take {show_bytes(held + spilled)} of this computer's memory,"
        f" {show_bytes(spilled)} of it for intermediates in slow memory, over the limit of"
        f" {show_bytes(HOST_LIMIT_BYTES)}; use a smaller n, or a dataflow that does not spill such as"
        f" {'two-pass' if workload.direction is Direction.BACKWARD else 'attenio'}"
    )


def _inputs_and_outputs(workload: Workload) -> int:
    """Values of q, k, v and the output, and of the copies that one problem makes.

    For the gradient, twice as many and those of the definition, which are twice as wide.
    """
    rows = workload.heads * workload.queries * (workload.d + workload.value_dim)
    keys = workload.kv_heads * workload.keys * (workload.d + workload.value_dim)
    copies = 6 if workload.direction is Direction.BACKWARD else 2
    return copies * workload.batch * (rows + keys)


def _spilled_values(plan: Plan) -> int:
    """Intermediates in slow memory of the largest problem; problems run one after the other."""
    workload, tiles, width = plan.workload, plan.tiles, plan.workload.value_dim
    as_rows = is_exact_forward(plan.dataflow) and takes_heads_as_rows(workload, plan.dataflow)
    together = workload.group if as_rows else 1
    shapes = [(together * int(pattern.rows), int(pattern.keys)) for pattern, _ in workload.separate_patterns]
    scores = max(rows * keys for rows, keys in shapes)
    longest = max(rows for rows, _ in shapes)
    if is_exact_gradient(plan.dataflow):
        return _spilled_gradients(workload, plan.dataflow, tiles)
    if is_approximate(plan.dataflow):
        return _spilled_features(workload, plan.dataflow, longest)
    assert is_exact_forward(plan.dataflow)
    match plan.dataflow:
        case Dataflow.ATTENIO | Dataflow.FLASH_ATTENTION_2 | Dataflow.STACKED_GROUPS:
            return 0
        case Dataflow.FLAT:
            return max(keys for _, keys in shapes)
        case Dataflow.STANDARD:
            return 2 * scores
        case Dataflow.SQUARE_TILING:
            return scores + longest
        case Dataflow.RANK_ONE_TILING:
            return 2 * scores if "resident_keys" in tiles else scores
        case Dataflow.SCORE_STATIONARY:
            return longest * width if "query_tile" in tiles else 0
        case Dataflow.KEPT_KEYS:
            if not {"exchanged_rows", "exchanged_keys"}.isdisjoint(tiles):  # as much as inputs and outputs again
                return workload.group * longest * (workload.d + width + 2) + max(keys for _, keys in shapes) * (
                    workload.d + width
                )
            names = ("query_tile", "rolling_rows", "stacked_rows", "group_positions")
            tile = next(tiles[name] for name in names if name in tiles)
            return longest // max(1, min(tile, longest)) * max(keys for _, keys in shapes)
        case Dataflow.KEPT_ROWS:
            return longest * (width + 2) + scores // max(1, tiles["key_tile"]) + _visits(shapes, tiles["key_tile"])
        case Dataflow.FLASH_ATTENTION_1:
            return workload.group * longest * (width + 2) + _visits(shapes, tiles["key_tile"])
        case Dataflow.SPLIT_KEYS:
            stacked = [(int(pattern.rows), int(pattern.keys)) for pattern, _ in workload.stacked_patterns]
            splits = max(rows * -(-keys // tiles["keys_per_split"]) for rows, keys in stacked)
            return workload.group * splits * (width + 2)
        case _:
            assert_never(plan.dataflow)


def _spilled_features(workload: Workload, dataflow: ApproximateDataflow, longest: int) -> int:
    """The same where a polynomial takes the place of the exponential."""
    match dataflow:
        case Dataflow.FEATURE_STATE | Dataflow.WINDOW_AND_FEATURES:
            return 0
        case Dataflow.VALUE_COLUMNS | Dataflow.FEATURE_BLOCKS:
            return workload.group * longest * (workload.value_dim + 2)
        case Dataflow.FEATURE_GRADIENT:
            return 2 * workload.group * longest
        case _:
            assert_never(dataflow)


def _spilled_gradients(workload: Workload, dataflow: GradientDataflow, tiles: Tiles) -> int:
    """The same for the gradient, whose problems are the heads of a group together."""
    together = workload.group if workload.heads_are_rows else 1
    shapes = [(together * int(pattern.rows), int(pattern.keys)) for pattern, _ in workload.separate_patterns]
    group = workload.group // together
    rows, keys = group * max(n for n, _ in shapes), max(m for _, m in shapes)
    scores = group * max(n * m for n, m in shapes)
    match dataflow:
        case Dataflow.KEY_STATIONARY:
            return rows * (workload.d + 1) + _visits(shapes, tiles["key_tile"])
        case Dataflow.KEPT_ROW_GRADIENTS:
            if "masked_turn_rows" in tiles:
                return rows * (workload.d + 1)
            if not {"waiting_keys", "first_keys"}.isdisjoint(tiles):
                return rows
            if "ring_rows" in tiles:
                return 0
            tile = tiles.get("rolling_keys", 0) or tiles["key_tile"]
            listed = scores // (group * max(1, tile))  # who meets which tile
            return rows * (workload.d + 1) + listed + _visits(shapes, tile)
        case Dataflow.QUERY_STATIONARY:
            turning = not {"turn_keys", "masked_turn_keys"}.isdisjoint(tiles)
            return keys * (workload.d + workload.value_dim) + (rows if turning else 0)
        case Dataflow.TWO_PASS if "ring_keys" in tiles:
            return rows
        case Dataflow.TWO_PASS:
            keys_held = tiles.get("rolling_keys", 0) or tiles["stationary_keys"]
            held = tiles.get("rolling_rows", 0)
            turns = scores // (group * held) if held else 0  # which key has which
            return rows + turns + _visits(shapes, keys_held)
        case Dataflow.TILED_PRODUCTS if "whole_rows" in tiles:  # of a window, what it has and where that begins
            ((window, _),) = workload.separate_patterns
            assert isinstance(window, Band)
            longest = int(window.longest_row)
            return rows * (2 + longest * (2 if "summed_keys" in tiles else 1)) + keys * (workload.d + 4)
        case Dataflow.TILED_PRODUCTS:
            area = sum(int(p.rows) * int(p.keys) * count for p, count in workload.separate_patterns)
            saved = workload.batch * workload.heads * area if "gradient_keys" in tiles else 0
            visits = _visits(shapes, tiles["stationary_keys"]) if "stationary_keys" in tiles else 0
            return rows + 2 * scores + saved + visits
        case Dataflow.FUSED_VALUES:
            return rows + scores + keys * workload.value_dim
        case Dataflow.SPILLED_GRADIENTS:
            return rows + scores + _visits(shapes, tiles["key_tile"])
        case _:
            assert_never(dataflow)


def _visits(shapes: list[tuple[int, int]], key_tile: int) -> int:
    """Which key tiles visit which rows, a byte each."""
    return max(rows * -(-keys // key_tile) for rows, keys in shapes) // _BYTES_PER_VALUE
