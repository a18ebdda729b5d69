"""Eight query heads on each of eight KV heads, eight devices, backward: what could any assignment send?

    .venv/bin/python studies/many-devices-planned/late_rows.py

A row of all eight heads is six times the words of a key. A device may compute any pairs with the rows and keys that it
has, of each KV head others; its own rows and keys cost nothing, and it does a share of the work on the average over
heads. Tokens are in blocks. Homes are given, or devices are of all kinds, each of which owns two of sixteen blocks, and
a linear program says how many there are of every kind: so no homes of whole blocks send less. Its prices are those of
pairs, or of rows alone as in docs/theory/devices_causal.md#late-rows. Writes late_rows.md.
"""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.patches import best_patches
from attenio.workload import Workload

HERE = Path(__file__).parent
DEVICES, ROW, KEY = 8, 6, 1
Places = NDArray[np.int64]


def least_keys(kinds: list[tuple[int, ...]], blocks: int, *, by_rows: bool = False) -> float:
    """Words sent in those of all keys, at least; a kind of devices owns some blocks, and every block is owned once.

    A kind has variables for how many devices are of it, and for their rows, keys and pairs.
    """
    row, key = np.tril_indices(blocks)
    area, pairs = np.where(row == key, 0.5, 1.0), len(row)
    each = 1 + 2 * blocks + pairs
    cost, entries, first = np.zeros(len(kinds) * each), list[tuple[Places, Places, Any]](), 0

    def no_more(left: Places, right: Places) -> None:
        nonlocal first
        lines = first + np.arange(len(left))
        entries.extend([(lines, left, 1.0), (lines, right, -1.0)])
        first += len(left)

    for kind, owned in enumerate(kinds):
        own = np.isin(np.arange(blocks), owned)
        base, made = kind * each, kind * each + 1 + 2 * blocks + np.arange(pairs)
        cost[base + 1 : base + 1 + 2 * blocks] = np.concatenate([~own * ROW, ~own * KEY])
        no_more(made[~own[row]], base + 1 + row[~own[row]])
        no_more(made[~own[key]], base + 1 + blocks + key[~own[key]])
        both = made[own[row] & own[key]]
        no_more(both, np.full(len(both), base))
        had = base + 1 + np.flatnonzero(np.concatenate([~own, ~own]))
        no_more(had, np.full(len(had), base))
        line = np.full(pairs + 1, first)
        share = blocks * blocks / 2 / DEVICES
        entries.append((line, np.append(made, base), np.append(area, -share)))
        first += 1
    limits = _matrix(entries, (first, len(cost)))
    every = np.concatenate([kind * each + 1 + 2 * blocks + np.arange(pairs) for kind in range(len(kinds))])
    lines = np.tile(row if by_rows else np.arange(pairs), len(kinds))
    needed = np.bincount(row, area) if by_rows else area
    weights = np.tile(area, len(kinds))
    homes = np.concatenate([np.array(owned) for owned in kinds])
    numbers = np.repeat(np.arange(len(kinds)) * each, [len(owned) for owned in kinds])
    covered = _matrix([(lines, every, weights), (len(needed) + homes, numbers, 1.0)], (len(needed) + blocks, len(cost)))
    found = linprog(
        cost, A_ub=limits, b_ub=np.zeros(first), A_eq=covered, b_eq=np.append(needed, np.ones(blocks)),
        method="highs-ipm",
    )  # fmt: skip
    return float(found.fun) / blocks / KEY


def _matrix(entries: list[tuple[Places, Places, Any]], shape: tuple[int, int]) -> Any:
    lines, columns = (np.concatenate([entry[place] for entry in entries]) for place in (0, 1))
    values = np.concatenate([np.broadcast_to(np.asarray(value, float), line.shape) for line, _, value in entries])
    return csr_matrix((values, (lines, columns)), shape=shape)


def main() -> None:
    in_order = [(block,) for block in range(DEVICES)]
    pairs_of_blocks = list(combinations(range(2 * DEVICES), 2))
    workload = Workload(
        n=2**20, d=128, heads=64, kv_heads=8, mask="causal", direction="backward", dtype="bf16"
    )  # fmt: skip
    plan, keys = best_patches(workload, DEVICES), 8 * 2**20 * 4 * 128
    assert plan is not None
    lines = [
        "# Eight query heads on each of eight KV heads, eight devices, backward",
        "",
        "Words that all devices send, in those of all keys and their gradients.",
        "",
        "| | words |",
        "|---|--:|",
        f"| bound | {balanced_exchange(workload, DEVICES).words / keys:.2f} |",
        f"| linear program, any homes of two blocks of sixteen, prices of rows alone |"
        f" {least_keys(pairs_of_blocks, 2 * DEVICES, by_rows=True):.2f} |",
        f"| the same with prices of pairs | {least_keys(pairs_of_blocks, 2 * DEVICES):.2f} |",
        f"| tokens in order, prices of rows alone | {least_keys(in_order, DEVICES, by_rows=True):.2f} |",
        f"| tokens in order, prices of pairs | {least_keys(in_order, DEVICES):.2f} |",
        f"| best patchwork, on the average | {plan.total_words / keys:.2f} |",
        "",
    ]
    (HERE / "late_rows.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
