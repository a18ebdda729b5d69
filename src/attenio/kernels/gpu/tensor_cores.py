"""What the approximate kernels of a GPU promise: how they round, how much they compute, and the certificate of data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.approximation.certificate import Evidence, Terms
from attenio.approximation.rounding import Summation
from attenio.approximation.running.tensors import Reach, ValueRange, scores_within, stored_as
from attenio.errors import InvalidInput
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.promise import Promise, certificate_like, on_grid

# Keys of one state; of those that one chain of tensor-core additions takes; and coordinates multiplied at once.
CHUNK, KEY_TILE, GROUP = 2048, 64, 16
# Degree 3 has 22 times the features at d = 64; of wider heads a tile of the state does not fit into shared memory.
MOST_DEGREE, MOST_WIDTH = 2, 128
# Centring makes every product three instead of two: it has to be worth something.
_WORTH_CENTRING = 0.9
# No sum of these sizes overflows fp32, and what underflow loses is nothing beside the smallest unit.
_LARGEST, _LEAST_UNIT = 2.0**16, 2.0**-40


@dataclass(frozen=True, kw_only=True)
class TensorCoreSums(Summation):
    """Roundings of the feature kernels, in units of that of fp32, u = 2^-24.

    A number is given to a product as two of bf16, which leaves 2^-16 of it, 256 u, and the product of two second halves
    is left out: as much again. An addition in a tensor core aligns its terms to the largest and cuts them off, 16 terms
    and the sum so far at once: at most 18 cuts of 2^-23 for 16 additions, counted as 3 u each. Two halves, or three
    products of halves, are that many additions. A sum of KEY_TILE keys joins the rest by an addition of fp32.
    """

    exact: bool = True  # entries are numbers of bf16 and keys are not centred
    chunk: int = CHUNK

    def roundings(self, *, d: int, degree: int, features: int, keys: int) -> int:
        """The most roundings between the entries and a term of the output, in units of u."""
        halves, left_out = 256, 264
        products = 2 if self.exact else 3
        # what is not a number of bf16 is halved: keys, values, queries; and a product of two halved ones lacks a part
        of_feature = halves if self.exact else 4 * halves + left_out
        of_query = 0 if self.exact else halves + left_out
        of_score = 0 if self.exact else 2 * halves + left_out
        of_weight = halves if self.exact else 2 * halves + left_out
        along, tile = 3 * products * padded(d), 3 * products * KEY_TILE
        over_chunk = tile + self.chunk // KEY_TILE
        # centring, the feature, its sums over a tile, a chunk and all chunks, the weight, the halves of the state
        by_keys = 2 * degree + 1 + of_feature + over_chunk + -(-keys // self.chunk) + 2 + halves
        # q M_a, times q_a, over all a, then the linear and the constant part
        by_queries = of_query + along + 2 * (d + 1) + along + 4
        if not self.direct:
            return by_keys + by_queries
        # p(q.k): factors that are sums of d products, Horner's rule, sums over the chunk, which features pass as well
        inside = degree * (of_score + along + 6) + of_weight + over_chunk
        return max(by_keys + by_queries, inside) + self.chunk // KEY_TILE + 4


def padded(d: int) -> int:
    """Coordinates as the kernels hold them: two halves of whole groups."""
    return max(2 * GROUP, 1 << (d - 1).bit_length())


class Sizes(NamedTuple):
    """Largest norms of queries and of keys, the norm of the mean key, and the range of values, of every KV head."""

    queries: list[float]
    keys: list[float]
    means: list[float]
    values: ValueRange
    centre: Tensor  # the mean key, (heads, 1, d), where the keys are; all else is on the CPU

    @classmethod
    def of(cls, problem: KernelProblem) -> "Sizes":
        """By PyTorch, on any device."""
        centre = problem.key.mean(2, keepdim=True, dtype=torch.float32)
        low, high = (part.flatten(0, 1).cpu() for part in torch.aminmax(problem.value, dim=2))
        norms = (_largest_norm(problem.query).amax(2), _largest_norm(problem.key), _largest_norm(centre))
        return cls.checked(torch.stack([part.flatten() for part in norms]).cpu(), low, high, centre.flatten(0, 1))

    @classmethod
    def checked(cls, norms: Tensor, low: Tensor, high: Tensor, centre: Tensor) -> "Sizes":
        """From the norms of queries, keys and means, and the ends of the values' range, if all are sane."""
        queries, keys, means = norms.tolist()
        if not all(norm <= _LARGEST for norm in (*queries, *keys, *means)):
            raise InvalidInput(f"use exact: queries or keys are not finite, or longer than {_LARGEST:,.0f}")
        return cls(queries, keys, means, ValueRange.between(low, high), centre)

    def reach(self, keys: list[float]) -> float:
        """The largest product of a norm of queries and one of these of keys."""
        return max(query * key for query, key in zip(self.queries, keys, strict=True))


