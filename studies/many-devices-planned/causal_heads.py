"""As many devices as heads under a causal mask: what does the best assignment send, whatever it is?

    .venv/bin/python studies/many-devices-planned/causal_heads.py

Tokens are in order, a block on each of P devices, with P heads that have keys of their own. A device may compute, of
any head, any rows with any keys; its own rows and keys cost nothing. A linear program over all of these rectangles
(columns are generated until none is worth adding) covers every pair of blocks below the diagonal in every head; those
on it are computed at home. No assignment sends less than its value, for weights of pairs of blocks are a proof also
for parts of blocks: what they gain is bilinear in the parts. Prints a table of Markdown and writes causal_heads.md.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from attenio.cluster.bounds import balanced_exchange
from attenio.workload import Workload

HERE = Path(__file__).parent


def least_words(devices: int) -> float:
    """Blocks of rows and keys that a device receives, on the average over devices: at least."""
    below = [(i, j) for i in range(devices) for j in range(i)]
    sets = ((np.arange(2**devices)[:, None] >> np.arange(devices)) & 1).astype(bool)
    columns: list[NDArray[Any]] = []
    costs: list[int] = []

    def add(owner: int, rows: NDArray[Any], keys: NDArray[Any]) -> None:
        columns.append(np.array([float(rows[i] and keys[j]) for i, j in below]))
        costs.append(int(rows.sum() + keys.sum() - rows[owner] - keys[owner]))

    for owner in range(devices):
        add(owner, np.ones(devices, bool), np.ones(devices, bool))
    while True:
        found = linprog(costs, A_ub=-np.array(columns).T, b_ub=np.full(len(below), -float(devices)), method="highs")
        weight = np.zeros((devices, devices))
        for (i, j), price in zip(below, -found.ineqlin.marginals, strict=True):
            weight[i, j] = price
        worth = False
        for owner in range(devices):
            own = np.arange(devices) == owner
            rows = sets | own
            of_keys = rows @ weight
            gain = np.where(own, of_keys, np.maximum(of_keys - 1, 0.0)).sum(axis=1) - (rows & ~own).sum(axis=1)
            best = int(gain.argmax())
            if gain[best] > 1e-7:
                add(owner, rows[best], (of_keys[best] > 1) | own)
                worth = True
        if not worth:
            return float(found.fun) / devices


def main() -> None:
    lines = [
        "# As many devices as heads, causal, tokens in order",
        "",
        "Blocks of n/P tokens, rows and keys together, that a device receives on the average.",
        "",
        "| devices | head groups (Ulysses) | diagonals at home | least of all assignments | bound | least over bound |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for devices in range(3, 9):
        least, d = least_words(devices), 64
        workload = Workload(n=1024 * devices, d=d, heads=devices, mask="causal")
        bound = balanced_exchange(workload, devices).words / devices / (1024 * 2 * d)
        at_home = 2 * (devices - 2) + 2 / devices
        lines.append(
            f"| {devices} | {2 * (devices - 1)} | {at_home:.2f} | {least:.2f} | {bound:.2f} | {least / bound:.3f} |"
        )
    lines += [
        "",
        "*Diagonals at home*: every device computes the pairs of its own tokens in all heads, and the rest of one head."
        " That is even work. It needs no rows of the first block and no keys of the last.",
        "",
    ]
    (HERE / "causal_heads.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
