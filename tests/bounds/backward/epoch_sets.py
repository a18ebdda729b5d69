"""What an epoch could do at best, counted set by set: the exact maximum that the theorems bound by formulas."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

__all__ = ["Epoch", "epochs"]

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Entries that flow in, held pairs, and outputs that products may be added to."""

    q: Flags
    k: Flags
    v: Flags
    d_output: Flags
    held: Flags
    dq: Flags
    dk: Flags
    dv: Flags
    output: Flags

    def words(self, *, step: bool) -> int:
        parts = [self.q, self.k, self.v, self.d_output, self.held, self.dq, self.dk, self.dv]
        return sum(int(part.sum()) for part in (*parts, *([self.output] if step else [])))

    def products(self) -> tuple[int, int, int, int]:
        """The most products for dQ, dK, dV and O."""
        scored = np.outer(self.q.all(1), self.k.all(1))
        p = self.held | scored
        ds = self.held | (scored & np.outer(self.d_output.all(1), self.v.all(1)))
        query = np.einsum("ij,it,jt->", ds, self.dq, self.k, dtype=int)
        key = np.einsum("ij,it,jt->", ds, self.q, self.dk, dtype=int)
        value = np.einsum("ij,ic,jc->", p, self.d_output, self.dv, dtype=int)
        output = np.einsum("ij,ic,jc->", p, self.output, self.v, dtype=int)
        return int(query), int(key), int(value), int(output)


@st.composite
def epochs(draw: st.DrawFn) -> Epoch:
    """Whole rows and single entries, in every mixture."""
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    d, dv = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, keys = (random.random(size) < draw(st.floats(0, 1)) for size in (n, m))

    def some(whole: Flags, width: int) -> Flags:
        extra = random.random((len(whole), width)) < draw(st.sampled_from((0.0, 0.0, 0.2, 0.6, 1.0)))
        return extra | whole[:, None] if draw(st.booleans()) else extra

    return Epoch(
        q=some(rows, d),
        k=some(keys, d),
        v=some(keys, dv),
        d_output=some(rows, dv),
        held=random.random((n, m)) < draw(st.sampled_from((0.0, 0.0, 0.1, 0.5, 1.0))),
        dq=some(rows, d),
        dk=some(keys, d),
        dv=some(keys, dv),
        output=some(rows, dv),
    )