def promise_for(
    problem: KernelProblem, tolerance: float, *, causal: bool, sizes_of: Callable[[KernelProblem], Sizes] = Sizes.of
) -> Promise:
    """The certificate of these data, which may say to use exact; InvalidInput where they have none."""
    if max(problem.query.shape[-1], problem.value.shape[-1]) > MOST_WIDTH:
        raise InvalidInput(f"use exact: features on a GPU are for heads up to {MOST_WIDTH} wide")
    with torch.no_grad():
        sizes = sizes_of(problem)
        reach = on_grid(_reach(problem, sizes))
    scores = scores_within(reach, sizes.values, problem.value.flatten(0, 1), d=int(problem.query.shape[-1]))
    if scores.value_bound > _LARGEST or scores.value_unit < _LEAST_UNIT:
        raise InvalidInput(
            f"use exact: values of up to {scores.value_bound:.2g} that differ by {2 * scores.value_unit:.2g} are out of"
            " the range that the kernels of a GPU sum; multiply them by a power of two"
        )
    exact = problem.query.dtype == torch.bfloat16 and reach.centre is None
    terms = Terms(
        tolerance=tolerance, dtype=stored_as(problem.value.dtype), most_degree=MOST_DEGREE,
        summation=TensorCoreSums(direct=causal, exact=exact),
    )  # fmt: skip
    return Promise(certificate=certificate_like(scores, terms), reach=reach)


def _reach(problem: KernelProblem, sizes: Sizes) -> Reach:
    """How far scores reach by the norms of rows, with keys centred where that helps."""
    d, longest, centre = int(problem.query.shape[-1]), sizes.keys, None
    # by the triangle inequality centring takes no more off a norm than the norm of the mean
    if any(mean > (1 - _WORTH_CENTRING) * key for mean, key in zip(sizes.means, sizes.keys, strict=True)):
        middle = sizes.centre.view(problem.batch, problem.kv_heads, 1, d)
        moved = _largest_norm(problem.key - middle).flatten().tolist()
        if sizes.reach(moved) < _WORTH_CENTRING * sizes.reach(sizes.keys):
            longest, centre = moved, sizes.centre.contiguous()
    slack = (1 + (d + 16) * torch.finfo(torch.float32).eps) * abs(problem.scale)
    return Reach(
        bound=sizes.reach(longest) * slack, evidence=Evidence.ROW_NORMS, centre=centre,
        balance=torch.ones(problem.batch * problem.kv_heads, 1, 1, dtype=torch.float32),
    )  # fmt: skip


def _largest_norm(rows: Tensor) -> Tensor:
    """Of every head."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float32)
    return norms.amax(-1)


def approximate_operations(problem: KernelProblem, degree: int, *, causal: bool) -> int:
    """Multiplications and additions of a run in tensor cores: every product twice or three times, in its halves."""
    d, width = int(problem.query.shape[-1]), int(problem.value.shape[-1])
    wide = padded(d)
    products = 2 if problem.query.dtype == torch.bfloat16 else 3
    groups = wide // GROUP
    of_keys = of_queries = wide * (width + wide)
    if degree > 1:
        repeated = 2 * GROUP * (products - 1) // products  # by products with zeros and ones
        of_keys += GROUP**2 * groups * (groups + 1) // 2 * (width + repeated)
        of_queries += 3 * wide**2 // 4 * width
    count = 2 * products * (problem.keys * of_keys + problem.group * problem.queries * of_queries)
    if causal:
        inner = min(CHUNK, problem.queries)
        count += problem.group * problem.queries * inner * (wide + products * width)
    return problem.batch * problem.kv_heads * count
