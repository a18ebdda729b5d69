"""Keys in pages on a GPU against the same on a CPU in float64: tables there and in host memory, 8 bits, garbage."""

import pytest
import torch

from attenio import attention, explain
from attenio.kernels import PageTable
from attenio.kernels.call.choice import launches
from attenio.kernels.call.pages.bits import quantised
from kernels.pages.paging import Requests, exact

FORMS = {
    "decode": ([700, 33, 0, 4096], [1, 1, 1, 1], {}),
    "speculative": ([700, 70], [8, 3], {"causal": True}),
    "a chunk beside decode": ([900, 2000, 170], [600, 1, 170], {"causal": True}),
    "window": ([900, 2000], [1, 5], {"window": 300}),
    "cap": ([900, 200], [1, 1], {"softcap": 2.0}),
}


def on_gpu(requests, *, planned, causal=False, scales=None, **options):
    """Outputs by a table in host memory (planned), or by one on the GPU."""
    names = ("q", "k", "v")
    given = {name: getattr(requests, name).cuda() for name in names}
    if planned:
        where = {"pages": PageTable.of(requests.table, requests.lengths), "cu_seqlens": requests.starts}
    else:
        where = {
            "pages": requests.table.cuda(),
            "lengths": requests.lengths.cuda(),
            "cu_seqlens": requests.starts.cuda(),
        }
    if scales is not None:
        where["page_scales"] = tuple(each.cuda() for each in scales)
    return attention(*given.values(), is_causal=causal, **where, **options).double().cpu()


def assert_close(mine, theirs, unit):
    assert mine.isfinite().all()
    assert float((mine - theirs).abs().max()) <= 2 * unit * max(1.0, float(theirs.abs().max()))


@pytest.mark.parametrize("size", [16, 64, 256])
@pytest.mark.parametrize("planned", [True, False], ids=["host table", "gpu table"])
@pytest.mark.parametrize("case", FORMS)
def test_requests_in_pages_are_the_definition(case, planned, size):
    lengths, new, options = FORMS[case]
    requests = Requests(lengths, new, page_size=size, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
    right, _ = exact(requests, **options)
    assert_close(on_gpu(requests, planned=planned, **options), right, torch.finfo(torch.bfloat16).eps)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.int8], ids=str)
