"""Keys in pages on a GPU against the same on a CPU in float64: tables there and in host memory, 8 bits, garbage."""

import pytest
import torch

from attenio import attention
from attenio.kernels import PageTable
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


def test_a_captured_call_takes_tables_and_lengths_as_they_are_then():
    requests = Requests([400, 90], [1, 1], heads=(8, 2), width=(128, 128), dtype=torch.bfloat16)
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
