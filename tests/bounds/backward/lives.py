"""Lives of sums: entries of gradients whose carriers are made, merged, stored, loaded and dropped at random."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(eq=False)
class Carrier:
    """A word that some products of a sum are in."""

    fast: bool = True
    slow: bool = False


@dataclass(frozen=True)
class Look:
    """A sum at one time: has it a word to pay for in fast memory, carriers away, and what happened so far."""

    there: bool
    done: bool
    away: int
    moved: int
    back: int
    products: int


@dataclass
class Sum:
    """One entry of a gradient: its carriers, and what has been done for it; ``back`` are loads of carriers away."""

    wanted: int
    carriers: list[Carrier] = field(default_factory=list)
    products: int = 0
    moved: int = 0
    back: int = 0

    @property
    def done(self) -> bool:
        return self.products == self.wanted and len(self.carriers) == 1

    @property
    def present(self) -> int:
        return sum([each.fast for each in self.carriers])

    def look(self) -> Look:
        """A final word counts as long as it has no copy, and is never away."""
        dirty, done = any(not each.slow for each in self.carriers), self.done
        away = 0 if done else len(self.carriers) - self.present
        return Look(dirty if done else self.present > 0, done, away, self.moved, self.back, self.products)


class Lives:
    """Sums that are added to, merged, stored, loaded and dropped at random, until each is one word of slow memory."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.room, many = int(self.random.integers(2, 12)), int(self.random.integers(1, 10))
        wanted = int(self.random.integers(1, 9))
        self.sums = [Sum(wanted) for _ in range(many)]
        self.looks = [[each.look() for each in self.sums]]
        ways = ["make", "add", "merge", "store", "load", "drop"]
        while not all(each.done and each.carriers[0].slow for each in self.sums):
            self._step(self.sums[self.random.integers(many)], ways[self.random.integers(len(ways))])

    def _step(self, sum_: Sum, what: str) -> None:
        here = [each for each in sum_.carriers if each.fast]
        away = [each for each in sum_.carriers if not each.fast]
        if what == "make" and sum_.products < sum_.wanted and not self._is_full():
            sum_.carriers.append(Carrier())
            sum_.products += 1
        elif what == "add" and here and sum_.products < sum_.wanted:
            sum_.carriers.remove(here[0])
            sum_.carriers.append(Carrier())
            sum_.products += 1
        elif what == "merge" and len(here) > 1:
            sum_.carriers = [*(each for each in sum_.carriers if each not in here[:2]), Carrier()]
        elif what == "store" and here:
            here[0].slow = True
            sum_.moved += 1
        elif what == "load" and away and not self._is_full():
            sum_.moved, sum_.back = sum_.moved + 1, sum_.back + (not sum_.done)
            away[0].fast = True
        elif what == "drop" and any(each.slow for each in here):
            next(each for each in here if each.slow).fast = False
        else:
            return
        self.looks.append([each.look() for each in self.sums])

    def _is_full(self) -> bool:
        return sum(each.present for each in self.sums) >= self.room

    def stretches(self, start: int, end: int) -> list[list[Look]]:
        return [[looks[place] for looks in self.looks[start : end + 1]] for place in range(len(self.sums))]
