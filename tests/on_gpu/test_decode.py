"""Decode on a Hopper GPU, by its own kernel and by the portable one, against float64."""

import pytest
import torch

from attenio import attention
from attenio.kernels import triton
from attenio.kernels.gpu import counters
from attenio.kernels.hopper import decode, forward


def exact(q, k, v, *, mask=None, bias=None):
    k, v, shape = k.double()[:, :, None], v.double()[:, :, None], (*q.shape[:3], k.shape[2])
    scores = (q.double().unflatten(1, (k.shape[1], -1)) @ k.mT * q.shape[-1] ** -0.5).reshape(shape)
    if bias is not None:
        scores = scores + bias.double()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return (torch.softmax(scores, -1).nan_to_num(0.0).unflatten(1, (k.shape[1], -1)) @ v).flatten(1, 2)


def inputs(batch, heads, kv_heads, queries, keys, d, width=None, dtype=torch.bfloat16):
    shapes = (batch, heads, queries, d), (batch, kv_heads, keys, d), (batch, kv_heads, keys, width or d)
    return tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)


def assert_close(mine, theirs):
    unit = torch.finfo(mine.dtype).eps
    assert mine.isfinite().all()
    assert float((mine.double() - theirs).abs().max()) <= 2 * unit * max(1.0, float(theirs.abs().max()))


@pytest.fixture(autouse=True, params=["hopper", "triton"])
def kernels(request, monkeypatch):
    """Every call of these tests must be taken by the kernel that is asked for, and leave counters at zero."""
    calls = []
    place, name = (decode, "attend") if request.param == "hopper" else (triton, "run")
    original = getattr(place, name)
    monkeypatch.setattr(place, name, lambda problem, choice: calls.append(problem) or original(problem, choice))
    if request.param == "triton":
        for other in (decode, forward):
            monkeypatch.setattr(other, "why_not", lambda *_: "not here")
    yield
    assert calls
    torch.cuda.synchronize()
    for held in (*counters._of_streams.values(), *counters._reserves.values()):
        assert not held.any()


# Sequences, heads, KV heads, queries, keys, width, width of values. Kernels are compiled for nearly each of them, so
# that types alternate: what a type changes in a kernel does not depend on the shape.
SHAPES = [
    (1, 32, 8, 1, 8192, 128), (1, 32, 8, 1, 8191, 128), (2, 8, 8, 1, 1000, 64), (3, 6, 2, 1, 777, 96),
    (1, 16, 2, 1, 5000, 256), (2, 16, 1, 1, 300, 128), (1, 8, 2, 4, 2049, 128), (2, 8, 2, 7, 1500, 128),
    (1, 8, 2, 8, 3000, 128), (1, 8, 1, 4, 900, 256), (1, 4, 2, 9, 700, 256), (200, 4, 2, 1, 130, 64),
    (1, 1, 1, 1, 1, 128), (1, 4, 1, 1, 33, 40), (2, 8, 2, 1, 65, 192, 128), (150, 8, 2, 1, 1024, 128),
]  # fmt: skip


@pytest.mark.parametrize(
    "sizes, dtype",
    [(SHAPES[0], torch.float16), *zip(SHAPES, (torch.bfloat16, torch.float16) * 8, strict=True)],
    ids=str,
)
def test_the_output_is_that_of_float64(sizes, dtype):
    q, k, v = inputs(*sizes, dtype=dtype)
    assert_close(attention(q, k, v, enable_gqa=True), exact(q, k, v))


@pytest.mark.parametrize("queries", [1, 3, 8])
@pytest.mark.parametrize("options", [{"is_causal": True}, {"window": 100}, {"window": (700, 3)}])
def test_bands_hide_what_they_hide(queries, options):
    q, k, v = inputs(2, 8, 2, queries, 3000, 128)
    i, j = torch.arange(queries, device="cuda")[:, None], torch.arange(3000, device="cuda")
    last = i + 3000 - queries
    if "is_causal" in options:
        mask = j <= i
    elif options["window"] == 100:
        mask = (j <= last) & (j > last - 100)
    else:
        mask = (j >= last - 700) & (j <= last + 3)
    assert_close(attention(q, k, v, enable_gqa=True, **options), exact(q, k, v, mask=mask))


