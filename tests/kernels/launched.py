"""Calls of random forms, and whether what they launch is what ``explain()`` says of them.

It needs NumPy and PyTorch only, so that the same law holds on a CPU, in interpreters and on a GPU.
"""

import random

import numpy as np
import torch

from attenio import attention, explain
from attenio.kernels.call.choice import LIBRARY, launches
from attenio.kernels.cpu import beside
from attenio.kernels.replay import repeating
from attenio.masks import BlockSparse

__all__ = ["random_call", "run_and_compare"]


def random_call(rng: random.Random, *, device="cpu", dtypes, widths, longest=400, most_heads=4, **more):
    """Queries, keys and values, and options of attention(): every kind of restriction, few rows and many."""
    kv_heads, group = rng.choice((1, 1, 2)), rng.choice((1, 1, 2, most_heads))
    queries = rng.choice((1, 1, rng.randint(2, 9), rng.randint(10, longest), rng.randint(10, longest)))
    keys = rng.choice((queries, queries, rng.randint(1, longest), rng.randint(longest, 3 * longest)))
    kind = rng.choice(
        ("plain", "causal", "window", "sides", "packed", "ids", "booleans", "bias", "prefix", "dropout", "blocks")
    )
    batch = rng.choice((2, 3)) if kind == "prefix" else rng.choice((1, 1, 2))
    d, dtype = rng.choice(widths), rng.choice(dtypes)
    width = rng.choice((d, d, rng.choice(widths)))
    sizes = (batch, kv_heads * group, queries, d), (batch, kv_heads, keys, d), (batch, kv_heads, keys, width)
    drawn = torch.Generator(device).manual_seed(rng.randrange(2**31))
    q, k, v = (torch.randn(size, generator=drawn, device=device).to(dtype) for size in sizes)
    options = {"enable_gqa": group > 1, **_restriction(rng, kind, (batch, queries, keys), q)}
    if rng.random() < 0.15:
        options["deterministic"] = True
    if rng.random() < 0.15:
        options["scale"] = rng.choice((0.01, 0.5, 3.0, -0.3))
    return (q, k, v), options | more


