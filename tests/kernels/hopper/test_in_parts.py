"""fp32 in parts of bf16 on Hopper: interpreted against the CPU kernels in float64, and what the kernels compile to."""

import pytest

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

import torch
from gluon_interpreter import TmaDescriptor, interpreted, launch
from offline_compiler import instructions_of

from attenio.kernels import cpu, hopper
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.hopper import single_precision
from attenio.kernels.triton.parts import split

INF, NAN = float("inf"), float("nan")
EPS = torch.finfo(torch.float32).eps
# Batch, KV heads, group, queries, keys, widths of keys and of values, and options.
CASES = {
    "dense": ((1, 2, 1, 130, 130, 64, 64), {}),
    "causal": ((1, 1, 1, 150, 150, 128, 128), {"is_causal": True}),
    "ragged widths in groups": ((2, 1, 2, 70, 90, 190, 40), {"is_causal": True}),
    "window": ((1, 1, 2, 200, 200, 72, 64), {"window": 50}),
    "rows that see nothing": ((1, 1, 1, 200, 80, 16, 24), {"window": (20, 0)}),
    "four pieces": ((1, 1, 1, 70, 140, 256, 256), {}),
}


def problem_of(case, **more):
    (batch, kv_heads, group, queries, keys, d, width), options = CASES[case]
    q = torch.randn(batch, kv_heads * group, queries, d)
    k, v = torch.randn(batch, kv_heads, keys, d), torch.randn(batch, kv_heads, keys, width)
    visible = visibility_of(q, k, CallArguments(**options), (batch,))
    return KernelProblem.of_heads(q, k, v, visible, more.pop("scale", d**-0.5), **more)


def exactly(problem):
    parts = {name: getattr(problem, name).double() for name in ("query", "key", "value")}
    return KernelProblem(**parts, visible=problem.visible, scale=problem.scale)


@pytest.fixture
def kernels(monkeypatch):
    """Launches run interpreted, on memory that is NaN where nothing was written; the kernels' names."""
    home, names, plain = "attenio.kernels.hopper.", [], torch.empty
    loaded = interpreted(home + "in_parts", needing=(home + "pieces",))

    def run(kernel, programs, described, arguments, constants, _options):
        names.append(kernel.fn.__name__)
        descriptors = (TmaDescriptor(each.base.view(each.shape), each.block_shape) for each in described)
        launch(getattr(loaded, names[-1]), (programs,), *descriptors, *arguments, *constants)

    monkeypatch.setattr(single_precision, "launch", run)
    monkeypatch.setattr(torch, "empty", lambda *given, **options: plain(*given, **options).fill_(NAN))
    return names


def assert_close(mine, theirs):
    """By norm: roundings of sums of a few hundred numbers."""
    assert float((mine.reshape(theirs.shape).double() - theirs).norm()) <= 8 * EPS * float(theirs.norm())


@pytest.mark.parametrize(("case", "scale"), [*((case, None) for case in CASES), ("causal", -0.1), ("window", -0.1)])
def test_outputs_and_gradients_are_those_of_float64_to_a_few_roundings(case, scale, kernels):
    torch.manual_seed(0)
    problem = problem_of(case) if scale is None else problem_of(case, scale=scale)
    right = cpu.attend(exactly(problem))
    mine = single_precision.attend(problem)
    assert_close(mine.output, right.output)
    seen = right.total > 0
    assert torch.equal(mine.total > 0, seen)
    mine_lse, right_lse = (each.largest.double() + each.total.double().log2() for each in (mine, right))
    assert_close(mine_lse[seen], right_lse[seen])
    gradient = torch.randn_like(problem.query[..., :1]) * torch.randn(problem.value.shape[-1])
    wanted = cpu.two_pass(exactly(problem), cpu.Saved(*right[:3], gradient.double()))
    found = single_precision.gradients(problem, (*mine[:3], gradient))
    for part in ("query", "key", "value"):
        assert_close(getattr(found, part), getattr(wanted, part))
    assert kernels == ["query_parts_kernel"] * 2 + ["key_parts_kernel"] * 2


def test_infinite_values_and_nan_go_where_single_precision_puts_them(kernels):
    torch.manual_seed(0)
    problem = problem_of("causal")
    problem.value[0, 0, 7, 3], problem.value[0, 0, 90, 70], problem.value[0, 0, 100, 5] = INF, -INF, NAN
    mine, right = single_precision.attend(problem).output, cpu.attend(exactly(problem)).output
    assert torch.equal(mine.isnan(), right.isnan()) and torch.equal(mine == INF, right == INF)
    assert torch.equal(mine == -INF, right == -INF)
    assert not mine[..., :7, :].isinf().any()


