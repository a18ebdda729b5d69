"""The bytes that every rank sends when attention runs on a grid, stage by stage.

Words become bytes: elements, and partial sums too, travel in the type of the tensors. Log-sum-exps and D = dO . O are
in single precision whatever that type is (in double for double). The backward pass is that of a training step: it
follows a forward pass on the same grid, which kept what it had of the rank's heads.

>>> workload = Workload(n=1024, d=64, heads=8, kv_heads=2, dtype="bf16")
>>> grid = Grid(heads=2, queries=2, keys=2)
>>> [int(each.sent.max()) for each in stage_bytes(workload, grid, Shares.of(workload, grid))]
[98304, 131072, 65536, 135168, 65536]
"""

from typing import assert_never

from attenio.cluster.grid import Grid, check_grid
from attenio.cluster.words import FORWARD_STAGES, LATER_STAGES, Shares, Stage, StageWords, Widths, exchanged
from attenio.workload import Direction, Workload


def stage_bytes(workload: Workload, grid: Grid, shares: Shares) -> tuple[StageWords, ...]:
    """Bytes that every rank sends and receives in every stage: forward, backward after a forward pass, or both."""
    check_grid(grid, workload)
    if workload.is_training:
        passes = (workload.towards(Direction.FORWARD), workload.towards(Direction.BACKWARD))
        return tuple(each for one in passes for each in stage_bytes(one, grid, shares))
    stages = LATER_STAGES if workload.direction is Direction.BACKWARD else FORWARD_STAGES
    return tuple(exchanged(workload, grid, shares, stage, stage_widths_bytes(workload, stage)) for stage in stages)


def stage_widths_bytes(workload: Workload, stage: Stage) -> Widths:
    """What one token of one head takes in a stage of a pass, in bytes."""
    element = workload.dtype.bytes
    statistic = max(4, element)
    d, width, key = workload.d * element, workload.value_dim * element, workload.key_words * element
    backward = workload.direction is Direction.BACKWARD
    match stage:
        case Stage.SCATTER_HEADS:
            return Widths(row=d, key=key)
        case Stage.SCATTER_GRADIENTS:
            return Widths(row=width, key=0)
        case Stage.GATHER_QUERIES:
            return Widths(row=d + width + 2 * statistic if backward else d, key=0)
        case Stage.GATHER_KEYS | Stage.REDUCE_KEYS:
            return Widths(row=0, key=key)
        case Stage.REDUCE_OUTPUTS:
            return Widths(row=width + statistic, key=0)
        case Stage.REDUCE_QUERIES:
            return Widths(row=d, key=0)
        case Stage.RETURN_HEADS:
            return Widths(row=d, key=key) if backward else Widths(row=width, key=0)
        case _:
            assert_never(stage)
