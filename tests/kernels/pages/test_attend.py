"""Attention on pages against the definition: ragged requests, new tokens, chunks, prefixes that are shared."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from attenio import attention
from attenio.kernels.call.choice import launches
from attenio.kernels.call.pages.table import PageTable
from attenio.kernels.cpu import pages as cpu_pages
from kernels.pages.paging import Requests, exact

OPTIONS = {
    "all keys": {},
    "causal": {"causal": True},
    "window": {"window": 5},
    "two sides": {"window": (20, 2)},
    "cap": {"causal": True, "softcap": 1.5, "scale": -0.7},
}


def attended(requests, *, causal=False, **options):
    given = {"pages": requests.table, "lengths": requests.lengths, "cu_seqlens": requests.starts, **options}
    return attention(requests.q, requests.k, requests.v, is_causal=causal, return_lse=True, **given)


@given(st.data(), st.sampled_from(sorted(OPTIONS)))
def test_ragged_requests_with_new_tokens_and_chunks_are_the_definition(data, form):
    count = data.draw(st.integers(1, 4))
    lengths = data.draw(st.lists(st.integers(0, 90), min_size=count, max_size=count))
    new = [data.draw(st.integers(0, min(8, length))) for length in lengths]
    new[0] = max(1, lengths[0])
    size, prefix = data.draw(st.sampled_from((1, 4, 16, 48))), data.draw(st.sampled_from((0, 48)))
    requests = Requests(lengths, new, page_size=size, prefix=prefix, width=(8, 12))
    output, lse = attended(requests, **OPTIONS[form])
    right, sums = exact(requests, **OPTIONS[form])
    torch.testing.assert_close(output, right, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(lse, sums, rtol=1e-11, atol=1e-12)


def test_requests_with_as_many_new_tokens_each_come_as_a_batch():
    requests = Requests([40, 3, 77], [3, 3, 3])
    batch = requests.q.unflatten(1, (3, 3)).transpose(0, 1)
    output = attention(batch, requests.k, requests.v, pages=requests.table, lengths=requests.lengths, is_causal=True)
    right, _ = exact(requests, causal=True)
    torch.testing.assert_close(output, right.unflatten(1, (3, 3)).transpose(0, 1), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_types_of_less_precision_round_once(dtype):
    requests = Requests([700, 300], [1, 1], page_size=64, width=(32, 32), prefix=128, dtype=dtype)
    output, _ = attended(requests)
    right, _ = exact(requests)
    assert output.dtype == dtype
    assert (
        float((output.double() - right).norm() / right.norm())
        < (8 if dtype == torch.float32 else 1) * torch.finfo(dtype).eps
    )


def test_sinks_take_weight_and_give_nothing():
    requests, sinks = Requests([40, 20], [1, 4]), torch.randn(4, dtype=torch.float64)
    output, lse = attended(requests, causal=True, sinks=sinks)
    right, sums = exact(requests, causal=True, sinks=sinks)
    torch.testing.assert_close(output, right, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(lse, sums, rtol=1e-11, atol=1e-12)


def test_pages_that_requests_share_are_read_once_for_the_rows_of_all():
    requests = Requests([330, 340, 350, 360], [1, 1, 1, 1], prefix=320, heads=(2, 2))
    with launches() as heard:
        attended(requests)
    read = [each.settings["part"] for each in heard]
    assert sum(part.stop - part.first for part in read) == 320 + 10 + 20 + 30 + 40
    assert max(len(part.tokens) for part in read) == 4


def test_a_table_that_layers_share_is_planned_once(monkeypatch):
    requests = Requests([40, 50], [1, 1], prefix=32)
    table = PageTable.of(requests.table, requests.lengths)
    calls = [
        attention(requests.q, requests.k, requests.v, pages=table, cu_seqlens=requests.starts) for _ in range(2)
    ]  # fmt: skip
    assert len([key for key in table.plans if key[0] == "plan"]) == 1
    assert torch.equal(*calls)


def test_pages_may_lie_with_heads_before_keys():
    requests = Requests([40, 50], [1, 1])
    turned = [pool.transpose(1, 2).contiguous().transpose(1, 2) for pool in (requests.k, requests.v)]
    output = attention(requests.q, *turned, pages=requests.table, lengths=requests.lengths, cu_seqlens=requests.starts)
    torch.testing.assert_close(output, exact(requests)[0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("requests", "new", "places"), [(0, 1, 2), (2, 0, 1), (2, 1, 0), (2, 1, 1)], ids=str)
def test_calls_without_requests_tokens_places_or_keys_have_their_shape_and_zeros(requests, new, places):
    pools = torch.randn(2, 3, 16, 2, 8)
    output, lse = attention(
        torch.randn(requests, 4, new, 8), *pools, pages=torch.zeros(requests, places, dtype=torch.int32),
        lengths=torch.zeros(requests, dtype=torch.int32), return_lse=True,
    )  # fmt: skip
    assert output.shape == (requests, 4, new, 8) and lse.shape == (requests, 4, new)
    assert (output == 0).all() and (lse == -torch.inf).all()


def test_a_compiled_program_calls_it_once_and_is_cut_nowhere_else():
    requests = Requests([40, 50], [1, 1], dtype=torch.float32)
    given = {"pages": requests.table, "lengths": requests.lengths, "cu_seqlens": requests.starts}
    counted = CompileCounter()

    def program(query):
        return attention(query * 2.0, requests.k, requests.v, **given) + 1.0

    compiled = torch.compile(program, backend=counted)
    torch.testing.assert_close(compiled(requests.q), program(requests.q))
    assert counted.frame_count == 2  # before it, and behind


@pytest.mark.parametrize("heads", [(4, 2), (64, 2)], ids=["a few rows", "many"])
@pytest.mark.parametrize("size", [8, 16, 64])
def test_pages_are_read_where_they_are_by_a_few_rows_and_gathered_for_many(heads, size, monkeypatch):
    gathered = []
    monkeypatch.setattr(cpu_pages, "_tile", lambda *given, tile=cpu_pages._tile: gathered.append(given) or tile(*given))
    requests = Requests([700, 65, 3], [1, 1, 1], page_size=size, heads=heads)
    given = {"pages": requests.table, "lengths": requests.lengths, "cu_seqlens": requests.starts}
    output = attention(requests.q, requests.k, requests.v, **given)
    torch.testing.assert_close(output, exact(requests)[0], rtol=1e-11, atol=1e-12)
    assert bool(gathered) == (heads[0] == 64 or size == 8)


def test_a_latent_in_pages_is_computed_on_a_cpu_whatever_its_width():
    requests = Requests([70, 33], [1, 1], heads=(8, 1), width=(576, 512))
    requests.v = requests.k[..., :512]
    given = {"pages": requests.table, "lengths": requests.lengths, "cu_seqlens": requests.starts}
    output = attention(requests.q, requests.k, requests.v, **given)
    torch.testing.assert_close(output, exact(requests)[0], rtol=1e-11, atol=1e-12)