def _restriction(rng, kind, sizes, query):
    batch, queries, keys = sizes
    device = query.device
    match kind:
        case "causal":
            return {"is_causal": True}
        case "window":
            return {"window": rng.randint(1, keys)}
        case "sides":
            return {"window": (rng.randint(-1, keys), rng.randint(-1, 9))}
        case "packed":
            cuts = [[0, *sorted(rng.randint(0, size) for _ in range(2)), size] for size in (queries, keys)]
            ends = tuple(torch.tensor(each, device=device) for each in cuts)
            return {"cu_seqlens": ends, "is_causal": rng.random() < 0.5}
        case "ids":
            return {"segment_ids": tuple(torch.arange(size, device=device) // 40 for size in (queries, keys))}
        case "booleans":
            return {"attn_mask": torch.rand(queries, keys, device=device) < 0.7}
        case "bias":
            return {"attn_mask": torch.randn(batch, 1, 1, keys, device=device).to(query.dtype)}
        case "prefix":
            return {"prefix": rng.randint(1, keys)}
        case "dropout":
            return {"dropout_p": 0.3}
        case "blocks":
            layout = [[i == j or rng.random() < 0.5 for j in range(-(-keys // 32))] for i in range(-(-queries // 32))]
            return {"block_mask": BlockSparse.from_array(np.array(layout), query_block=32, key_block=32)}
    return {}


def run_and_compare(heads, options, machine=None):
    """What a call launches, forward and backward, beside what was explained before it ran."""
    q, k, v = (x.requires_grad_() for x in heads)
    beside.forget_ways()
    repeating.forget()
    said = explain(q, k, v, **options, machine=machine)
    assert (said.plan.dataflow, said.plan.tiles) == (said.choice.dataflow, said.choice.tiles)
    with launches() as heard:
        output = attention(q, k, v, **options)
    if said.choice.language == LIBRARY and len(heard) > 1:  # its log-sum-exp was too large for gradients by it
        assert heard.pop(0).name == said.choice.name
        said = explain(q, k, v, **options)
        assert said.choice.language == "PyTorch"
    assert_forward(said.choice, heard)
    with launches() as heard:
        output.backward(torch.ones_like(output))
    assert_backward(said.backward, heard)
    return said


def assert_forward(choice, heard):
    """The launches of a forward pass are those of its choice, tiles, splits and all."""
    assert heard, choice
    if choice.language == LIBRARY:
        assert [launch.name for launch in heard] == [choice.name]
        return
    common, own = ([each for each in heard if _is_of(each, part)] for part in (choice, choice.own))
    assert len(common) + len(own) == len(heard), (choice, heard)
    for part, mine in ((choice, common), (choice.own, own)):
        if part is not None:
            assert mine, (part, heard)
            _FORWARD[part.language](part, mine)


def _is_of(launch, choice):
    """Whether a launch is that of a choice, or of one of its parts: a prefix, and the keys behind it."""
    if choice is None or launch.name != choice.name:
        return False
    if "part" in launch.settings and choice.split is not None:
        keys = launch.settings["part"].keys
        return choice.split.first <= keys.start and keys.stop <= choice.split.stop
    if choice.language == "Triton" and choice.split is not None:  # what a prefix gives is joined with the rest later
        return launch.settings.get("JOINS") == (choice.own is None) and "SPLITS" in launch.settings
    return (choice.language in ("Gluon", "CUDA C++")) == (
        "num_warps" not in launch.settings
    ) or choice.language == "PyTorch"


def _on_cpu(choice, mine):
    kernel, parts = choice.kernel, [launch.settings["part"] for launch in mine]
    tiled = [launch.settings for launch in mine if "key_tile" in launch.settings]
    assert all(each["key_tile"] == kernel.key_tile for each in tiled)
    assert all(each.get("subtracts", kernel.subtracts) == kernel.subtracts for each in tiled)
    if choice.name not in ("fused", "fused_rows"):
        assert max(_size(part.positions) for part in parts) == choice.tiles["query_tile"]
    if choice.split is not None:
        first, stop, run, splits = choice.split
        runs = {(part.keys.start, part.keys.stop) for part in parts}
        assert runs == {(at, min(at + run, stop)) for at in range(first, stop, run)} or first == stop
        assert len(runs) == splits


def _in_triton(choice, mine):
    kernel, ((_, found),) = choice.kernel, mine
    tiles = found["ROW_TILE"], found["KEY_TILE"], found["PACK"], found["num_warps"], found["num_stages"]
    assert tiles == (kernel.row_tile, kernel.key_tile, kernel.pack, kernel.warps, kernel.stages)
    assert choice.tiles["key_tile"] <= found["KEY_TILE"]
    assert choice.tiles["query_tile"] <= max(1, found["ROW_TILE"] // found["PACK"])
    if choice.split is not None:
        assert found["SPLITS"] == choice.split.splits


def _in_gluon(choice, mine):
    kernel = choice.kernel
    for name, found in mine:
        if name == "query_parts_kernel":
            assert (found["SOFTMAX"], found["REGISTERS"]) == (True, kernel.registers)
            continue
        assert (found["KEY_TILE"], found["STAGES"]) == (kernel.key_tile, kernel.stages)
        assert choice.tiles["key_tile"] <= found["KEY_TILE"]
        if name == "split_keys_kernel":
            rows = found["ROWS"], found["ROW_WARPS"], found["KEY_WARPS"]
            assert rows == (kernel.rows, kernel.row_warps, kernel.key_warps)
            assert found["programs"] % choice.split.splits == 0 and found["JOINS"] == (choice.split.splits > 1)
        elif name == "attenio_kernel":
            rows = found["CONSUMERS"], found["PINGPONG"], found["STAGED"], found["HELD"], found["REGISTERS"]
            assert rows == (kernel.consumers, kernel.ping_pong, kernel.staged, kernel.held, kernel.registers)
        else:
            assert kernel.wide


def _in_cuda(choice, mine):
    kernel, ((name, found),) = choice.kernel, mine
    if name == "split_latents_kernel":
        assert (found["CLUSTER"], found["UNITS"], found["AHEAD"]) == (kernel.cluster, kernel.units, kernel.ahead)
        assert found["programs"] % choice.split.splits == 0 and found["WIDE_RUNS"] == (1 < choice.split.splits < 16)
        return
    names = "CONSUMERS", "KEY_TILE", "STAGES", "REGISTERS"
    tiles = kernel.consumers, kernel.key_tile, kernel.stages, kernel.registers
    assert tuple(found[name] for name in names) == tiles


_FORWARD = {"CUDA C++": _in_cuda, "PyTorch": _on_cpu, "Triton": _in_triton, "Gluon": _in_gluon}


def assert_backward(choice, heard):
    """The launches of a backward pass are those of its choice."""
    if choice.language == LIBRARY:
        assert not heard, heard
        return
    names, tiles = {launch.name for launch in heard}, choice.tiles
    if choice.language == "Triton":
        for name in ("query_gradient", "key_gradients"):
            kernel = getattr(choice.kernel, name)
            (launch,) = (each.settings for each in heard if each.name == f"{name}_kernel")
            found = (launch["ROW_TILE"], launch["KEY_TILE"])[:: 1 if name == "query_gradient" else -1]
            assert (*found, launch["num_warps"]) == (kernel.stationary, kernel.passing, kernel.warps)
    elif choice.language == "CUDA C++":
        assert names == {choice.name}, (choice, heard)
    elif choice.name == "query_parts_kernel and key_parts_kernel":
        first, *second = heard
        assert first.name == "query_parts_kernel" and not first.settings["SOFTMAX"]
        assert [(each.name, each.settings["OF_KEYS"]) for each in second] == [
            ("key_parts_kernel", True), ("key_parts_kernel", False),
        ]  # fmt: skip
    elif choice.language == "Gluon":
        config = choice.kernel
        others = {"spilled_query_gradients_kernel"} if config.spills else set()
        assert names == {choice.name} | others, (choice, heard)
        for launch in (each.settings for each in heard if each.name == choice.name):
            assert (launch["ROWS"], launch["KEYS"]) == (config.rows, config.keys)
            assert (launch["STAGES"], launch["SLOTS"], launch["REGISTERS"]) == (
                config.stages, config.slots, config.registers,
            )  # fmt: skip
    elif choice.name == "fused_backward":
        assert names == {"fused_backward"}, (choice, heard)
    else:
        assert names - {"split_keys"} == {"query_gradient", "key_gradients"}, (choice, heard)
        rows = [each.settings["part"].positions for each in heard if each.name == "query_gradient"]
        keys = [each.settings for each in heard if each.name == "key_gradients"]
        assert max(map(_size, rows)) == tiles["query_tile"]
        assert max(_size(each["part"].keys) for each in keys) == tiles["stationary_keys"]
        assert {each["passing"] for each in keys} == {tiles["passing_queries"]}


def _size(cut):
    return cut.stop - cut.start
