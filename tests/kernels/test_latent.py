"""Latent attention: values that are the first columns of their keys, found by where tensors lie and read once."""

from dataclasses import replace

import pytest
import torch
from tests.kernels.definition import definition, gradients

import attenio
from attenio import Workload, attention, explain
from attenio.errors import InvalidInput
from attenio.kernels import cpu
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.call import call_of, problem_of
from attenio.kernels.call.latent import are_values_in_keys
from attenio.kernels.call.problem import KernelProblem


def latent_problem(batch, heads, queries, keys, d, width, dtype=torch.float32, kv_heads=1, **asked):
    q = torch.randn(batch, heads, queries, d).to(dtype)
    k = torch.randn(batch, kv_heads, keys, d).to(dtype)
    call = call_of(q, k, k[..., :width], CallArguments(**asked, enable_gqa=True))
    return problem_of(call, None, 0.0)


def test_values_are_in_keys_only_where_they_begin_in_memory_where_their_keys_do():
    cache = torch.randn(2, 40, 3, 24)
    key = cache.transpose(1, 2)
    for yes in (key, key[..., :16], key[..., :1], cache.permute(0, 2, 1, 3)[..., :7]):
        assert are_values_in_keys(key, yes)
    for no in (key[..., 8:], key[..., ::2], key.clone(), key[..., :16].contiguous(), key[:, :, ::2], key[:1], cache):
        assert not are_values_in_keys(key, no)
    assert not are_values_in_keys(key[..., :16], key)  # wider than its key
    one = cache[:1, :, :1].transpose(1, 2)  # of a dimension of one, steps mean nothing
    assert are_values_in_keys(one, one.as_strided((1, 1, 40, 24), (7, 7, 72, 1)))
    elsewhere = key.to("meta")
    assert are_values_in_keys(elsewhere, elsewhere[..., :16])
    assert not are_values_in_keys(elsewhere, elsewhere[..., 8:])
    assert not are_values_in_keys(elsewhere, torch.empty_like(elsewhere)[..., :16])


@pytest.mark.parametrize(
    "shape",
    [(1, 128, 1, 300, 576, 512), (2, 16, 3, 70, 576, 512), (3, 8, 40, 33, 48, 40), (2, 4, 1, 900, 24, 24)],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_latent_gives_what_separate_values_give_by_the_definition(shape, dtype):
    torch.manual_seed(0)
    problem = latent_problem(*shape, dtype=dtype, is_causal=shape[2] > 1)
    batch, heads, queries, keys, _, width = shape
    assert problem.values_in_keys
    assert cpu.choose(problem).values_in_keys or cpu.choose(problem).name.startswith("fused")
    q, k = problem.query.flatten(1, 2), problem.key
    mine = attention(q, k, k[..., :width], is_causal=queries > 1, enable_gqa=True)
    seen = torch.ones(queries, keys, dtype=torch.bool).tril() if queries > 1 else None
    exact = definition(q.double(), k.double(), k[..., :width].double(), seen)
    apart = attention(q, k, k[..., :width].clone(), is_causal=queries > 1, enable_gqa=True)
    assert mine.shape == (batch, heads, queries, width)
    error, theirs = ((each.double() - exact).abs().max() for each in (mine, apart))
    assert error <= 2 * theirs + torch.finfo(dtype).eps


def test_a_latent_gets_the_sum_of_its_gradients_as_key_and_as_value():
    torch.manual_seed(0)
    q, latent = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((1, 2, 2, 5), (1, 1, 3, 5)))
    sinks = torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)

    def absorbed(query, latent, sinks):
        return attention(query, latent, latent[..., :3], is_causal="bottom-right", enable_gqa=True, sinks=sinks)

    assert torch.autograd.gradcheck(absorbed, (q, latent, sinks), atol=1e-6)
    q, latent = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 6, 5, 20), (2, 1, 9, 20))
    )
    g = torch.randn(2, 6, 5, 14, dtype=torch.float64)
    _, of_query, of_key, of_value = gradients(definition, q, latent, latent[..., :14], g)
    output = attention(q, latent, latent[..., :14], enable_gqa=True)
    together = torch.autograd.grad(output, (q, latent), g)
    torch.testing.assert_close(together[0], of_query)
    torch.testing.assert_close(together[1], of_key + torch.nn.functional.pad(of_value, (0, 6)))


