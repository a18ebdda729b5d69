"""What data say of the scores of a head: how far they reach after centring, and how much their terms cancel.

Adding one vector to every key shifts a row of scores as a whole, which softmax does not see. So keys may be centred on
any vector. With the largest and least score of every row known for one centre, they are known for all: a centre c
moves those of row i by -scale * q_i.c. Four centres are tried: none, the mean of the keys, the middle of their box,
and the one fitted to the middles of the rows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from attenio.approximation.certificate import Audit, Evidence, Scores
from attenio.approximation.data import Head
from attenio.approximation.polynomials import Polynomial

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Progress = Callable[[int, int], None]

# Scores held at once: 8 MiB of float64, of which there are a handful.
_SCORES_AT_ONCE = 2**20
_FITTING_ROUNDS = 12


class Centring(Enum):
    """What is subtracted from every key."""

    NONE = "none"
    MEAN = "mean"
    MIDDLE = "middle"  # of the range of every coordinate
    FITTED = "fitted"  # to the middle of the range of every row of scores
    BEST = "best"  # of all of these


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """The scores of one head, the centre that was chosen for its keys, and how far scores reach without it."""

    scores: Scores
    centre: Float32
    centring: Centring
    radius_without_centring: float


def observe(head: Head, centring: Centring = Centring.BEST, progress: Progress | None = None) -> Observation:
    """Every required score is computed, in float64, some rows at a time."""
    mean = _single(head.keys.astype(np.float64).mean(axis=0))
    least, largest = np.full(len(head.queries), np.inf), np.full(len(head.queries), -np.inf)
    for rows, scores in _score_blocks(head, mean, progress):
        least[rows] = np.where(np.isnan(scores), np.inf, scores).min(axis=1)
        largest[rows] = np.where(np.isnan(scores), -np.inf, scores).max(axis=1)
    seen = largest >= least
    queries = head.queries[seen].astype(np.float64) * head.scale
    ranges = _Ranges(queries=queries, mean=mean.astype(np.float64), least=least[seen], largest=largest[seen])
    ranges_by_centre = {choice: ranges.within(c) for choice, c in _centres(head, mean, ranges, centring).items()}
    chosen = min(ranges_by_centre, key=lambda choice: ranges_by_centre[choice][1])
    middle, radius, centre = ranges_by_centre[chosen]
    # scores are found about the mean and then moved: q.(centre - mean) is rounded as well, and is no more than both
    slack = (_product(head, mean) + _product(head, centre)) * (head.d + 4) * 2.0**-52
    middle_without, radius_without, _ = ranges.within(np.zeros(head.d, np.float32))
    return Observation(
        scores=replace(
            _scores(head, (middle, radius + slack), _product(head, centre), Evidence.EVERY_SCORE),
            data=head.fingerprint(centre),
        ),
        centre=centre,
        centring=chosen,
        radius_without_centring=abs(middle_without) + radius_without + slack,
    )


def observe_rows(head: Head, centring: Centring = Centring.BEST, *, rescale: bool = True) -> Observation:
    """No score is computed: |q.k| is at most the product of the norms, also after coordinates are rescaled."""
    keys = head.keys.astype(np.float64)
    centres = {Centring.NONE: np.zeros(head.d), Centring.MEAN: keys.mean(axis=0), Centring.MIDDLE: _middle(keys)}
    wanted = centres if centring in (Centring.BEST, Centring.FITTED) else {centring: centres[centring]}
    singles = {choice: _single(centre) for choice, centre in wanted.items()}
    reach = {choice: _norm_bound(head, centre, rescale=rescale) for choice, centre in singles.items()}
    chosen = min(reach, key=lambda choice: reach[choice])
    return Observation(
        scores=_scores(
            head, (0.0, reach[chosen]), _norm_bound(head, singles[chosen], rescale=False), Evidence.ROW_NORMS
        ),
        centre=singles[chosen],
        centring=chosen,
        radius_without_centring=_norm_bound(head, np.zeros(head.d, np.float32), rescale=rescale),
    )


def audit_of(head: Head, centre: Float32, polynomial: Polynomial, progress: Progress | None = None) -> Audit:
    """Every row looked at: how far its weights move, how much its terms cancel, how large its outputs are."""
    variation = amplification = output = 0.0
    keys = np.abs(head.keys - centre.astype(np.float64))
    values = head.values.astype(np.float64)
    for rows, scores in _score_blocks(head, centre, progress):
        required = ~np.isnan(scores)
        seen = required.any(axis=1)
        if not seen.any():
            continue
        scores, required = np.where(required, scores, 0.0)[seen], required[seen]
        sizes = polynomial.of_sizes(np.abs(head.queries[rows][seen]).astype(np.float64) @ keys.T * abs(head.scale))
        replaced = np.where(required, polynomial(scores), 0.0)
        total = replaced.sum(axis=1, keepdims=True)
        if not (total > 0).all():  # not below relative error 1; a row of any other polynomial may vanish
            return Audit(total_variation=1.0, amplification=np.inf, output_bound=float(np.abs(values).max()))
        weights = np.where(required, np.exp(scores - scores.max(axis=1, keepdims=True)), 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        amplification = max(amplification, float((np.where(required, sizes, 0.0).sum(axis=1) / total[:, 0]).max()))
        variation = max(variation, float(np.abs(replaced / total - weights).sum(axis=1).max()) / 2)
        output = max(output, float(np.abs(weights @ values).max()))
    # float64 errors are below 1e-12 times how much terms cancel
    return Audit(
        total_variation=variation + 1e-12 * (1 + amplification),
        amplification=amplification * (1 + 1e-9),
        output_bound=output * (1 + 1e-9),
    )


def exact_attention(head: Head) -> Iterator[tuple[slice, Float64]]:
    """Exact attention of stacked rows in float64, some rows at a time; rows that see no key are zero."""
    mean = _single(head.keys.astype(np.float64).mean(axis=0))
    values = head.values.astype(np.float64)
    for rows, scores in _score_blocks(head, mean, None):
        required = ~np.isnan(scores)
        largest = np.where(required, scores, -np.inf).max(axis=1, keepdims=True)
        weights = np.where(required, np.exp(np.where(required, scores - largest, 0.0)), 0.0)
        yield rows, weights @ values / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Ranges:
    """The ends of every row of scores about the mean of the keys."""

    queries: Float64  # times the scale
    mean: Float64
    least: Float64
    largest: Float64

    def within(self, centre: Float32) -> tuple[float, float, Float32]:
        """The middle and the radius of all scores if keys are centred there."""
        moved = self.queries @ (centre.astype(np.float64) - self.mean)
        low, high = float((self.least - moved).min()), float((self.largest - moved).max())
        return (low + high) / 2, (high - low) / 2, centre


def _centres(head: Head, mean: Float32, ranges: _Ranges, centring: Centring) -> dict[Centring, Float32]:
    centres = {
        Centring.NONE: np.zeros(head.d, np.float32),
        Centring.MEAN: mean,
        Centring.MIDDLE: _single(_middle(head.keys.astype(np.float64))),
    }
    if centring in (Centring.BEST, Centring.FITTED):
        centres[Centring.FITTED] = _fitted(ranges)
    return centres if centring is Centring.BEST else {centring: centres[centring]}


def _fitted(ranges: _Ranges) -> Float32:
    """A centre that brings the far end of the farthest row closer: least squares, with weights that follow the far
    rows.

    Lawson's iteration: rows that reach further count more in the next round. The best round is kept.
    """
    middles = (ranges.least + ranges.largest) / 2
    halves = (ranges.largest - ranges.least) / 2
    weights = np.full(len(middles), 1.0 / max(len(middles), 1))
    best = ranges.within(_single(ranges.mean))
    for _ in range(_FITTING_ROUNDS):
        root = np.sqrt(weights)[:, None]
        offset = np.linalg.lstsq(ranges.queries * root, middles * root[:, 0], rcond=1e-10)[0]
        tried = ranges.within(_single(ranges.mean + offset))
        best = min(best, tried, key=lambda each: each[1])
        reach = np.abs(middles - ranges.queries @ offset) + halves
        weights = weights * reach
        total = weights.sum()
        if not total > 0:
            break
        weights /= total
    return best[2]


def _score_blocks(head: Head, centre: Float32, progress: Progress | None) -> Iterator[tuple[slice, Float64]]:
    """Scores of some rows about a centre of the keys, NaN where the mask does not ask for them."""
    keys = head.keys.astype(np.float64) - centre.astype(np.float64)
    height = max(1, _SCORES_AT_ONCE // len(keys))
    for start in range(0, len(head.queries), height):
        stop = min(start + height, len(head.queries))
        scores = head.queries[start:stop].astype(np.float64) @ keys.T * head.scale
        if head.causal:
            scores[np.arange(len(keys), dtype=np.int64) > head.last_key(start, stop)[:, None]] = np.nan
        yield slice(start, stop), scores
        if progress is not None:
            progress(stop, len(head.queries))


def _scores(head: Head, within: tuple[float, float], product: float, evidence: Evidence) -> Scores:
    values = head.values.astype(np.float64)
    return Scores(
        d=head.d,
        keys=len(head.keys),
        radius=within[1],
        centre=within[0],
        product=max(product, within[1] + abs(within[0])),
        value_bound=float(np.abs(values).max()),
        value_radius=float((values.max(axis=0) - values.min(axis=0)).max() / 2),
        evidence=evidence,
    )


def _norm_bound(head: Head, centre: Float32, *, rescale: bool) -> float:
    queries, keys = head.queries.astype(np.float64), head.keys.astype(np.float64) - centre.astype(np.float64)
    plain = _largest_norm(queries) * _largest_norm(keys)
    if rescale:
        sizes = [np.sqrt((array**2).mean(axis=0)) for array in (queries, keys)]
        factors = np.sqrt(np.where(sizes[0] > 0, sizes[1], 1.0) / np.where(sizes[0] > 0, sizes[0], 1.0))
        factors = np.where(factors > 0, factors, 1.0)
        plain = min(plain, _largest_norm(queries * factors) * _largest_norm(keys / factors))
    return plain * abs(head.scale) * (1 + 1e-12)


def _product(head: Head, centre: Float32) -> float:
    return _norm_bound(head, centre, rescale=True)


def _largest_norm(rows: Float64) -> float:
    return float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))


def _middle(keys: Float64) -> Float64:
    return np.asarray((keys.max(axis=0) + keys.min(axis=0)) / 2, dtype=np.float64)


def _single(centre: Float64 | Iterable[float]) -> Float32:
    return np.asarray(centre, dtype=np.float32)
