"""Page tables that cannot be, and arguments that pages do not go with, are refused in one line."""

import pytest
import torch
from torch.autograd import forward_ad

from attenio import attention
from attenio.errors import AttenioError
from attenio.kernels import PagedCache
from kernels.pages.paging import Requests


def spoiled(change):
    requests = Requests([40, 20], [1, 1])
    given = {
        "query": requests.q.unflatten(1, (2, 1)).transpose(0, 1), "key": requests.k, "value": requests.v,
        "pages": requests.table.clone(), "lengths": requests.lengths.clone(),
    }  # fmt: skip
    change(given)
    return given


def put(name, at, value):
    def change(given):
        given[name][at] = value

    return change


def give(**values):
    return lambda given: given.update(values)


def same_page(given):
    given["pages"][1, 1] = given["pages"][0, 2]


WRONG = {
    "a page outside": (put("pages", (0, 1), 99), "place 1 of request 0 is page 99 of 8; give pages from 0 to 7"),
    "a page below": (put("pages", (1, 0), -1), "place 0 of request 1 is page -1 of 8"),
    "a length beyond its pages": (put("lengths", 1, 49), "request 1 has 49 keys, and its 3 pages hold 48"),
    "a length below zero": (put("lengths", 0, -1), "request 0 has -1 keys"),
    "a page at two places": (same_page, "is place 1 of request 1 and place 2 of request 0"),
    "no lengths": (give(lengths=None), "pages is given without lengths"),
    "no pages": (give(pages=None), "without pages"),
    "another number of requests": (give(lengths=torch.tensor([1, 2, 3])), r"pages has shape \(2, 3\)"),
    "a number for a table": (
        lambda given: given.update(pages=3, query=torch.rand(2, 3, 1, 8)),
        r"pages is 3; give the table of pages, \(requests, places\)",
    ),
    "numbers that are no integers": (give(pages=torch.rand(2, 3)), "pages is float32; give integers"),
    "pages of 300 keys": (give(key=torch.rand(8, 300, 2, 8), value=torch.rand(8, 300, 2, 8)), "pages of 300 keys"),
    "an empty pool": (give(key=torch.rand(0, 16, 2, 8), value=torch.rand(0, 16, 2, 8)), "there are no pages"),
    "heads that are no multiple": (give(query=torch.rand(2, 3, 1, 8)), "3 query heads cannot share 2 KV heads"),
    "a mask": (give(attn_mask=torch.ones(1, 3)), "attn_mask is given with pages="),
    "a prefix": (give(prefix=4), "prefix is given with pages="),
    "dropout": (give(dropout_p=0.5), "dropout_p is given with pages="),
    "a scale that is no number": (give(scale=float("nan")), "scale is nan; give a finite number"),
    "top-left": (give(is_causal="top-left"), "is_causal is 'top-left'"),
    "a window of nothing": (give(window=0), "window is 0"),
    "scales for nothing": (give(page_scales=(torch.ones(8, 2),) * 2), "take no page_scales"),
    "no scales": (
        give(key=torch.zeros(8, 16, 2, 8, dtype=torch.int8), value=torch.zeros(8, 16, 2, 8, dtype=torch.int8)),
        "need page_scales",
    ),
    "lengths that fall": (give(cu_seqlens=torch.tensor([0, 2, 1]), query=torch.rand(4, 1, 8).double()), "cu_seqlens"),
    "packed in a batch": (give(cu_seqlens=torch.tensor([0, 1, 2])), "with cu_seqlens= give"),
    "starts that are no integers": (give(cu_seqlens=torch.rand(3), query=torch.rand(4, 2, 8).double()), "cu_seqlens"),
    "rows of several lengths": (give(pages=[[0, 1, 2], [3, 4]]), "pages is no array"),
    "a table without memory": (give(pages=torch.zeros(2, 3, dtype=torch.int64, device="meta")), "a tensor on meta"),
    "no pages, and heads that are no multiple": (
        give(pages=None, query=torch.rand(2, 3, 1, 8).double()), "given without pages",
    ),
    "no query heads": (give(query=torch.rand(2, 0, 1, 8).double()), "0 query heads cannot share 2 KV heads"),
    "a word for a switch": (give(enable_gqa="no"), "enable_gqa is a str"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_in_one_line(case):
    change, said = WRONG[case]
    with pytest.raises(AttenioError, match=said) as raised:
        attention(**spoiled(change))
    assert "\n" not in str(raised.value)


def test_gradients_are_refused_and_not_dropped():
    given = spoiled(lambda given: given["query"].requires_grad_())
    with pytest.raises(AttenioError, match="no gradients"):
        attention(**given)
    with torch.no_grad():
        assert attention(**given).shape == (2, 4, 1, 8)


def test_nor_are_those_of_sinks_of_factors_and_of_what_is_appended():
    with pytest.raises(AttenioError, match="no gradients"):
        attention(**spoiled(give(sinks=torch.zeros(4, requires_grad=True))))
    pages = torch.zeros(8, 16, 2, 8, dtype=torch.int8)
    scales = (torch.ones(8, 2, requires_grad=True), torch.ones(8, 2))
    with pytest.raises(AttenioError, match="no gradients"):
        attention(**spoiled(give(key=pages, value=pages, page_scales=scales)))
    cache, key = PagedCache(pages=2, page_size=16, kv_heads=1, width=4), torch.zeros(1, 1, 3, 4, requires_grad=True)
    with pytest.raises(AttenioError, match="requires a gradient"):
        cache.append([cache.open()], key, key.detach())
    with forward_ad.dual_level(), pytest.raises(AttenioError, match="no derivative in forward mode"):
        dual = forward_ad.make_dual(torch.zeros(4).double(), torch.ones(4).double())
        attention(**spoiled(give(sinks=dual)))


def test_places_past_the_last_key_mean_nothing():
    given = spoiled(put("pages", (1, 2), 10**6))
    assert attention(**given).isfinite().all()