def test_keys_are_computed_up_to_576_columns_and_values_up_to_512_and_any_on_a_cpu(none_short):
    q, k = torch.randn(1, 2, 4, 576, dtype=torch.float64), torch.randn(1, 2, 6, 576, dtype=torch.float64)
    v = torch.randn(1, 2, 6, 512, dtype=torch.float64)
    g = torch.randn(1, 2, 4, 512, dtype=torch.float64)
    for mine, exact in zip(gradients(attention, q, k, v, g), gradients(definition, q, k, v, g), strict=True):
        torch.testing.assert_close(mine, exact)
    for options in ({}, {"window": 3}):  # by PyTorch, and by tiles
        seen = {"seen": torch.ones(4, 6).tril(2).triu(0).bool()} if options else {}
        torch.testing.assert_close(attention(q, k, k, **options), definition(q, k, k, **seen))
    elsewhere = [x.to("meta") for x in (q, k)]
    with pytest.raises(InvalidInput, match="value is 576 wide; queries and keys up to 576 wide are computed, and"):
        attention(*elsewhere, elsewhere[1])
    wide = torch.randn(1, 1, 2, 577, device="meta")
    with pytest.raises(InvalidInput, match="query is 577 wide; queries and keys up to 576 wide are computed, and"):
        attention(wide, wide, wide[..., :512])


def test_explain_says_that_the_latent_is_read_once_and_what_that_moves():
    q, latent = torch.randn(2, 128, 1, 576), torch.randn(2, 1, 4096, 576)
    told, apart = (explain(q, latent, v, enable_gqa=True) for v in (latent[..., :512], latent[..., :512].clone()))
    assert told.choice.values_in_keys and told.plan.workload.values_in_keys and told.to_json()["values_in_keys"]
    assert not apart.choice.values_in_keys and not apart.to_json()["values_in_keys"]
    assert told.plan.moved_words == apart.plan.moved_words - 2 * 4096 * 512
    assert told.bound.words == 2 * (4096 * 576 + 128 * (576 + 512)) <= told.plan.moved_words
    assert "the latent is read once for both, 4,718,592 words" in str(told)
    assert "latent" not in str(apart)
    far = explain(q.to("meta"), latent.to("meta"), latent.to("meta")[..., :512], enable_gqa=True, machine="h200")
    assert "latent" not in str(far)  # two tensors on meta
    latent = latent.to("meta", torch.bfloat16)
    far = explain(q.to("meta", torch.bfloat16), latent, latent[..., :512], enable_gqa=True, machine="h200")
    assert "the latent is read once for both, 4,718,592 words" in str(far)
    assert far.choice.language == "CUDA C++" and far.choice.values_in_keys
    portable = explain(q.to("meta", torch.bfloat16), latent, latent[..., :512], enable_gqa=True, machine="a100")
    assert portable.choice.tiles["head_tile"] == 64 and portable.choice.values_in_keys


def test_the_planner_s_workload_of_a_latent_is_that_of_deepseek_s_decode():
    problem = latent_problem(1, 128, 1, 64, 576, 512, dtype=torch.bfloat16)
    q, k = problem.query.flatten(1, 2), problem.key
    mine = explain(q, k, k[..., :512], enable_gqa=True, machine="h200").bound
    theirs = attenio.catalogue.model_named("deepseek-v3").decode
    workload = Workload(queries=1, keys=64, d=theirs.d, value_dim=theirs.value_dim, heads=theirs.heads,
                        kv_heads=theirs.kv_heads, dtype="bf16", values_in_keys=theirs.values_in_keys)  # fmt: skip
    assert mine.words == workload.compulsory_words == replace(workload, batch=1).compulsory_words


def test_a_group_whose_rows_do_not_fit_a_cache_is_explained_with_as_many_as_do():
    q, k = torch.randn(1, 8192, 1, 64), torch.randn(1, 1, 300, 64)
    told = explain(q, k, k, enable_gqa=True)
    assert told.choice.tiles["head_tile"] == 8192 > told.plan.tiles["head_tile"]
    assert f"words are those of {told.plan.tiles['head_tile']} at a time" in told.notes[-2] + told.notes[-1]


def test_autocast_keeps_a_latent_one_where_no_gradient_asks_for_two(monkeypatch):
    seen = []
    latent, q = torch.randn(1, 1, 40, 24), torch.randn(1, 8, 1, 24)
    problem = KernelProblem.of_heads

    def spied(*arguments, **rest):
        made = problem(*arguments, **rest)
        seen.append(made.values_in_keys)
        return made

    monkeypatch.setattr(KernelProblem, "of_heads", spied)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mine = attention(q, latent, latent[..., :16], enable_gqa=True)
        assert mine.dtype == torch.bfloat16 and seen and all(seen)
        detached = latent.clone().requires_grad_()
        output = attention(q, detached, detached.detach()[..., :16], enable_gqa=True)
    (of_key,) = torch.autograd.grad(output.float().sum(), detached)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        apart = latent.clone().requires_grad_()
        output = attention(q, apart, latent[..., :16].clone(), enable_gqa=True)
    torch.testing.assert_close(of_key, torch.autograd.grad(output.float().sum(), apart)[0])  # values gave nothing
