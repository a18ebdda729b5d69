"""Gradients on a Hopper GPU: against float64, exact where they can be, the same bits again, in streams and graphs."""

from itertools import product

import pytest
import torch
from tests.kernels.untiled import assert_right, untiled

from attenio import attention
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.hopper import backward, launch_plans
from attenio.kernels.hopper.backward import masks
from attenio.kernels.hopper.backward.config import backward_config, config_of
from attenio.kernels.hopper.backward.group_parts import parts_for
from attenio.kernels.hopper.backward.key_stationary import key_stationary_gradients
from attenio.kernels.hopper.backward.launch_groups import LaunchGroups
from attenio.kernels.hopper.backward.spilled_gradients import spilled_gradients
from attenio.kernels.hopper.backward.whole_heads import whole_heads_gradients
from attenio.kernels.hopper.cuda.key_stationary import columns_of

# Sequences, heads, KV heads, queries, keys, first and last key seen relative to the query.
SHAPES = [
    (1, 1, 1, 128, 128, -UNBOUNDED, UNBOUNDED),
    (2, 4, 4, 512, 512, -UNBOUNDED, 0),
    (1, 4, 2, 300, 333, -UNBOUNDED, UNBOUNDED),
    (2, 6, 2, 333, 300, -UNBOUNDED, 0),
    (1, 2, 1, 500, 100, -100, 0),
    (1, 2, 1, 333, 300, -100, -33),
    (3, 8, 2, 700, 900, -UNBOUNDED, 200),
    (1, 1, 1, 1, 1, -UNBOUNDED, UNBOUNDED),
]
LONGER = [SHAPES[2], SHAPES[6], (2, 4, 2, 1100, 700, -300, 50)]
# Widths of heads and values, by the width of the kernel that computes them.
WIDTHS = {
    64: [(64, 64), (8, 8), (24, 32), (48, 40)],
    96: [(96, 96), (80, 80), (40, 72)],
    128: [(128, 128), (112, 112), (104, 72)],
    192: [(192, 128), (192, 192), (136, 64), (120, 176)],
    256: [(256, 256), (256, 64)],
}
# dS that is spilled comes from a P of 16 bits, of fp16 and of 256 columns with no more digits than dV has. By norm
# that stays within twice the error of an untiled computation, but the worst of some 100,000 elements did not in 5 of 81
# problems, and one that was emulated came to 3.1 (``studies/hopper/tuning.json``, run 14).
WORST_OF_SPILLED = 4.0
# So many causal key tiles that a program computes several of them.
MANY_TILES = (64, 9, 9, 300, 300, -UNBOUNDED, 0)
CASES = [(d, (shape, widths)) for d, listed in WIDTHS.items() for widths in listed for shape in SHAPES]