@pytest.mark.parametrize("shape", [(3, 1, 1, 1001), (1, 1, 1, 1001), (3, 8, 1, 1001), (3, 1, 4, 1001), (3, 8, 4, 1001)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_and_biases_of_every_shape(shape, kind):
    q, k, v = inputs(3, 8, 2, shape[2], 1001, 128)
    if kind == "bool":
        mask = torch.rand(shape, device="cuda") > 0.5
        mask[..., 0, :] &= (
            shape[0] == 1 or torch.arange(3, device="cuda")[:, None, None] != 1
        )  # a row that sees nothing
        assert_close(attention(q, k, v, attn_mask=mask, enable_gqa=True), exact(q, k, v, mask=mask))
    else:
        bias = torch.randn(shape, device="cuda").to(torch.bfloat16)
        assert_close(attention(q, k, v, attn_mask=bias, enable_gqa=True), exact(q, k, v, bias=bias))


def test_packed_sequences_of_few_queries():
    q, k, v = inputs(1, 8, 2, 5, 900, 128)
    lengths = torch.tensor([0, 1, 3, 5]), torch.tensor([0, 300, 350, 900])
    segment = [torch.bucketize(torch.arange(int(x[-1])), x, right=True).cuda() for x in lengths]
    mask = segment[0][:, None] == segment[1]
    mine = attention(q, k, v, enable_gqa=True, cu_seqlens=tuple(x.cuda() for x in lengths))
    assert_close(mine, exact(q, k, v, mask=mask))


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("own", [0, 70, 3000])
def test_a_shared_prefix_is_read_for_all(queries, own):
    q, k, v = inputs(5, 8, 2, queries, 2000 + own, 128)
    k[:, :, :2000], v[:, :, :2000] = k[:1, :, :2000], v[:1, :, :2000]
    assert_close(attention(q, k, v, enable_gqa=True, prefix=2000), exact(q, k, v))


def test_any_strides_of_whole_vectors():
    q = torch.randn(2, 1, 8, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    k, v = (torch.randn(2, 3000, 2, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(2))
    longer = torch.randn(2, 2, 4096, 256, device="cuda", dtype=torch.bfloat16)
    assert_close(attention(q, k, v, enable_gqa=True), exact(q, k, v))
    k, v = longer[:, :, :3000, :128], longer[:, :, 1000:4000, 128:]
    assert_close(attention(q, k, v, enable_gqa=True), exact(q, k, v))


def test_huge_logits_one_hot_and_equal_keys():
    q, k, v = inputs(1, 8, 2, 1, 5000, 128)
    assert_close(attention(q * 60, k, v, enable_gqa=True), exact(q * 60, k, v))
    assert_close(attention(q, k * 0, v, enable_gqa=True), exact(q, k * 0, v))


@pytest.mark.usefixtures("much_memory")
def test_a_million_keys():
    q, k, v = inputs(1, 8, 2, 1, 2**20 - 3, 128)
    assert_close(attention(q, k, v, enable_gqa=True), exact(q, k, v))


@pytest.mark.usefixtures("much_memory")
def test_more_than_2_to_the_31_elements():
    k = torch.randn(5, 1, 2**22, 128, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(5, 4, 1, 128, device="cuda", dtype=torch.bfloat16)
    mine = attention(q, k, k, enable_gqa=True)
    assert_close(mine[4:], exact(q[4:], k[4:], k[4:]))


def test_results_repeat_to_the_bit():
    q, k, v = inputs(1, 32, 8, 1, 8192, 128)
    first = attention(q, k, v, enable_gqa=True)
    assert all(torch.equal(first, attention(q, k, v, enable_gqa=True)) for _ in range(50))


def test_two_streams_at_once():
    sets = [inputs(1, 32, 8, 1, 8192, 128) for _ in range(2)]
    alone = [attention(*each, enable_gqa=True) for each in sets]
    streams = [torch.cuda.Stream() for _ in sets]
    torch.cuda.synchronize()
    found = [[], []]
    for _ in range(50):
        for stream, each, into in zip(streams, sets, found, strict=True):
            with torch.cuda.stream(stream):
                into.append(attention(*each, enable_gqa=True))
    torch.cuda.synchronize()
    for one, many in zip(alone, found, strict=True):
        assert all(torch.equal(one, each) for each in many)


def test_a_launch_waits_for_what_was_written_just_before():
    q, k, v = inputs(1, 32, 8, 1, 8192, 128)
    expected = attention(q, k, v, enable_gqa=True)
    for _ in range(30):
        late_q, late_k, late_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        late_v.copy_(v)
        late_k.copy_(k)
        late_q.copy_(q)
        assert torch.equal(attention(late_q, late_k, late_v, enable_gqa=True), expected)


def test_two_captured_graphs_replayed_at_once():
    sets = [inputs(1, 32, 8, 1, 8192, 128) for _ in range(2)]
    alone = [attention(*each, enable_gqa=True) for each in sets]
    torch.cuda.synchronize()
    graphs, outputs = [torch.cuda.CUDAGraph() for _ in sets], []
    for graph, each in zip(graphs, sets, strict=True):
        with torch.cuda.graph(graph):
            outputs.append([attention(*each, enable_gqa=True) for _ in range(5)])
    streams = [torch.cuda.Stream() for _ in sets]
    torch.cuda.synchronize()
    for _ in range(20):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for one, many in zip(alone, outputs, strict=True):
        assert all(torch.equal(one, each) for each in many)
