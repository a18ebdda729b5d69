"""What is explained of pages is what is read: the tree, and its words."""

import json
import re
from pathlib import Path

import pytest
import torch

from attenio import attention, explain
from attenio.kernels.call.choice import launches
from attenio.kernels.call.pages.bits import quantised
from attenio.paging import PagedWorkload, plan_pages
from kernels.pages.paging import Requests


def test_words_that_are_explained_are_those_of_the_pages_that_are_read():
    requests = Requests([336, 352, 368, 48], [1, 1, 1, 1], prefix=320, heads=(2, 2))
    given = {"pages": requests.table, "lengths": requests.lengths, "cu_seqlens": requests.starts}
    told = explain(requests.q, requests.k, requests.v, **given)
    with launches() as heard:
        attention(requests.q, requests.k, requests.v, **given)
    read = sum(each.settings["part"].stop - each.settings["part"].first for each in heard)
    assert told.plan.tree.key_words == read * 2 * 16
    assert told.plan.tree.apart_words == sum([336, 352, 368, 48]) * 2 * 16
    assert told.moved_words < told.plan.tree.apart_words
    assert json.loads(json.dumps(told.to_json()))["moved_words"] == told.moved_words
    assert "pages 3..19 once for requests 0, 1, 2" in str(told)


def test_requests_that_share_nothing_are_told_to_be_read_apart():
    requests = Requests([40, 50], [1, 1])
    told = explain(
        requests.q, requests.k, requests.v, pages=requests.table, lengths=requests.lengths, cu_seqlens=requests.starts
    )
    assert told.plan.tree.is_flat and told.moved_words == told.plan.tree.apart_words
    assert "7 pages by one request each" in str(told)


@pytest.mark.parametrize(("kind", "case"), [(torch.int8, "int8"), (torch.float8_e4m3fn, "fp8")], ids=str)
def test_the_error_of_8_bits_that_is_told_is_that_of_the_study(kind, case):
    requests = Requests([40, 50], [1, 1], dtype=torch.float32)
    (k, of_keys), (v, of_values) = quantised(requests.k, kind), quantised(requests.v, kind)
    told = explain(
        requests.q, k, v, pages=requests.table, lengths=requests.lengths, cu_seqlens=requests.starts,
        page_scales=(of_keys, of_values),
    )  # fmt: skip
    study = Path(__file__).parents[3] / "studies" / "paged-caches" / "results.json"
    measured = next(row for row in json.loads(study.read_text())["cases"] if row["case"].endswith(case))
    share = float(re.search(r"by ([\d.]+) %", str(told))[1])
    assert share == pytest.approx(100 * measured["contenders"]["attenio, 8 bits"]["relative_error"], abs=0.05)


@pytest.mark.parametrize("kind", [None, torch.int8], ids=str)
def test_the_tree_and_the_bound_that_are_told_are_those_of_the_planner(kind):
    requests = Requests([336, 352, 368, 48], [1, 1, 1, 1], prefix=320, heads=(4, 2), dtype=torch.bfloat16)
    k, v, scales = requests.k, requests.v, None
    if kind is not None:
        (k, of_keys), (v, of_values) = quantised(k, kind), quantised(v, kind)
        scales = (of_keys, of_values)
    told = explain(
        requests.q, k, v, pages=requests.table, lengths=requests.lengths, cu_seqlens=requests.starts,
        page_scales=scales, is_causal="bottom-right", sinks=torch.zeros(4),
    )  # fmt: skip
    table = [[page for page in row if page >= 0] for row in requests.table.tolist()]
    workload = PagedWorkload(
        lengths=(336, 352, 368, 48), page_size=k.shape[1], d=k.shape[3], value_dim=v.shape[3], heads=4, kv_heads=2,
        table=tuple(map(tuple, table)), dtype="bf16", kv_bits=16 if kind is None else 8, accumulator="fp32", sinks=True,
    )  # fmt: skip
    planned = plan_pages(workload, 2**20, shares=True)
    assert [(run.requests, run.first, run.stop) for run in told.plan.tree.runs] == [
        (run.requests, run.first, run.stop) for run in planned.tree.runs
    ]
    assert told.plan.tree.words == planned.tree.words
    assert told.bound.words == workload.compulsory_words <= told.total_words
    assert told.to_json()["bound"]["words"] == told.bound.words
    assert f"at least   {told.bound.words:,} words (compulsory)" in str(told)


@pytest.mark.parametrize("lengths", [[0, 20], [3, 20], [0, 0]], ids=str)
def test_calls_whose_requests_have_fewer_keys_than_tokens_are_explained_without_a_bound(lengths):
    requests = Requests(lengths, [5, 5], dtype=torch.float32)
    given = {"pages": requests.table, "lengths": requests.lengths, "cu_seqlens": requests.starts, "is_causal": True}
    told = explain(requests.q, requests.k, requests.v, **given)
    assert told.bound is None and "at least" not in str(told)
    assert attention(requests.q, requests.k, requests.v, **given).isfinite().all()


def test_values_that_are_part_of_keys_count_once_in_the_bound():
    requests = Requests([70, 33], [1, 1], heads=(4, 1), width=(16, 12), dtype=torch.float32)
    given = {"pages": requests.table, "lengths": requests.lengths, "cu_seqlens": requests.starts}
    latent = explain(requests.q, requests.k, requests.k[..., :12], **given)
    assert latent.bound.words == 103 * 16 + 2 * 4 * (16 + 12)
    assert explain(requests.q, requests.k, requests.v, **given).bound.words == latent.bound.words + 103 * 12
