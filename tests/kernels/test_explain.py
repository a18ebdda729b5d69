"""explain() tells what attention() runs."""

import json

import pytest

torch = pytest.importorskip("torch", reason="needs the 'torch' extra: pip install 'attenio[torch]'")

from attenio import explain  # noqa: E402
from attenio.masks import BlockSparse  # noqa: E402

CASES = {
    "prefill": ((1, 4, 4, 3000, 3000), {"is_causal": True}, "attenio"),
    "groups": ((1, 8, 2, 3000, 3000), {"window": 512}, "stacked-groups"),
    "decode": ((1, 8, 2, 1, 5000), {}, "split-keys"),
    "prefix": ((16, 2, 2, 1, 5000), {"prefix": 4900}, "stacked-groups"),
    "documents": ((1, 1, 1, 1000, 1000), {"segments": torch.tensor([0, 300, 1000]), "is_causal": True}, "attenio"),
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
