"""Whether a run fits the computer that executes it, which has to hold the counted machine's slow memory."""

from typing import assert_never

from attenio.errors import DoesNotFit
from attenio.planning.nested_plan import NestedPlan
from attenio.planning.plan import Dataflow, Plan
from attenio.quantities import show_bytes
from attenio.workload import Workload

__all__ = ["HOST_LIMIT_BYTES", "check_host_memory"]

HOST_LIMIT_BYTES = 4 * 2**30

_BYTES_PER_VALUE = 4  # every value is kept as float32, whatever its counted width


def check_host_memory(plan: Plan | NestedPlan) -> None:
    """Refuse a run whose inputs, tiles and spilled intermediates would not fit into the limit."""
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
        f" {show_bytes(HOST_LIMIT_BYTES)}; use a smaller n, or a dataflow that does not spill such as attenio"
    )


def _inputs_and_outputs(workload: Workload) -> int:
    """Values of q, k, v and the output, and of the copies that one problem makes."""
    rows = workload.heads * workload.queries * (workload.d + workload.value_dim)
    keys = workload.kv_heads * workload.keys * (workload.d + workload.value_dim)
    return 2 * workload.batch * (rows + keys)


def _spilled_values(plan: Plan) -> int:
    """Intermediates in slow memory of the largest problem; problems run one after the other."""
    workload, tiles, width = plan.workload, plan.tiles, plan.workload.value_dim
    shapes = [(int(pattern.rows), int(pattern.keys)) for pattern, _ in workload.separate_patterns]
    scores = max(rows * keys for rows, keys in shapes)
    longest = max(rows for rows, _ in shapes)
    match plan.dataflow:
        case Dataflow.ATTENIO | Dataflow.FLASH_ATTENTION_2 | Dataflow.STACKED_GROUPS:
            return 0
        case Dataflow.FLAT:
            return max(keys for _, keys in shapes)
        case Dataflow.STANDARD:
            return 2 * scores
        case Dataflow.SQUARE_TILING | Dataflow.RANK_ONE_TILING:
            return scores + longest
        case Dataflow.SCORE_STATIONARY:
            return longest * width
        case Dataflow.FLASH_ATTENTION_1:
            visits = max(rows * -(-keys // tiles["key_tile"]) for rows, keys in shapes)  # a byte each
            return workload.group * longest * (width + 2) + visits // _BYTES_PER_VALUE
        case Dataflow.SPLIT_KEYS:
            stacked = [(int(pattern.rows), int(pattern.keys)) for pattern, _ in workload.stacked_patterns]
            splits = max(rows * -(-keys // tiles["keys_per_split"]) for rows, keys in stacked)
            return workload.group * splits * (width + 2)
        case _:
            assert_never(plan.dataflow)
