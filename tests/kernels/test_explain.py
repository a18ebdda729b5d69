"""explain() tells what attention() runs."""

import json
from dataclasses import replace

import pytest
import torch

from attenio import explain
from attenio.catalogue import machine_named
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse

CASES = {
    "prefill": ((1, 4, 4, 3000, 3000), {"is_causal": True}, "attenio"),
    "groups": ((1, 8, 2, 3000, 3000), {"window": 512}, "stacked-groups"),
    "decode": ((1, 16, 1, 1, 50000), {}, "split-keys"),
    "prefix": ((16, 2, 2, 1, 5000), {"prefix": 4900}, "stacked-groups"),
    "documents": ((1, 1, 1, 1000, 1000), {"cu_seqlens": torch.tensor([0, 300, 1000]), "is_causal": True}, "attenio"),
    "blocks": ((1, 1, 1, 1000, 1000), {"block_mask": BlockSparse.from_array(torch.eye(16).numpy())}, "attenio"),
    "mask": ((1, 1, 1, 1000, 1000), {"attn_mask": torch.zeros(1000, 1000)}, "attenio"),
    "top-left": ((1, 1, 1, 100, 1000), {"is_causal": True}, "attenio"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_fits_its_cache_moves_no_less_than_the_bound_and_reads_as_text_and_json(case):
    (batch, heads, kv, queries, keys), options, dataflow = CASES[case]
    q, k = torch.randn(batch, heads, queries, 64), torch.randn(1, kv, keys, 64).expand(batch, -1, -1, -1)
    found = explain(q, k, k, enable_gqa=True, **options)
    assert found.plan.dataflow.value == dataflow
    assert found.plan.peak_words <= found.plan.fast_words
    assert found.plan.moved_words >= found.bound.words
    assert json.loads(json.dumps(found.to_json()))["dataflow"] == dataflow
    assert str(found.plan.tiles) in str(found) and found.bound.theorem in str(found)


def test_words_of_another_type_than_the_tensors_are_told():
    said = "tensors are bfloat16; words and tiles are of fp32, as all are planned on this device"
    q = torch.randn(1, 2, 16, 8)
    assert said in str(explain(q.bfloat16(), q.bfloat16(), q.bfloat16())) and "tensors are" not in str(explain(q, q, q))


@pytest.mark.parametrize("case", CASES)
def test_a_gpu_that_is_not_here_can_be_asked_about_without_memory_for_tensors(case):
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    (batch, heads, kv, queries, keys), options, _ = CASES[case]
    if "attn_mask" in options:
        options = {"attn_mask": options["attn_mask"].to("meta")}
    half = {"device": "meta", "dtype": torch.bfloat16}
    q, k = torch.empty(batch, heads, queries, 64, **half), torch.empty(batch, kv, keys, 64, **half)
    found = explain(q, k, k, enable_gqa=True, machine="h200", **options)
    assert found.plan.peak_words <= found.plan.fast_words
    assert found.plan.moved_words >= found.bound.words
    assert "132 SMs of h200" in str(found) and "words of bf16" in str(found)
    assert json.loads(json.dumps(found.to_json()))["machine"] == "h200"


def test_decode_splits_keys_over_the_sms_of_a_gpu_and_prefill_does_not():
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    half = {"device": "meta", "dtype": torch.bfloat16}
    k = torch.empty(1, 8, 8192, 128, **half)
    step = explain(torch.empty(1, 32, 1, 128, **half), k, k, enable_gqa=True, machine="h200").plan
    assert step.dataflow.value == "split-keys" and step.tiles["keys_per_split"] < 8192
    prefill = explain(torch.empty(1, 8, 8192, 128, **half), k, k, machine="h200").plan
    assert prefill.dataflow.value == "attenio" and dict(prefill.tiles) == {"query_tile": 192, "key_tile": 128}


def test_what_is_explained_is_the_kernel_that_runs_on_hopper():
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    from attenio.kernels.hopper.decode import decode_tiles, splits_for
    from attenio.kernels.hopper.tiles import WIDE_TILES

    half = {"device": "meta", "dtype": torch.bfloat16}
    q, k = torch.empty(1, 32, 1, 128, **half), torch.empty(1, 8, 8192, 128, **half)
    step = explain(q, k, k, enable_gqa=True, machine="h200")
    few = decode_tiles(4, 128, 128)
    assert step.choice.kernel == few and "in Gluon" in str(step)
    assert step.plan.tiles["keys_per_split"] == splits_for(few, 8, 8192, 132)[0]
    long = torch.empty(1, 1, 2**18, 128, **half)
    assert explain(long, long, long, machine="h200").choice.kernel == WIDE_TILES
    masked = explain(k, k, k, attn_mask=torch.empty(8192, 8192, **half), machine="h200")
    assert masked.choice.language == "Triton" and masked.choice.why in str(masked)
    single = explain(k.float(), k.float(), k.float(), machine="h200")
    assert single.choice.name == "query_parts_kernel" and single.choice.why in str(single)
    few_rows = k[:, :, :300].float()
    assert explain(few_rows, few_rows, few_rows, machine="h200").choice.language == "Triton"


def test_hopper_kernels_are_chosen_by_compute_capability_and_not_by_a_name():
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    k = torch.empty(1, 8, 8192, 128, device="meta", dtype=torch.bfloat16)
    renamed = replace(machine_named("h200"), name="a board of mine")
    older = replace(machine_named("h200"), compute_capability=(8, 0))
    assert explain(k, k, k, machine=renamed).choice.language == "Gluon"
    assert explain(k, k, k, machine=older).choice.language == "Triton"


@pytest.mark.parametrize("machine", ["altra-q80-30", "mi300x"])
def test_a_machine_that_is_no_nvidia_gpu_is_refused_in_one_line(machine):
    q = torch.empty(1, 1, 8, 8)
    with pytest.raises(InvalidInput, match=f"{machine} is no NVIDIA GPU"):
        explain(q, q, q, machine=machine)


def test_a_switch_that_is_none_is_refused_as_by_attention():
    heads = torch.zeros(1, 1, 8, 16)
    with pytest.raises(TypeError, match="deterministic"):
        explain(heads, heads, heads, deterministic="no")


@pytest.mark.parametrize("shape", [(0, 2, 8, 64), (1, 0, 8, 64), (1, 2, 0, 64)])
def test_nothing_is_no_plan(shape):
    heads = torch.zeros(shape)
    with pytest.raises(InvalidInput, match="nothing to plan"):
        explain(heads, heads, heads)


def test_a_machine_is_named():
    heads = torch.zeros(1, 2, 8, 64)
    with pytest.raises(InvalidInput, match="machine is 3; give a Machine, or a name"):
        explain(heads, heads, heads, machine=3)


def test_other_dataflows_on_a_gpu_have_tiles_of_whole_units():
    q = torch.zeros(1, 4, 8000, 64, dtype=torch.bfloat16)
    found = {
        each.dataflow.value: each
        for each in explain(q, q, q, machine="h100").candidates
        if each.rule.value != "published"
    }
    tiles = dict(found["attenio"].tiles)
    assert tiles["query_tile"] % 64 == 0 and (tiles["key_tile"] % 16 == 0 or tiles["key_tile"] == 8000)
    single = {each.dataflow.value: each for each in explain(*(x.float() for x in (q, q, q)), machine="h100").candidates}
    assert single["attenio"].tiles is not None
