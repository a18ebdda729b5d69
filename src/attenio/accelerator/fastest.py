"""AttenIO's tiles of fewest cycles, where the planner's and the paper's move fewest words.

The array has a MAC for each of 2,048 rows, or several for each of fewer: tiles of 1,260 rows fill 61 % of it, and a
tile of 1,024, which moves more words, is faster. Cycles that no dense run goes below say which tiles may be best: those
for which every smaller tile needs more. That list does not depend on the cache, and all of it that fits is considered,
so that more cache is never slower. Under a mask, tiles that fill lines of the array are tried, and the paper's.

>>> from attenio.catalogue import machine_named
>>> workload, machine = Workload(n=32768, d=128), machine_named("attenio-640k")
>>> fastest_plan(workload, machine).tiles["query_tile"]
1024
"""

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.pe_array import PeArray
from attenio.accelerator.programs.attenio import Switches
from attenio.accelerator.simulate import plan_for, simulate_plan
from attenio.catalogue import as_machine
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.masks import Dense
from attenio.planning import Dataflow, Plan, Tiles, plan_with
from attenio.planning.costs import cost
from attenio.quantities import show_words
from attenio.workload import Direction, Workload, checked_workload

Ints = NDArray[np.int64]


def fastest_plan(workload: Workload, machine: Machine | str, *, switches: Switches | None = None) -> Plan:
    """AttenIO with the tiles, of those that fit, that take the fewest cycles; fewest words among equals."""
    checked_workload(workload)
    machine = as_machine(machine)
    if workload.direction is not Direction.FORWARD:
        raise InvalidInput("tiles of fewest cycles are those of the forward pass; leave --fastest or the direction out")
    hardware = Hardware.of(machine)
    hardware.kv.check_tile(1, max(workload.d, workload.value_dim))
    tried = sorted(_tried(workload, hardware), key=lambda each: each[0])
    if not tried:
        least = _held(workload, Tiles.of(query_tile=1, key_tile=1))
        holds = hardware.cache.words
        raise DoesNotFit(f"attenio needs at least {show_words(least)} of fast memory; the cache holds {holds:,}")
    if not isinstance(workload.mask, Dense):
        tried.insert(0, (0, plan_for(workload, machine, Dataflow.ATTENIO).tiles))
    best: tuple[Fraction, int, Plan] | None = None
    for least, tiles in tried:
        if best is not None and least > best[0]:
            break
        plan = plan_with(workload, machine, Dataflow.ATTENIO, tiles)
        cycles = simulate_plan(plan, machine, switches=switches).cycles
        if best is None or (cycles, plan.moved_words) < best[:2]:
            best = cycles, plan.moved_words, plan
    assert best is not None
    return best[2]


def _tried(workload: Workload, hardware: Hardware) -> Iterator[tuple[int, Tiles]]:
    """Tiles that fit and may be best, with cycles that none of their runs goes below."""
    most_keys = min(workload.keys, hardware.kv.words // max(workload.d, workload.value_dim))
    for keys in sorted({1 << power for power in range(most_keys.bit_length())}):
        sizes = range(1, workload.queries + 1)
        fitting = bisect_right(
            sizes,
            hardware.cache.words,
            key=lambda rows, keys=keys: _held(workload, Tiles.of(query_tile=rows, key_tile=keys)),  # type: ignore[misc]
        )
        rows = np.arange(1, fitting + 1, dtype=np.int64)
        if isinstance(workload.mask, Dense):
            least = least_cycles(workload, hardware, rows, keys)
            # a record: every smaller tile spends more
            record = least < np.concatenate([[np.iinfo(np.int64).max], np.minimum.accumulate(least)[:-1]])
            for size, cycles in zip(rows[record].tolist(), least[record].tolist(), strict=True):
                yield cycles, Tiles.of(query_tile=size, key_tile=keys)
        else:
            line, macs = hardware.pe.macs_per_line, hardware.pe.macs
            fills = (rows % line == 0) & (rows <= 2 * macs) | (rows % macs == 0) | (rows & (rows - 1) == 0)
            for size in rows[fills].tolist():
                yield 0, Tiles.of(query_tile=size, key_tile=keys)


def least_cycles(workload: Workload, hardware: Hardware, rows: Ints, keys: int) -> Ints:
    """Cycles that no dense run with tiles of so many rows, each, and so many keys goes below.

    In a round the array computes scores, waits for the exponentials of these and of the rescaling, with the pipeline
    empty before and after, and updates the outputs; rounds do not overlap.
    """
    whole, rest = workload.queries // rows, workload.queries % rows
    cycles = whole * _of_tile(workload, hardware, rows, keys) + _of_tile(workload, hardware, rest, keys)
    return np.asarray(cycles * (workload.heads * workload.batch))


def _of_tile(workload: Workload, hardware: Hardware, rows: Ints, keys: int) -> Ints:
    array, exp, silicon = hardware.pe, hardware.exp, hardware.pe.silicon
    outputs = _broadcast(array, rows, workload.value_dim)
    products = workload.keys * (_broadcast(array, rows, workload.d) + outputs)
    exponentials = -(-keys * rows // exp.modules) - (-rows // exp.modules)
    adding = silicon.adder_cycles * _joining(array, rows, workload.d) + _meeting(array, rows, workload.d)
    between = exp.filling_cycles + exponentials + exp.draining_cycles + adding
    between = between + silicon.fill_cycles + array.draining_cycles + silicon.latency_cycles
    between = between + (keys - 1) * np.maximum(silicon.adder_cycles - outputs, 0)
    if silicon.multipliers == 1:
        between = between + np.maximum(outputs, 1 + silicon.latency_cycles)
    if keys > 1:  # maxima and sums over several keys
        joining = (1 + silicon.adder_cycles) * _joining(array, rows, keys)
        between = between + _broadcast(array, rows, keys) - _broadcast(array, rows, 1) + joining
    return np.asarray(np.where(rows > 0, products + workload.keys // keys * between, 0))


def _broadcast(array: PeArray, rows: Ints, steps: int) -> Ints:
    """``PeArray.broadcast_cycles`` of many tiles."""
    whole, rest = np.divmod(rows, array.macs)
    return np.asarray(whole * steps + np.where(rest > 0, -(-steps // _ways(array, rest)), 0))


def _meeting(array: PeArray, rows: Ints, steps: int) -> Ints:
    """``PeArray.meeting_cycles`` of many tiles."""
    whole, rest = np.divmod(rows, array.macs)
    least, more = array.silicon.adder_cycles, array.silicon.pairing_cycles
    last = more + np.maximum(least - -(-steps // _ways(array, rest)), 0)
    return np.asarray(whole * (more + max(0, least - steps)) + np.where(rest > 0, last, 0))


def _joining(array: PeArray, rows: Ints, steps: int) -> Ints:
    """``PeArray.joining_cycles`` of many tiles."""
    last = rows % array.macs
    sharing = -(-steps // -(-steps // _ways(array, last)))
    return np.where(last > 0, np.ceil(np.log2(sharing)).astype(np.int64), 0)


def _ways(array: PeArray, rows: Ints) -> Ints:
    return np.asarray(np.maximum(1, array.lines // np.maximum(1, -(-rows // array.macs_per_line))))


def _held(workload: Workload, tiles: Tiles) -> int:
    return cost(workload, Dataflow.ATTENIO, tiles).peak_words
