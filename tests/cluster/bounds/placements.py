"""Every way to place the pairs of a small problem on devices, with the words that each exchanges, and one by one.

Independent of the bounds: pairs are placed one by one. A device that makes a score gets the query and the key; one that
is sent the score pays a word for it. Either way it gets the value and sends its part of the output away.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attenio.workload import Direction, Workload

Found = NDArray[np.int64]


def exchanged(workload: Workload, devices: int, *, striped: bool, sends_scores: bool) -> Iterator[tuple[Found, Found]]:
    """For batches of placements: words exchanged, and the pairs of the device with most."""
    pairs = [
        (head, row, int(key))
        for head in range(workload.heads)
        for row in range(workload.queries)
        for key in workload.separate_patterns[0][0].needed_keys(row, row + 1)
    ]
    choices = devices * (2 if sends_scores else 1)
    every = choices ** len(pairs)
    assert every <= 300_000
    digits = np.arange(every)
    placed = np.empty((every, len(pairs)), dtype=np.int8)
    for index in range(len(pairs)):
        digits, placed[:, index] = np.divmod(digits, choices)
    on, is_sent = placed % devices, placed >= devices
    words, most = np.zeros(every, dtype=np.int64), np.zeros(every, dtype=np.int64)
    for device in range(devices):
        here = on == device
        words += _words_of_device(workload, devices, pairs, here, is_sent, device, striped)
        most = np.maximum(most, here.sum(axis=1))
    yield words, most


def _words_of_device(
    workload: Workload,
    devices: int,
    pairs: list[tuple[int, int, int]],
    here: NDArray[np.bool_],
    is_sent: NDArray[np.bool_],
    device: int,
    striped: bool,
) -> Found:
    d, value_dim, backward = workload.d, workload.value_dim, workload.direction is Direction.BACKWARD
    fresh, held = here & ~is_sent, here & is_sent
    words: Found = held.sum(axis=1).astype(np.int64)
    rows = {(head, row): [i for i, p in enumerate(pairs) if p[:2] == (head, row)] for head, row, _ in pairs}
    keys: dict[tuple[int, int], list[int]] = {}
    for index, (head, _, key) in enumerate(pairs):
        keys.setdefault((head // workload.group, key), []).append(index)
    for length, found, made, used in (
        (workload.queries, rows, d + (value_dim if backward else 0), d if backward else value_dim),
        (workload.keys, keys, d + value_dim if backward else d, d + value_dim if backward else value_dim),
    ):
        for (_, token), members in found.items():
            if home(length, devices, token, striped=striped) != device:
                words += made * fresh[:, members].any(axis=1) + used * here[:, members].any(axis=1)
    return words


def home(length: int, devices: int, token: int, *, striped: bool) -> int:
    """The device that a token lives on."""
    if striped:
        return token % devices
    whole, more = divmod(length, devices)
    large = more * (whole + 1)
    return token // (whole + 1) if token < large else more + (token - large) // whole


class Makers:
    """Owners of tokens, and who makes the pairs of every head [..., row, key]; -1 where a key is hidden."""

    owner: NDArray[np.int64]
    maker: NDArray[np.int64]
    devices: int

    @property
    def work(self) -> NDArray[np.int64]:
        """Pairs of each device."""
        return np.bincount(self.maker[self.maker >= 0], minlength=self.devices)

    @property
    def imbalance(self) -> float:
        """Pairs of the busiest device over the mean."""
        return float(self.work.max() / self.work.mean())

    def to_the_idlest(self, *where: int | slice) -> None:
        """Pairs there go to the device that has least to do."""
        part = self.maker[where]
        part[part >= 0] = int(self.work.argmin())