@pytest.mark.parametrize(("count", "width", "padded"), [(5, 40, 64), (130, 190, 192), (128, 256, 256)])
def test_parts_of_a_row_sum_to_it_and_the_rest_is_zero(count, width, padded):
    x, other = torch.randn(2, 3, 2, count, width), torch.randn(2, 3, 2, count, width)
    filled = -(-count // 128) * 128
    sums = torch.full((2, 6, filled), NAN)
    parts = split(x, padded, other=other, sums=sums)
    assert parts.shape == (2, 6, filled, 3, padded)
    whole = parts.double().sum(-2)
    assert torch.equal(whole[:, :, :count, :width].float(), x.view(2, 6, count, width))
    assert not whole[:, :, count:].any() and not whole[..., width:].any() and not sums[..., count:].any()
    torch.testing.assert_close(sums[..., :count], (x * other).sum(-1).view(2, 6, count))


def test_parts_are_made_where_rows_are_many_and_nothing_but_a_band_hides():
    plain, wide = (torch.empty(1, 2, 1024, d, device="meta") for d in (64, 136))

    def reason(query, *, backward=False, **options):
        visible = visibility_of(query, query, CallArguments(**options), (1,))
        problem = KernelProblem.of_heads(query, query, query.new_empty(query.shape), visible, 1.0)
        return single_precision.why_not(problem, backward=backward)

    assert reason(plain) is None and reason(plain, is_causal=True, backward=True) is None
    assert "each row meets" in reason(plain[:, :, :511]) and reason(plain[:, :, :512]) is None
    assert "each row meets" in reason(plain[:, :, :1023], backward=True) and reason(wide[:, :, :256]) is None
    assert "each row meets" in reason(plain, window=100)
    assert "fp32" in reason(plain.half()) and "columns" in reason(plain.new_empty(1, 2, 1024, 257))
    assert "masks" in reason(plain, attn_mask=torch.empty(1024, 1024, device="meta"))


def test_hopper_takes_parts_for_long_sequences_and_portable_kernels_for_short_ones():
    long, short = (torch.empty(1, 2, 1, n, 64, device="meta") for n in (1024, 300))
    for query, language in ((long, "Gluon"), (short, "Triton")):
        visible = visibility_of(query[:, :, 0], query[:, :, 0], CallArguments(), (1,))
        value = torch.empty(1, 2, query.shape[-2], 32, device="meta")
        problem = KernelProblem(query=query, key=query[:, :, 0], value=value, visible=visible, scale=1.0)
        forward, backward = hopper.choose(problem, 132), hopper.choose_backward(problem, 132)
        assert (forward.language, backward.language) == (language, language)
        assert bool(forward.why_not) == bool(backward.why_not) == (language == "Triton")
        if language == "Gluon":
            assert hopper.grids(problem, backward=False) is hopper.grids(problem, backward=True) is None


_BUILT = """
from attenio.kernels.hopper.in_parts import key_parts_kernel, query_parts_kernel
from attenio.kernels.hopper.single_precision import TILES

def built(of_queries, d, first):
    kernel = query_parts_kernel if of_queries else key_parts_kernel
    sums = dict(SOFTMAX=first) if of_queries else dict(OF_KEYS=first)
    fixed = dict(D=d, WIDTH=d, D_PADDED=d, W_PADDED=d, REGISTERS=TILES.registers, **sums)
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name in ("X", "Y", "x", "y"):
            signature[name] = descriptor([64, 64], "bf16")
        elif name in ("Largest", "Total", "Delta", "Out"):
            signature[name] = "*fp32"
        else:
            signature[name] = "fp32" if name in ("scale", "factor") else "i32"
    return compiled(kernel, signature, constants, {"num_warps": 4, "maxnreg": TILES.registers_at_start})
"""
# Whether it keeps queries, columns, and whether it makes O or dK rather than dQ or dV.
VARIANTS = [(True, 128, True), (True, 128, False), (False, 128, True), (False, 128, False), (True, 256, False)]


@pytest.fixture(scope="module")
def compiled():
    return instructions_of(_BUILT, VARIANTS)


@pytest.mark.parametrize("index", range(len(VARIANTS)))
def test_a_kernel_in_parts_spills_little_and_multiplies_on_tensor_cores(compiled, index):
    found, (of_queries, d, first) = compiled[index], VARIANTS[index]
    assert found["sm_90a"] and found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    # Six products, 16 deep each, of every piece of each product, in two consumers.
    products = (2 if first else 3) if of_queries else (3 if first else 2)
    assert found["HGMMA"] == 2 * 6 * (64 // 16) * (d // 64) * products
    # Sums of 256 columns leave gradients too few registers: of each thread, some 80 are spilled in a tile.
    assert found["LDL"] + found["STL"] <= (6 if d < 256 else 320)
    assert found["WARPGROUP.ARRIVE"] == 2 * 6 * (d // 64) * products