@pytest.mark.parametrize("size", [16, 64])
def test_pages_of_8_bits_are_the_numbers_that_they_stand_for(kind, size):
    requests = Requests([3000, 900], [1, 1], page_size=size, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
    (requests.k, of_keys), (requests.v, of_values) = (quantised(x, kind) for x in (requests.k, requests.v))
    right, _ = exact(requests, scales=(of_keys, of_values))
    found = on_gpu(requests, planned=False, scales=(of_keys, of_values))
    assert_close(found, right, torch.finfo(torch.bfloat16).eps)


@pytest.mark.parametrize("size", [16, 64])
def test_pages_that_requests_share_are_read_once_and_merged(size):
    requests = Requests(
        [4100, 4200, 4096, 5000], [1, 3, 1, 1], page_size=size, heads=(8, 2), width=(128, 128), prefix=4096,
        dtype=torch.bfloat16,
    )  # fmt: skip
    right, _ = exact(requests, causal=True)
    assert_close(on_gpu(requests, planned=True, causal=True), right, torch.finfo(torch.bfloat16).eps)


def test_garbage_on_the_gpu_gives_nan_for_its_request_and_reads_nothing_outside():
    requests = Requests([400, 400, 400], [1, 1, 1], heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
    right, _ = exact(requests)
    requests.table[0, 3], requests.lengths[1] = 2**30, 2**30
    found = on_gpu(requests, planned=False)
    assert found[:, :2].isnan().all()
    assert_close(found[:, 2], right[:, 2], torch.finfo(torch.bfloat16).eps)


@pytest.mark.parametrize("size", [16, 64])
def test_a_captured_call_takes_tables_and_lengths_as_they_are_then(size):
    requests = Requests([400, 90], [1, 1], page_size=size, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
    q = requests.q.transpose(0, 1)[:, :, None].cuda()
    k, v, table, lengths = (x.cuda() for x in (requests.k, requests.v, requests.table, requests.lengths))
    attention(q, k, v, pages=table, lengths=lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = attention(q, k, v, pages=table, lengths=lengths)
    requests.lengths[0] = 123
    lengths.copy_(requests.lengths)
    graph.replay()
    right, _ = exact(requests)
    assert_close(output[:, :, 0].transpose(0, 1).double().cpu(), right, torch.finfo(torch.bfloat16).eps)


# One new token of each request on pages of 64 and more, for which Hopper has a kernel of its own.
ONE_TOKEN = {
    "ragged": ([700, 33, 0, 4096, 65], 64, (8, 2), (128, 128)),
    "one long request": ([30_001], 64, (8, 2), (128, 128)),
    "pages of 256": ([3000, 1, 512, 0], 256, (6, 2), (64, 64)),
    "pages of 192, widths that no power of two is": ([3000, 191], 192, (3, 1), (80, 48)),
    "wide heads": ([1500, 0, 70], 128, (16, 1), (256, 256)),
    "narrow heads, one a group": ([1500, 64, 70], 64, (2, 2), (32, 32)),
}


def given_of(requests, *, planned):
    """Arguments of one new token of each request, with a table in host memory (planned) or on the GPU."""
    q, k, v = requests.q.transpose(0, 1)[:, :, None].cuda(), requests.k.cuda(), requests.v.cuda()
    if planned:
        return (q, k, v), {"pages": PageTable.of(requests.table, requests.lengths)}
    return (q, k, v), {"pages": requests.table.cuda(), "lengths": requests.lengths.cuda()}


def decoded(requests, *, planned=False, **options):
    tensors, where = given_of(requests, planned=planned)
    return attention(*tensors, **where, **options)[:, :, 0].transpose(0, 1).double().cpu()


@pytest.mark.parametrize("sunk", [False, True], ids=["", "sinks"])
@pytest.mark.parametrize("planned", [True, False], ids=["host table", "gpu table"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("case", ONE_TOKEN)
def test_one_new_token_of_each_request_is_the_definition(case, dtype, planned, sunk):
    lengths, size, heads, width = ONE_TOKEN[case]
    requests = Requests(lengths, [1] * len(lengths), page_size=size, heads=heads, width=width, dtype=dtype)
    sinks = torch.randn(heads[0]) if sunk else None
    right, _ = exact(requests, sinks=sinks)
    options = {"sinks": sinks.cuda()} if sunk else {}
    for _ in range(2):  # counters are zero again
        assert_close(decoded(requests, planned=planned, **options), right, torch.finfo(dtype).eps)


@pytest.mark.parametrize("planned", [True, False], ids=["host table", "gpu table"])
@pytest.mark.parametrize("size", [16, 64, 96, 256])
def test_what_is_launched_on_pages_is_what_is_explained(size, planned):
    requests = Requests(
        [700, 33, 0, 4096], [1] * 4, page_size=size, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16
    )
    tensors, where = given_of(requests, planned=planned)
    told = explain(*tensors, **where).runs
    with launches() as heard:
        attention(*tensors, **where)
    (name,) = (each.name for each in heard)
    assert f" {name}, one launch" in told and ("in Gluon" in told) == (size % 64 == 0)


def test_after_kernels_on_pages_are_measured_results_are_the_same():
    requests = Requests([3000, 0, 70], [1] * 3, page_size=64, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
    right, _ = exact(requests)
    beside = torch.full((3, 2048), -7, dtype=torch.int32)  # places past the last key, for more than 128 MB of keys
    requests.table = torch.cat((requests.table, beside), 1)
    for _ in range(2):
        assert_close(decoded(requests), right, torch.finfo(torch.bfloat16).eps)


@pytest.mark.parametrize("lengths", [[4000, 4000, 4000], [400, 400, 400]], ids=str)
def test_garbage_in_large_pages_gives_nan_for_its_request_and_reads_nothing_outside(lengths):
    requests = Requests(lengths, [1] * 3, page_size=64, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
    right, _ = exact(requests)
    requests.table[0, 3], requests.lengths[1] = 2**30, 2**30
    found = decoded(requests)
    assert found[:, :2].isnan().all()
    assert_close(found[:, 2], right[:, 2], torch.finfo(torch.bfloat16).eps)
    requests.table[0, 3], requests.lengths[1] = -1, -1
    assert decoded(requests)[:, :2].isnan().all()


def test_what_lies_past_the_last_key_of_a_page_is_not_seen():
    requests = Requests([100, 4001], [1, 1], page_size=64, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
    right, _ = exact(requests)
    for request, length in enumerate((100, 4001)):
        last = int(requests.table[request, (length - 1) // 64])
        for pool in (requests.k, requests.v):
            pool[last, length % 64 :] = torch.nan
    assert_close(decoded(requests), right, torch.finfo(torch.bfloat16).eps)


def test_calls_on_pages_in_two_streams_do_not_count_each_other_s_runs():
    sets = [
        given_of(
            Requests(lengths, [1] * 2, page_size=64, heads=(8, 2), width=(128, 128), dtype=torch.bfloat16),
            planned=False,
        )
        for lengths in ([9000, 500], [0, 20_000])
    ]
    right = [attention(*tensors, **where) for tensors, where in sets]
    torch.cuda.synchronize()
    streams, found = [torch.cuda.Stream() for _ in sets], []
    for _ in range(20):
        for stream, (tensors, where) in zip(streams, sets, strict=True):
            with torch.cuda.stream(stream):
                found.append(attention(*tensors, **where))
    torch.cuda.synchronize()
    assert all(torch.equal(each, right[number % 2]) for number, each in enumerate(found))
