"""What runs beside the warps, and the order in which everything does."""

import random

__all__ = ["Order", "Task"]


class Task:
    """Something asynchronous of a kind (``load``, ``store`` or ``product``), which is done at some time."""

    def __init__(self, kind, run):
        self.kind, self.run, self.priority = kind, run, 0.0


class Order:
    """An order that a seed gives: all at random, or by priorities that seldom change; tasks early, late or like warps.

    So one warp may be far behind another, what is loaded may come at once or when nothing else is left to do, and
    products may be computed when they are issued or when they are waited for.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self._ranked = self.random.random() < 0.6
        self._when = {kind: self.random.choice(("early", "late", "beside")) for kind in ("load", "store", "product")}
        self._changes = self.random.choice((0.002, 0.02, 0.2))

    def next(self, warps, tasks):
        """The next to run of these, or None."""
        early = [each for each in tasks if self._when[each.kind] == "early"]
        if early:
            return self.random.choice(early)
        candidates = warps + [each for each in tasks if self._when[each.kind] == "beside"] or tasks
        if not candidates:
            return None
        if not self._ranked:
            return self.random.choice(candidates)
        chosen = max(candidates, key=lambda each: each.priority)
        if self.random.random() < self._changes:
            chosen.priority = self.random.random()
        return chosen
