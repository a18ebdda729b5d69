"""Who sends what several ranks need: its owner, or one of these that passes it on, so that loads are even.

No word is sent twice for that. Keys are passed on, and rows if ranks send more than the mean even so: those that pass
keys on can compute meanwhile, but not without rows.

A rank that passes tokens on has them from their owner, so that there are two rounds: owners send as many copies, at
least, as there are ranks that pass some on.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from attenio.cluster.layout import Counts
from attenio.cluster.patches.layout import Choices

_EVEN = 1.005  # what the busiest rank may send over the mean without rows being passed on


@dataclass(kw_only=True, eq=False)
class _Copies:
    """Tokens of a block that some ranks need: how many copies their owner sends, and who passes how many on."""

    owner: int
    users: list[int]
    words: int
    passed: Counter[int] = field(default_factory=Counter)
    # What was found since the last move.
    _takers: dict[int, list[int]] = field(default_factory=dict)

    @property
    def from_owner(self) -> int:
        """Copies that the owner sends."""
        return len(self.users) - self.passed.total()

    def takers(self, rank: int) -> list[int]:
        """Ranks that could send one copy in this rank's place."""
        if rank not in self._takers:
            self._takers[rank] = self._find_takers(rank)
        return self._takers[rank]

    def _find_takers(self, rank: int) -> list[int]:
        mine, passing = self.passed.get(rank, 0), len(self.passed)
        if rank != self.owner and not mine:
            return []
        owners = self.from_owner - (rank == self.owner)
        if rank == self.owner:
            found = [each for each in self.passed if passing <= owners]
        else:
            found = [self.owner, *(each for each in self.passed if each != rank)]
        more = passing - (mine == 1 and rank != self.owner) + 1
        if more <= owners:
            found += [each for each in self.users if each not in self.passed]
        return found

    def move(self, rank: int, other: int) -> None:
        """Let another rank send one copy."""
        self._takers.clear()
        if rank != self.owner:
            self.passed[rank] -= 1
            if not self.passed[rank]:
                del self.passed[rank]
        if other != self.owner:
            self.passed[other] += 1

    def sources(self) -> dict[int, int]:
        """From whom every user has them."""
        others = [each for each in self.users if each not in self.passed]
        senders = [self.owner] * (self.from_owner - len(self.passed)) + sorted(self.passed.elements())
        return dict.fromkeys(self.passed, self.owner) | dict(zip(others, senders, strict=True))


class Needs(NamedTuple):
    """Which ranks need the rows or the keys of which blocks [head, block, rank], and the words of each block."""

    users: Choices
    words: Counts


def sources(owners: Counts, sent: Counts, rows: Needs, keys: Needs) -> tuple[Counts, Counts]:
    """From whom ranks have rows and keys [head, block, rank], -1 where they need none; ``sent`` if owners send all."""
    found = [np.where(each.users, owners[None, :, None], -1) for each in (rows, keys)]
    load = [int(each) for each in sent]
    of_keys = list(_shared(1, keys, owners))
    _even_out([copies for _, copies in of_keys], load)
    passed = of_keys
    if max(load) * len(load) > _EVEN * sum(load):
        passed = [*of_keys, *_shared(0, rows, owners)]
        _even_out([copies for _, copies in passed], load)
    for (kind, head, block), copies in passed:
        for user, source in copies.sources().items():
            found[kind][head, block, user] = source
    return found[0], found[1]


def _shared(kind: int, needs: Needs, owners: Counts) -> Iterator[tuple[tuple[int, int, int], _Copies]]:
    """Blocks that several ranks need: of which kind and head, and their copies, which owners send at first."""
    for head, block in np.argwhere(needs.users.sum(axis=2) > 1).tolist():
        users = np.flatnonzero(needs.users[head, block]).tolist()
        yield (kind, head, block), _Copies(owner=int(owners[block]), users=users, words=int(needs.words[block]))


def _even_out(shared: list[_Copies], load: list[int]) -> None:
    """Move copies from the rank that sends most to others, over some in between, until that is not possible."""
    sends: list[dict[int, _Copies]] = [{} for _ in load]
    for index, copies in enumerate(shared):
        for rank in (copies.owner, *copies.passed):
            sends[rank][index] = copies
    while True:
        first = len(load) - 1 - load[::-1].index(max(load))  # the last of the busiest
        path = _path(first, sends, load)
        if not path:
            return
        for rank, index, other in path:
            copies = shared[index]
            copies.move(rank, other)
            load[rank] -= copies.words
            load[other] += copies.words
            sends[other][index] = copies
            if rank != copies.owner and rank not in copies.passed:
                del sends[rank][index]


def _path(first: int, sends: list[dict[int, _Copies]], load: list[int]) -> list[tuple[int, int, int]]:
    """Copies to move, from the busiest rank to one that sends less by more than a copy: the fewest."""
    came: dict[int, tuple[int, int]] = {first: (first, -1)}
    ranks = [first]
    for rank in ranks:
        used = _used(rank, came)
        for index, copies in sends[rank].items():
            if index in used:  # a path moves one copy of a kind
                continue
            for other in copies.takers(rank):
                if other in came:
                    continue
                came[other] = rank, index
                if load[other] + copies.words < load[first]:
                    return _steps(other, came)
                ranks.append(other)
                if len(came) == len(load):
                    return []
    return []


def _used(rank: int, came: dict[int, tuple[int, int]]) -> set[int]:
    return {index for _, index, _ in _steps(rank, came)}


def _steps(rank: int, came: dict[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
    found = []
    while came[rank][0] != rank:
        before, index = came[rank]
        found.append((before, index, rank))
        rank = before
    return found[::-1]
