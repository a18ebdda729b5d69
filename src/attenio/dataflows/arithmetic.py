"""The arithmetic every dataflow shares: products in single precision, intermediates rounded to the accumulator type.

Without an accumulator type (the word model) intermediates are float32. With one, every intermediate is rounded to it
whenever a step has computed it, and saturates at its largest finite value instead of overflowing, so that no
difference of infinities can make NaN. A masked score is -inf in every type, a flag rather than a number: fp8 has no
infinity of its own.
"""

from dataclasses import dataclass

import numpy as np

from attenio.elements import ElementType
from attenio.memory.matrix import Values
from attenio.workload import Workload

_LARGEST = {
    ElementType.FP32: 3.4028234663852886e38,
    ElementType.FP16: 65504.0,
    ElementType.BF16: 3.3895313892515355e38,
    ElementType.FP8: 448.0,
}

# Below this, products and sums of a run stay finite in float32 whatever their order.
_SAFE = 1e37


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """How one run multiplies, adds and rounds.

    ``wide`` says that a product may leave the range of float32: it is then taken in float64 and saturated. Scores s
    become ``softcap`` tanh(s / softcap) where there is a cap; values are what memory has of them times ``value_scale``.
    """

    scale: float
    accumulator: ElementType
    wide: bool
    softcap: float | None = None
    value_scale: float = 1.0

    @classmethod
    def of(cls, workload: Workload, q: Values, k: Values, v: Values, do: Values | None = None) -> "Arithmetic":
        """The arithmetic for a workload on these inputs, the gradient of the output among them if there is one."""
        accumulator = ElementType.FP32 if workload.accumulator is None else workload.accumulator
        largest_q, largest_k, largest_v = (float(np.abs(x).max()) for x in (q, k, v))
        scale = workload.softmax_scale
        scores = largest_q * largest_k * workload.d * max(abs(scale), 1.0)
        wide = max(scores, largest_q * abs(scale), largest_v * workload.keys) > _SAFE
        if do is not None:
            # dS is at most twice dP, and a sum of it with queries or keys at most that times their number
            d_scores = 2 * float(np.abs(do).max()) * largest_v * workload.value_dim
            longest = max(workload.keys, workload.group * workload.queries)
            wide = wide or d_scores * max(largest_q, largest_k, 1.0) * max(abs(scale), 1.0) * longest > _SAFE
        return cls(scale=scale, accumulator=accumulator, wide=wide, softcap=workload.softcap)

    @property
    def rounds(self) -> bool:
        """Whether intermediates are rounded, or saturated, beyond what single precision does by itself."""
        return self.accumulator is not ElementType.FP32 or self.wide

    def keep(self, values: Values) -> None:
        """Round intermediates in place, as keeping them in the accumulator type does."""
        if not self.rounds:
            return
        masked = np.isneginf(values)
        largest = _LARGEST[self.accumulator]
        values[...] = self.accumulator.rounded(np.clip(values, -largest, largest))
        values[masked] = -np.inf

    def cap(self, scores: Values) -> None:
        """Scores that are sums of all their products are capped in place, if there is a cap."""
        if self.softcap is not None:
            np.tanh(scores / np.float32(self.softcap), out=scores)
            scores *= np.float32(self.softcap)
            self.keep(scores)

    def add_product(self, total: Values, left: Values, right: Values, factor: float = 1.0) -> None:
        """total += factor * left @ right, kept in the accumulator type."""
        if self.wide:
            exact = total + factor * (left.astype(np.float64) @ right.astype(np.float64))
            largest = _LARGEST[ElementType.FP32]
            total[...] = np.clip(exact, -largest, largest)
        else:
            # a rank-1 product is a broadcast; matmul would go through a slower path for it
            product = left * right if left.shape[1] == 1 else left @ right
            if factor != 1.0:
                product *= np.float32(factor)
            total += product
        self.keep(total)
