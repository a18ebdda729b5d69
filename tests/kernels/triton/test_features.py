"""The feature kernels, interpreted: the polynomial in float64 is the definition that they are held against."""

from dataclasses import replace

import pytest
import torch
from tests.kernels.records import portable

from attenio.approximation.certificate import Evidence, Scores, Terms, certificate_for
from attenio.approximation.running.tensors import Reach
from attenio.errors import InvalidInput
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.promise import Promise
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.cpu import features as on_cpu
from attenio.kernels.gpu.tensor_cores import Sizes, TensorCoreSums, approximate_operations, promise_for
from attenio.kernels.triton.feature_function import attend_by_features
from attenio.kernels.triton.feature_state import FeatureTiles, polynomial_sums
from attenio.kernels.triton.sizes import sizes_of

SMALL = FeatureTiles(
    chunk=32, key_tile=32, key_parts=1, row_tile=32, inner_key_tile=16, linear_tile=32, prefix_features=256
)
COEFFICIENTS = (1.0, 1.0, 0.5)


def problem_of(shape, dtype=torch.float32, size=0.5, shift=0.0):
    torch.manual_seed(0)
    batch, kv_heads, group, queries, keys, d, width = shape
    q = (size * torch.randn(batch, kv_heads * group, queries, d)).to(dtype)
    k = (size * torch.randn(batch, kv_heads, keys, d) + shift).to(dtype)
    v = torch.randn(batch, kv_heads, keys, width).to(dtype)
    return KernelProblem.of_heads(q, k, v, Visibility(group=group), d**-0.5)


def centre_of(problem):
    return problem.key.float().mean(2).flatten(0, 1)[:, None].contiguous()


def wanted(problem, coefficients, centre=None, *, causal=False):
    q, k, v = (x.double() for x in (problem.query, problem.key, problem.value))
    k = k if centre is None else k - centre.double().unflatten(0, k.shape[:2])
    scores = torch.einsum("bhgid,bhjd->bhgij", q, k) * problem.scale
    weights = sum(c * scores**power for power, c in enumerate(coefficients))
    weights = weights.tril() if causal else weights
    return torch.einsum("bhgij,bhjc->bhgic", weights, v) / weights.sum(-1, keepdim=True), weights.sum(-1)


CASES = {
    "dense": ((1, 1, 1, 40, 70, 32, 16), False, 0.0),
    "causal over chunks, centred": ((1, 1, 1, 70, 70, 32, 16), True, 0.5),
    "causal in one chunk": ((1, 1, 1, 20, 20, 32, 16), True, 0.0),
    "groups of ragged widths, centred": ((2, 1, 2, 20, 35, 20, 9), False, 0.5),
    "causal groups of ragged widths": ((1, 1, 2, 35, 35, 20, 9), True, 0.0),
}
# The interpreter cuts numbers of bf16 off where a GPU rounds them: two halves hold 14 bits there, not 16.
CUT = 2**-14


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_denominators_are_those_of_the_polynomial(case):
    shape, causal, shift = CASES[case]
    problem = problem_of(shape, shift=shift)
    centre = centre_of(problem) if shift else None
    tiles = replace(SMALL, state_bytes=2**30 if problem.batch == 1 else 1)  # one head at a time
    output, below = polynomial_sums(problem, COEFFICIENTS, centre, causal=causal, tiles=tiles)
    exact, total = wanted(problem, COEFFICIENTS, centre, causal=causal)
    assert float((output - exact).abs().max()) <= 16 * CUT
    assert float(((below - total) / total).abs().max()) <= 4 * CUT


def test_four_groups_of_coordinates_meet_in_ten_pairs():
    problem = problem_of((1, 1, 1, 16, 16, 64, 16), torch.bfloat16)
    output, below = polynomial_sums(
        problem,
        COEFFICIENTS,
        None,
        causal=False,
        dtype=torch.float32,
        tiles=replace(SMALL, key_tile=16, linear_tile=16),
    )
    exact, total = wanted(problem, COEFFICIENTS)
    assert float((output - exact).abs().max()) <= 4 * CUT
    assert float(((below - total) / total).abs().max()) <= CUT


@pytest.mark.parametrize("coefficients", [(1.0, 0.8), (2.0,)], ids=["a line", "a constant"])
@pytest.mark.parametrize("causal", [False, True])
def test_lower_degrees_leave_out_what_they_do_not_have(coefficients, causal):
    problem = problem_of((1, 1, 1, 40, 40, 32, 16), torch.float16)
    output, _ = polynomial_sums(problem, coefficients, None, causal=causal, dtype=torch.float32, tiles=SMALL)
    assert float((output - wanted(problem, coefficients, causal=causal)[0]).abs().max()) <= 16 * CUT


def promised(problem, *, causal):
    """A certificate whatever it costs: interpreted problems are too small to be worth one."""
    scores = Scores(d=problem.query.shape[-1], keys=problem.keys, radius=1.0)
    terms = Terms(tolerance=0.1, summation=TensorCoreSums(direct=causal))
    ones = torch.ones(problem.batch * problem.kv_heads, 1, 1)
    reach = Reach(bound=1.0, evidence=Evidence.STATED, centre=centre_of(problem), balance=ones)
    return Promise(certificate=certificate_for(scores, terms), reach=reach)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_the_cpu(causal):
    problem = problem_of((1, 1, 2, 20, 20, 16, 16), shift=0.3)
    promise = promised(problem, causal=causal)
    found = []
    for attend in (attend_by_features, on_cpu.attend_by_features):
        leaves = [x.clone().requires_grad_() for x in (problem.query, problem.key, problem.value)]
        of_leaves = replace(problem, query=leaves[0], key=leaves[1], value=leaves[2])
        output = attend(of_leaves, promise, causal=causal)
        torch.manual_seed(1)
        found.append((output.detach(), *torch.autograd.grad(output, leaves, torch.randn_like(output))))
    for mine, theirs in zip(*found, strict=True):
        assert float((mine - theirs).abs().max()) <= 64 * CUT


