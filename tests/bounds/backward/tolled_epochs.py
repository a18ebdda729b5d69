"""Epochs with sums that keep and pass: what one does besides what stays are charged for, counted set by set."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["TolledEpoch"]

Flags = NDArray[np.int64]
SUMS = ("dq", "dk", "dv")
OF_ROWS = ("q", "d_output", "dq")
OF_KEYS = ("k", "v", "dk", "dv")


@dataclass(frozen=True, kw_only=True)
class TolledEpoch:
    """Entries that flow in, held pairs, and sums: 0 does not count, 1 keeps, 2 passes."""

    q: Flags
    k: Flags
    v: Flags
    d_output: Flags
    held: Flags
    dq: Flags
    dk: Flags
    dv: Flags

    @classmethod
    def drawn(cls, random: np.random.Generator, rows: int, keys: int, d: int, dv: int) -> "TolledEpoch":
        sizes = {"q": (rows, d), "k": (keys, d), "v": (keys, dv), "d_output": (rows, dv), "held": (rows, keys)}
        sizes |= {"dq": (rows, d), "dk": (keys, d), "dv": (keys, dv)}

        def some(size: tuple[int, int]) -> Flags:
            share = random.choice([0.0, 0.3, 0.7, 1.0])
            whole = random.random((size[0], 1)) < share
            return np.asarray(
                whole.repeat(size[1], 1) if random.random() < 0.6 else random.random(size) < share
            ).astype(int)

        return cls(**{name: some(size) * (1 + (name in SUMS) * some(size)) for name, size in sizes.items()})

    def changed(self, random: np.random.Generator) -> "TolledEpoch":
        """One word, a part of a row or key, or all of it is different."""
        if random.random() < 0.2:
            names = OF_ROWS if random.random() < 0.5 else OF_KEYS
            to, source = random.integers(len(getattr(self, names[0])), size=2)
            new = {name: getattr(self, name).copy() for name in names}
            for flags in new.values():
                flags[to] = flags[source]
            return replace(self, **new)
        name = str(random.choice([each.name for each in fields(self)]))
        flags = getattr(self, name).copy()
        row, column = random.integers(len(flags)), random.integers(flags.shape[1])
        where = [(row, column), (row, slice(None)), (slice(None), column)][random.integers(3)]
        flags[where] = random.integers(3 if name in SUMS else 2)
        return replace(self, **{name: flags})

    def done(self, toll: float, least: float) -> float:
        """The weight of all products, with what is beyond the charge in place of meetings, in units of A²/4."""
        d, dv = self.q.shape[1], self.v.shape[1]
        s, held = d + dv, self.held > 0
        scored = np.outer(self.q.all(1), self.k.all(1))
        whole = scored & np.outer(self.d_output.all(1), self.v.all(1))
        sums = [getattr(self, name) for name in SUMS]
        count, keep = [each > 0 for each in sums], [each == 1 for each in sums]
        words = sum(int(flags.sum()) for flags in (self.q, self.k, self.v, self.d_output, self.held))
        words += sum(int(each.sum()) for each in count) + toll * sum(int((each == 2).sum()) for each in sums)
        budget = max(words, least)
        of_rows = np.einsum("ij,it,jt->", held | whole, count[0], self.k, dtype=int)
        of_keys = np.einsum("ij,it,jt->", held | whole, self.q, count[1], dtype=int)
        of_values = np.einsum("ij,ic,jc->", held | scored, self.d_output, count[2], dtype=int)
        weight = 2 * s * ((1 + toll) * of_rows + of_keys + of_values)
        by_row, by_key = keep[0].sum(1), keep[1].sum(1) + keep[2].sum(1)
        meet = (whole & ~held) * np.outer(by_row, by_key)
        from_rows, from_keys = by_row[meet.any(1)].sum(), by_key[meet.any(0)].sum()
        beyond = from_rows * max(count[1].sum() + count[2].sum() - 0.26 * budget, 0)
        beyond += from_keys * max(count[0].sum() - 0.52 / (2 + dv / d) * budget, 0)
        return float((weight - 2 * toll * meet.sum() + 2 * toll * beyond) / (budget * budget / 4))
