"""The triangle of devices of docs/theory/devices_causal.md, built token by token."""

import numpy as np
import pytest

from attenio.cluster.bounds import balanced_exchange
from attenio.workload import Workload


class Triangle:
    """Owners of tokens and makers of causal pairs for m blocks: one device for each two blocks."""

    def __init__(self, blocks: int, share: int) -> None:
        self.devices = [(i, j) for i in range(blocks) for j in range(i)]
        size = share * (blocks - 1)
        self.n = size * blocks
        self.owner = np.empty(self.n, dtype=int)
        self.maker = np.full((self.n, self.n), -1)
        for block in range(blocks):
            as_queries = [p for p, (i, _) in enumerate(self.devices) if i == block]
            as_keys = [p for p, (_, j) in enumerate(self.devices) if j == block]
            start, early = block * size, share * len(as_queries)
            # early tokens in turns to those that have the block as queries, late ones to those that have it as keys
            for t in range(size):
                group, at = (as_queries, t) if t < early else (as_keys, t - early)
                self.owner[start + t] = group[at % len(group)]
            for row in range(start, start + size):
                for key in range(start, row + 1):
                    late_key, late_row = key - start >= early, row - start >= early
                    by_row = late_row and (late_key or (row + key) % 2)
                    self.maker[row, key] = self.owner[row] if by_row else self.owner[key]
        for p, (i, j) in enumerate(self.devices):
            self.maker[i * size : (i + 1) * size, j * size : (j + 1) * size] = p

    def words(self, device: int, d: int) -> int:
        """Words that a device receives of inputs and sends of outputs."""
        made, own = self.maker == device, self.owner == device
        return 2 * d * int((made.any(axis=1) & ~own).sum() + (made.any(axis=0) & ~own).sum())


@pytest.mark.parametrize(("blocks", "share"), [(4, 6), (5, 4), (6, 4)])
def test_a_triangle_of_devices_makes_every_causal_pair_once_evenly_and_close_to_the_bound(
    blocks: int, share: int
) -> None:
    triangle, d = Triangle(blocks, share), 4
    n, devices = triangle.n, len(triangle.devices)
    causal = np.tri(n, dtype=bool)
    assert ((triangle.maker >= 0) == causal).all()
    assert set(np.bincount(triangle.owner, minlength=devices)) == {2 * share} == {n // devices}
    work = np.bincount(triangle.maker[causal], minlength=devices)
    assert work.max() <= 1.08 * work.mean()
    words = [triangle.words(device, d) for device in range(devices)]
    assert max(words) <= n // devices * d * (2 * blocks - 4)
    bound = balanced_exchange(Workload(n=n, d=d, mask="causal"), devices, imbalance=float(work.max() / work.mean()))
    assert bound.words <= sum(words)