def problem_of(shape, widths, dtype, *, deterministic=False):
    batch, heads, kv_heads, queries, keys, below, above = shape
    sizes = ((heads, queries, widths[0]), (kv_heads, keys, widths[0]), (kv_heads, keys, widths[1]))
    q, k, v = (torch.randn(batch, *size, device="cuda", dtype=dtype) for size in sizes)
    seen = Visibility(group=heads // kv_heads, below=below, above=above)
    return KernelProblem.of_heads(q, k, v, seen, widths[0] ** -0.5, deterministic=deterministic)


# Parts of a group round gradients of keys and values once each before these are summed: by norm within twice that error
# too, but the largest error of 2 in 384 problems was not.
WORST_OF_PARTS = 3.0


def worst_of(problem):
    """How many times the worst error of an untiled computation an error may be."""
    config, coarse = config_of(problem), problem.query.dtype == torch.float16
    if not config.spills:
        return WORST_OF_PARTS if parts_for(problem, config) > 1 else 2.0
    return WORST_OF_SPILLED if coarse or config.d == 256 else 2.0


def seen_in(problem):
    i = torch.arange(problem.queries, device="cuda")[:, None]
    j = torch.arange(problem.keys, device="cuda")[None]
    return (j <= i + problem.visible.above) & (j >= i + problem.visible.below)


def step(inputs, **options):
    """Gradients of one set of inputs (q, k, v, gradient), by the whole path of a training step."""
    leaves = [x.detach().requires_grad_() for x in inputs[:3]]
    return torch.autograd.grad(attention(*leaves, **options), leaves, inputs[3])


def same(first, second):
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("d, case", CASES, ids=str)
def test_gradients_are_those_of_float64(d, case, dtype, deterministic):
    shape, widths = case
    problem = problem_of(shape, widths, dtype, deterministic=deterministic)
    assert backward.supports(problem) and config_of(problem).d in (d, columns_of(problem))
    gradient = torch.randn((*problem.query.shape[:-1], widths[1]), device="cuda", dtype=dtype)
    seen = seen_in(problem)
    saved, _ = untiled(problem, gradient, seen, dtype)
    assert_right(backward.gradients(problem, saved)[:3], problem, gradient, seen, worst_of(problem))


@pytest.mark.parametrize("shape", [*SHAPES, MANY_TILES, (66, 8, 4, 130, 200, -UNBOUNDED, 70)], ids=str)
@pytest.mark.parametrize("widths", [(64, 64), (40, 64), (64, 24), (96, 96), (80, 72), (72, 96), (128, 104)], ids=str)
def test_heads_by_gluon_and_by_cuda_in_parts_and_whole(shape, widths):
    problem = problem_of(shape, widths, torch.bfloat16)
    gradient = torch.randn((*problem.query.shape[:-1], widths[1]), device="cuda", dtype=torch.bfloat16)
    seen = seen_in(problem)
    saved, _ = untiled(problem, gradient, seen, torch.bfloat16)
    configs = [backward_config(*widths)]
    if shape[5] == -UNBOUNDED:
        configs += [config_of(problem)._replace(whole_heads=whole) for whole in (False, True)[: 1 + (shape[6] >= 0)]]
    for config in configs:
        by = whole_heads_gradients if config.whole_heads else key_stationary_gradients
        assert_right(by(problem, saved, config=config)[:3], problem, gradient, seen, worst_of(problem))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("d, n", [(128, 100), (128, 256), (96, 384), (64, 512), (40, 300)])
def test_programs_that_take_whole_heads_repeat_to_the_bit(d, n, is_causal):
    inputs = [torch.randn(132, 2, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    seen = Visibility(group=1, above=0) if is_causal else Visibility(group=1)
    assert config_of(KernelProblem.of_heads(*inputs[:3], seen, d**-0.5)).whole_heads
    first = step(inputs, is_causal=is_causal)
    assert all(same(first, step(inputs, is_causal=is_causal)) for _ in range(5))


@pytest.mark.parametrize("case", ["huge logits", "one hot", "all equal", "an outlier"])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", [64, 96, 128, 192, 256])
def test_adversarial_inputs(d, deterministic, case):
    drawn = problem_of((1, 2, 2, 300, 300, -UNBOUNDED, 0), (d, d), torch.bfloat16)
    query = (drawn.query * {"huge logits": 30.0, "one hot": 30.0, "all equal": 0.0}.get(case, 1.0)).flatten(1, 2)
    key = torch.eye(300, d, device="cuda").bfloat16().repeat(1, 2, 1, 1) if case == "one hot" else drawn.key
    if case == "an outlier":  # the last row alone sees it
        drawn.value[:, :, -1] *= 100
    problem = KernelProblem.of_heads(
        query, key, drawn.value, drawn.visible, drawn.scale, deterministic=deterministic
    )  # fmt: skip
    gradient, seen = torch.randn_like(problem.query), seen_in(problem)
    saved, _ = untiled(problem, gradient, seen, torch.bfloat16)
    assert_right(backward.gradients(problem, saved)[:3], problem, gradient, seen, worst_of(problem))


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("d", [64, 128, 192, 256])
def test_scores_that_fp32_does_not_tell_apart_leave_no_gradient(d, dtype, deterministic):
    """Each row sees one key, of which its dS is exactly 0; but what should be a weight of 1 may come out as 64."""
    own = torch.eye(d, device="cuda", dtype=dtype).expand(1, 2, d, d)
    lengths = 2.0**14 + 128 * torch.arange(d, device="cuda", dtype=dtype)[:, None]
    value, gradient = (torch.randint(-2, 3, own.shape, device="cuda").to(dtype) for _ in range(2))
    problem = KernelProblem.of_heads(
        own * lengths, own * 2.0**14, value, Visibility(group=1), d**-0.5, deterministic=deterministic
    )
    gradient, seen = gradient.unflatten(1, (2, 1)), seen_in(problem)
    saved, _ = untiled(problem, gradient, seen, dtype)
    of_query, of_key, of_value = backward.gradients(problem, saved)[:3]
    assert not of_query.any() and not of_key.any() and of_value.isfinite().all()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", [64, 96, 128, 192, 256])
def test_packed_sequences_do_not_see_each_other(d, deterministic, monkeypatch):
    lengths = torch.tensor([0, 1, 130, 400, 640, 900])
    q, k, v, g = (torch.randn(1, heads, 900, d, device="cuda").bfloat16() for heads in (4, 2, 2, 4))
    problem = KernelProblem.of_heads(q, k, v, Visibility(group=2), d**-0.5)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    segment = torch.bucketize(torch.arange(900), lengths, right=True).cuda()
    taken, original = [], backward.gradients
    monkeypatch.setattr(backward, "gradients", lambda *given: taken.append(given[0]) or original(*given))
    for is_causal in (False, True):
        output = attention(
            *leaves, is_causal=is_causal, enable_gqa=True, cu_seqlens=lengths.cuda(), deterministic=deterministic
        )
        of_query, *rest = torch.autograd.grad(output, leaves, g)
        seen = segment[:, None] == segment
        seen = seen.tril() if is_causal else seen
        found = of_query.unflatten(1, (2, 2)), *rest
        assert_right(found, problem, g.unflatten(1, (2, 2)), seen, worst_of(problem))
    assert any(each.visible.first is not None and each.queries == 900 for each in taken)


@pytest.mark.parametrize("workspace_bytes", [1, 2**20, 2**24])
@pytest.mark.parametrize("widths", [(256, 256), (192, 192), (192, 128)], ids=str)
@pytest.mark.parametrize("case", LONGER, ids=str)
def test_slopes_in_any_number_of_chunks(case, widths, workspace_bytes):
    """Chunks of heads, of key tiles whose queries are carried on, and of rows whose keys are, too."""
    problem = problem_of(case, widths, torch.bfloat16)
    gradient, seen = torch.randn((*problem.query.shape[:-1], widths[1]), device="cuda").bfloat16(), seen_in(problem)
    saved, _ = untiled(problem, gradient, seen, torch.bfloat16)
    found = spilled_gradients(problem, saved, workspace_bytes=workspace_bytes)[:3]
    assert_right(found, problem, gradient, seen, worst_of(problem))
    assert same(found, spilled_gradients(problem, saved, workspace_bytes=workspace_bytes)[:3])


@pytest.mark.parametrize("d", [64, 80, 128])
@pytest.mark.parametrize("case", [(1, 12, 2, 700, 700, -UNBOUNDED, 0), (2, 15, 3, 501, 333, -200, 200)], ids=str)
def test_groups_in_parts(case, d):
    """Blocks share the query heads of a KV head where key tiles are few."""
    problem = problem_of(case, (d, d), torch.bfloat16)
    gradient, seen = torch.randn_like(problem.query), seen_in(problem)
    saved, _ = untiled(problem, gradient, seen, torch.bfloat16)
    assert parts_for(problem, config_of(problem)) > 1
    assert_right(key_stationary_gradients(problem, saved)[:3], problem, gradient, seen, WORST_OF_PARTS)


@pytest.mark.parametrize("launches", [1, 2, 3])
@pytest.mark.parametrize("d", [64, 96, 128])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("case", LONGER, ids=str)
def test_sums_in_any_number_of_launches(case, d, launches, deterministic):
    """Launches of some heads each add to the same accumulators one after the other, in one stream or in two."""
    problem = problem_of(case, (d, d), torch.bfloat16, deterministic=deterministic)
    gradient, seen = torch.randn_like(problem.query), seen_in(problem)
    saved, _ = untiled(problem, gradient, seen, torch.bfloat16)
    heads = problem.batch * problem.kv_heads
    for in_turns, streams in product((False, True), (1, 2)):
        groups = LaunchGroups.even(heads, min(heads, launches), in_turns=in_turns, streams=streams)
        assert_right(key_stationary_gradients(problem, saved, groups)[:3], problem, gradient, seen)


@pytest.mark.parametrize("d", [64, 128, 192, 256])
@pytest.mark.parametrize("deterministic", [False, True])
def test_integers_give_exact_gradients(d, deterministic):
    """Weights are all 1/1024 because queries and keys never meet in a column, and no output: every sum is exact."""
    n, half = 1024, d // 2
    for _ in range(50):
        q, k, v, g = (torch.randint(-2, 3, (1, 4, n, d), device="cuda").to(torch.bfloat16) for _ in range(4))
        q[..., half:], k[..., :half], v[..., 16:] = 0, 0, 0
        problem = KernelProblem.of_heads(q, k, v, Visibility(group=1), 1.0, deterministic=deterministic)
        rows = torch.zeros(1, 4, 1, n, device="cuda")
        saved = (torch.zeros_like(problem.query), rows, torch.full_like(rows, n), g.unflatten(1, (4, 1)))
        found = backward.gradients(problem, saved)
        ds = g.double() @ v.double().mT / n
        right = (
            ds @ k.double(),
            ds.mT @ q.double(),
            (g.double().sum(2, keepdim=True) / n).expand(1, 4, n, d),
        )
        for mine, theirs in zip(found[:3], right, strict=True):
            assert torch.equal(mine.flatten(1, 2) if mine.dim() == 5 else mine, theirs.to(torch.bfloat16))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 192, 256])
def test_deterministic_gradients_repeat_to_the_bit(d, causal):
    inputs = [torch.randn(2, 8, 3000, d, device="cuda").bfloat16() for _ in range(4)]
    first = step(inputs, is_causal=causal, deterministic=True)
    assert all(same(first, step(inputs, is_causal=causal, deterministic=True)) for _ in range(5))


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", [64, 96, 128, 256])
def test_two_streams_and_two_graphs_at_once(d, deterministic):
    """Two problems beside each other give what each gives alone: to the bit, or as near as the order of sums allows."""
    sets = [[torch.randn(1, 8, 1500, d, device="cuda").bfloat16() for _ in range(4)] for _ in range(2)]
    options = {"is_causal": True, "deterministic": deterministic}
    alone = [step(each, **options) for each in sets]
    streams, graphs, found = [torch.cuda.Stream() for _ in sets], [torch.cuda.CUDAGraph() for _ in sets], []
    torch.cuda.synchronize()
    for _ in range(10):
        for stream, each in zip(streams, sets, strict=True):
            with torch.cuda.stream(stream):
                found.append(step(each, **options))
    torch.cuda.synchronize()
    captured = []
    for graph, each in zip(graphs, sets, strict=True):
        with torch.cuda.graph(graph):
            captured.append(step(each, **options))
    for _ in range(10):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        found += [[part.clone() for part in each] for each in captured]
        for each in captured:
            for part in each:
                part.fill_(torch.nan)
        torch.cuda.synchronize()
    for number, each in enumerate(found):
        assert same(alone[number % 2][1:], each[1:])
        of_query, right = each[0].double(), alone[number % 2][0].double()
        assert torch.equal(of_query, right) or not deterministic
        assert (of_query - right).norm() <= 4e-3 * right.norm()


@pytest.mark.parametrize("d", [128, 256])
def test_a_graph_outlives_what_is_kept_of_other_calls(d):
    inputs = [torch.randn(1, 8, 1300, d, device="cuda").bfloat16() for _ in range(4)]
    wanted, graph = step(inputs, is_causal=True, deterministic=True), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(inputs, is_causal=True, deterministic=True)
    masks._known_bands.clear()
    launch_plans.settled.clear()
    launch_plans.plan_of.cache_clear()
    junk = [torch.full((size,), 2**30, dtype=torch.int32, device="cuda") for size in (64, 256, 1024, 4096) * 200]
    for part in captured:
        part.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    del junk
    assert same(wanted, captured)


@pytest.mark.parametrize("deterministic", [False, True])
def test_any_strides(deterministic):
    packed = torch.randn(2, 1000, 4, 8, 128, device="cuda").bfloat16()
    views = [packed[:, :, which].transpose(1, 2) for which in range(4)]
    odd = torch.randn(2, 8, 1000, 129, device="cuda").bfloat16()[..., 1:]
    one = torch.randn(2, 1, 1000, 128, device="cuda").bfloat16().expand(2, 8, 1000, 128)
    for inputs in (views, [odd, *views[1:]], [views[0], odd, odd, odd], [views[0], one, one, one]):
        found = step(inputs, is_causal=True, deterministic=deterministic)
        problem = KernelProblem.of_heads(*inputs[:3], Visibility(group=1, above=0), 128**-0.5)
        gradient = inputs[3].unflatten(1, (8, 1))
        assert_right((found[0].unflatten(1, (8, 1)), *found[1:]), problem, gradient, seen_in(problem))


@pytest.mark.usefixtures("much_memory")
@pytest.mark.parametrize("deterministic", [False, True])
def test_tensors_of_more_than_two_to_the_31_elements(deterministic):
    """66 heads of 2^18 tokens under a window: of the last head the last gradients, which see the last rows only."""
    n, heads, window, kept = 2**18, 66, 100, 400
    inputs = [torch.randn(1, heads, n, 128, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    assert inputs[0].numel() > 2**31
    found = step(inputs, window=window, deterministic=deterministic)
    last = [each[:, -1:, -kept:].contiguous() for each in inputs]
    problem = KernelProblem.of_heads(*last[:3], Visibility(group=1, below=1 - window, above=0), 128**-0.5)
    gradient, seen = last[3][:, :, None], seen_in(problem)
    _, exact = untiled(problem, gradient, seen)
    _, rounded = untiled(problem, gradient, seen, torch.bfloat16)
    for mine, theirs, right in zip(found, rounded, exact, strict=True):
        # The first rows of what was kept saw keys that were not.
        tail, right, theirs = (x.reshape(kept, 128)[window:].double() for x in (mine[:, -1, -kept:], right, theirs))
        assert (tail - right).norm() <= 2 * (theirs - right).norm()