def test_roundings_cover_what_a_run_in_two_halves_of_bf16_does():
    problem = problem_of((1, 1, 1, 64, 64, 16, 16), torch.bfloat16, size=0.35)
    promise = promise_for(problem, 0.5, causal=True)
    output, _ = polynomial_sums(
        problem, promise.certificate.polynomial.coefficients, promise.reach.centre, causal=True, dtype=torch.float32,
        tiles=SMALL,
    )  # fmt: skip
    scores = torch.einsum("bhgid,bhjd->bhgij", problem.query.double(), problem.key.double()) * problem.scale
    weights = scores.masked_fill(torch.ones(64, 64).triu(1).bool(), -torch.inf).softmax(-1)
    exact = torch.einsum("bhgij,bhjc->bhgic", weights, problem.value.double())
    assert (
        float((output - exact).abs().max()) <= promise.certificate.added_error * promise.certificate.scores.value_unit
    )


def test_centring_is_used_where_it_helps_and_counted():
    plain, moved = (promise_for(problem_of((1, 1, 1, 64, 64, 16, 16), torch.bfloat16, 0.3, shift), 0.1, causal=False)
                    for shift in (0.0, 1.0))  # fmt: skip
    assert plain.reach.centre is None and moved.reach.centre is not None
    counts = [x.certificate.terms.summation.roundings(d=16, degree=2, features=153, keys=64) for x in (plain, moved)]
    assert counts[0] < counts[1]


@pytest.mark.parametrize("shape", [(2, 1, 2, 70, 40, 20, 9), (1, 2, 1, 30, 600, 16, 16)])
def test_one_pass_finds_the_sizes_that_pytorch_finds(shape):
    problem = problem_of(shape, torch.bfloat16, shift=0.4)
    mine, theirs = sizes_of(problem), Sizes.of(problem)
    torch.testing.assert_close(mine.centre, theirs.centre, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(torch.tensor(mine[:3]), torch.tensor(theirs[:3]), rtol=1e-5, atol=1e-6)
    assert torch.equal(mine.values.low, theirs.values.low) and torch.equal(mine.values.high, theirs.values.high)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("which", ["query", "key", "value"])
def test_one_pass_sees_what_is_not_finite(which, value):
    problem = problem_of((1, 1, 1, 20, 20, 16, 16))
    getattr(problem, which)[..., 11, 3] = value
    with pytest.raises(InvalidInput, match="not finite"):
        sizes_of(problem)


def test_wide_heads_are_left_to_exact_attention():
    with pytest.raises(InvalidInput, match="up to 128 wide"):
        promise_for(problem_of((1, 1, 1, 8, 8, 129, 8)), 0.1, causal=False)


def test_operations_grow_with_the_length_and_not_with_its_square():
    def operations(n, causal):
        half = {"device": "meta", "dtype": torch.bfloat16}
        q = torch.empty(1, 1, n, 64, **half)
        return approximate_operations(
            KernelProblem.of_heads(q, q, q, Visibility(group=1), 0.125), 2, causal=causal
        )  # fmt: skip

    assert operations(2**18, False) == 2 * operations(2**17, False)
    assert operations(2**18, False) < operations(2**18, True) < 2 * operations(2**18, False)
    assert operations(2**18, False) / 2**18 == 2 * 2 * (2 * 64 * 128 + 64 * (2560 + 3072) + 16 * 2560)


_COMPILES = """
import re
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from attenio.kernels.triton import features
from attenio.kernels.triton.feature_state import FeatureTiles

TILES = FeatureTiles()
FIXED = dict(D=64, WIDTH=64, D_PADDED=64, W_PADDED=64, CHUNK=TILES.chunk, GROUP=16, GROUPS=4, Centre=None,
             PARTS=TILES.key_parts, FEATURES=TILES.prefix_features, Q_EXACT=True, K_EXACT=True, V_EXACT=True,
             QUADRATIC=True)

def built(kernel, warps, stages, **more):
    signature, constants, attributes = {}, {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in FIXED | more:
            signature[name], constants[(index,)] = "constexpr", (FIXED | more)[name]
        elif name.endswith("_d"):
            signature[name], constants[(index,)] = "constexpr", 1
        else:
            halves = {"Q", "K", "V", "O", "High", "Low", "KeysHigh", "KeysLow"}
            signature[name] = ("*bf16" if name in halves else "*fp32" if name[0].isupper()
                               else "fp32" if name in ("c0", "c1", "c2", "weight") else "i32")
            if name[0].isupper() or re.fullmatch("._[bhn]", name):
                attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    found = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages})
    return found.asm["ptx"].count("wgmma.mma_async") > 0

print(built(features.quadratic_kernel, TILES.key_warps, TILES.key_stages, KEY_TILE=TILES.key_tile),
      built(features.linear_kernel, 4, 2, KEY_TILE=TILES.linear_tile),
      built(features.query_kernel, TILES.row_warps, TILES.row_stages, CAUSAL=True, ROW_TILE=TILES.row_tile,
            KEY_TILE=TILES.inner_key_tile))
"""


def test_every_kernel_compiles_for_hopper_to_tensor_core_instructions():
    assert portable(_COMPILES).split() == ["True"] * 3
