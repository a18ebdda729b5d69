"""A grid carried out on counted memories, with its words, its peaks and its results.

>>> import numpy as np
>>> workload = Workload(n=16, d=4, heads=2, dtype="fp32")
>>> run = execute_grid(workload, Grid(heads=2, queries=2), inputs_of(workload))
>>> run.network.sent.tolist()
[128, 128, 128, 128]
"""

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.counted.backward import run_backward
from attenio.cluster.counted.device import Device, Setting
from attenio.cluster.counted.forward import run_forward
from attenio.cluster.counted.network import Network
from attenio.cluster.grid import Grid, check_grid
from attenio.cluster.partition import sharding_for
from attenio.memory import FastMemory
from attenio.reference import attention, attention_blocks
from attenio.workload import Direction, Workload

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class ClusterRun:
    """What a grid computed, sent and held."""

    network: Network
    peak_words: tuple[int, ...]
    results: Arrays


def inputs_of(workload: Workload, seed: int = 0) -> Arrays:
    """Random queries, keys, values and, for a gradient, dO."""
    random, batch = np.random.default_rng(seed), workload.batch
    shapes = {
        "Q": (batch, workload.heads, workload.queries, workload.d),
        "K": (batch, workload.kv_heads, workload.keys, workload.d),
        "V": (batch, workload.kv_heads, workload.keys, workload.value_dim),
        "dO": (batch, workload.heads, workload.queries, workload.value_dim),
    }
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def execute_grid(
    workload: Workload, grid: Grid, inputs: Arrays, *, passes: int = 1, memory_words: int | None = None
) -> ClusterRun:
    """Run attention, its gradients or a training step over the ranks of a grid.

    ``memory_words`` is what each rank holds at most.
    """
    check_grid(grid, workload)
    setting = Setting(workload=workload, grid=grid, sharding=sharding_for(workload.mask), passes=passes)
    network = Network(grid.devices)
    with ExitStack() as every:
        devices = []
        for rank in range(grid.devices):
            room = 2**50 if memory_words is None else memory_words
            memory = FastMemory(room, intermediate_words=workload.accumulator_words)
            devices.append(Device(setting=setting, rank=rank, memory=memory, stack=every.enter_context(ExitStack())))
        for device in devices:
            _settle(device, inputs)
        names: tuple[str, ...] = ()
        if workload.direction is not Direction.BACKWARD:
            run_forward(devices, network)
            names += ("O",)
        if workload.direction is not Direction.FORWARD:
            for device in devices:
                _settle_gradients(device, inputs)
            run_backward(devices, network)
            names += ("dQ", "dKV")
        results = _collected(devices, names)
        peaks = tuple(device.memory.peak_words for device in devices)
    return ClusterRun(network=network, peak_words=peaks, results=_separate(workload, results))


def _settle(device: Device, inputs: Arrays) -> None:
    """Put a rank's own tokens into its memory, and room for its outputs."""
    setting, work = device.setting, device.setting.workload
    rows, keys = (setting.own(device.rank, length) for length in (work.queries, work.keys))
    both = inputs["K"] if work.values_in_keys else np.concatenate([inputs["K"], inputs["V"]], axis=-1)
    _put(device, "Q", inputs["Q"][:, :, rows])
    _put(device, "KV", both[:, :, keys])
    device.room("O", (work.heads, len(rows), work.value_dim))


def _settle_gradients(device: Device, inputs: Arrays) -> None:
    """Put dO beside them, and room for gradients; of a backward pass alone also what a forward pass would have left."""
    setting, work = device.setting, device.setting.workload
    rows, keys = (setting.own(device.rank, length) for length in (work.queries, work.keys))
    _put(device, "dO", inputs["dO"][:, :, rows])
    device.room("dQ", (work.heads, len(rows), work.d))
    device.room("dKV", (work.kv_heads, len(keys), work.key_words))
    if setting.is_step:
        return
    device.arrays["O"][...] = outputs(inputs, work)[:, :, rows]
    device.room("D", (work.heads, len(rows), 1), sums=True)
    placed = setting.placed(device.rank, work.queries)
    lse = log_sum_exps(inputs, work)[:, device.row_heads][:, :, placed, None]
    device.room("lse", (setting.rows_heads, len(placed), 1), sums=True)[...] = lse


def _put(device: Device, name: str, values: NDArray[np.float32]) -> None:
    device.room(name, (values.shape[1], values.shape[2], values.shape[3]))[...] = values


def outputs(inputs: Arrays, workload: Workload) -> NDArray[np.float64]:
    """What a forward pass gives."""
    return attention(inputs["Q"], inputs["K"], inputs["V"], workload.towards(Direction.FORWARD))


def log_sum_exps(inputs: Arrays, workload: Workload) -> NDArray[np.float64]:
    """Log-sum-exps of all rows."""
    found = np.full((workload.batch, workload.heads, workload.queries), -np.inf)
    for block in attention_blocks(inputs["Q"], inputs["K"], inputs["V"], workload.towards(Direction.FORWARD)):
        found[block.batch, block.head, block.rows] = block.log_sum_exp
    return found


def _collected(devices: list[Device], names: tuple[str, ...]) -> Arrays:
    """Every rank's results, where their tokens are in the sequence."""
    setting = devices[0].setting
    results: Arrays = {}
    for name in names:
        length = setting.workload.keys if name == "dKV" else setting.workload.queries
        first = devices[0].arrays[name]
        whole = np.full((first.shape[0], first.shape[1], length, first.shape[3]), np.nan, dtype=np.float32)
        for device in devices:
            whole[:, :, setting.own(device.rank, length)] = device.arrays[name]
        results[name] = whole
    return results


def _separate(workload: Workload, results: Arrays) -> Arrays:
    if "dKV" not in results:
        return results
    both = results.pop("dKV")
    return {**results, "dK": both[..., : workload.d], "dV": both[..., workload.d :]}
