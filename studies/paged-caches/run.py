"""Keys in pages on a CPU beside SDPA on gathered tensors, and generate loops of small models, in one run.

    PYTHONPATH=src python studies/paged-caches/run.py [--into FOLDER]

writes results.json: samples of every contender in turns, errors against float64, tokens of every model and cache, and
what made them. ``answer.py`` turns it into answer.md. Nothing else should run meanwhile.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attenio import attention
from attenio.files import write_atomically
from attenio.kernels import PagedCache, PageTable
from attenio.kernels.call.pages.bits import dequantised, quantised
from attenio.kernels.transformers import GenerationCache, register
from attenio.measurement.provenance import provenance

HERE = Path(__file__).parent
SEED, REPEATS, LOOPS = 0, 21, 7
HEADS, KV_HEADS, D, PAGE = 32, 8, 128, 64
NEW_TOKENS, PROMPT = 32, 64
Calls = dict[str, Callable[[], Tensor]]


def pools(pages: int) -> tuple[Tensor, Tensor]:
    return torch.randn(pages, PAGE, KV_HEADS, D), torch.randn(pages, PAGE, KV_HEADS, D)


def gathered(pool: Tensor, table: Tensor) -> Tensor:
    """(requests, KV heads, keys, d)."""
    return pool[table.long()].flatten(1, 2).transpose(1, 2)


def by_library(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, enable_gqa=True)


def shared(requests: int, prefix: int, own: int) -> tuple[Calls, Tensor]:
    """Requests that begin with the same pages."""
    first, each = prefix // PAGE, own // PAGE
    kp, vp = pools(first + requests * each)
    order = torch.randperm(first + requests * each)
    table = torch.cat((order[:first].expand(requests, -1), order[first:].view(requests, each)), 1).int()
    lengths = torch.full((requests,), prefix + own)
    q = torch.randn(requests, HEADS, 1, D)
    k, v = (gathered(pool, table).contiguous() for pool in (kp, vp))
    planned = PageTable.of(table, lengths)
    alone = [PageTable.of(row[None], length[None]) for row, length in zip(table, lengths, strict=True)]
    return {
        "attenio, read once": lambda: attention(q, kp, vp, pages=planned),
        "attenio, by request": lambda: torch.cat(
            [attention(q[[at]], kp, vp, pages=one) for at, one in enumerate(alone)]
        ),
        "SDPA, gathered in the call": lambda: by_library(q, gathered(kp, table), gathered(vp, table)),
        "SDPA, gathered before": lambda: by_library(q, k, v),
    }, exact(q, k, v)


def reduced(requests: int, keys: int, kind: torch.dtype) -> tuple[Calls, Tensor]:
    """Pages of 8 bits beside the same in single precision."""
    kp, vp = pools(requests * keys // PAGE)
    table = torch.randperm(requests * keys // PAGE).view(requests, -1).int()
    planned = PageTable.of(table, torch.full((requests,), keys))
    q = torch.randn(requests, HEADS, 1, D)
    (k8, of_keys), (v8, of_values) = quantised(kp, kind), quantised(vp, kind)
    k, v = (gathered(pool, table).contiguous() for pool in (kp, vp))
    return {
        "attenio, 8 bits": lambda: attention(q, k8, v8, pages=planned, page_scales=(of_keys, of_values)),
        "attenio, 32 bits": lambda: attention(q, kp, vp, pages=planned),
        "SDPA, gathered in the call": lambda: by_library(
            q, gathered(dequantised(k8, of_keys), table), gathered(dequantised(v8, of_values), table)
        ),
        "SDPA, gathered before": lambda: by_library(q, k, v),
    }, exact(q, k, v)


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """In float64, of the first request."""
    group = q.shape[1] // k.shape[1]
    heads = q[0].double().unflatten(0, (-1, group)).flatten(1, 2)
    weights = (heads @ k[0].double().mT * D**-0.5).softmax(-1)
    return (weights @ v[0].double()).view(q.shape[1], D)


CASES: dict[str, Callable[[], tuple[Calls, Tensor]]] = {
    "16 requests x (2048 shared + 64)": lambda: shared(16, 2048, 64),
    "8 requests x 2048, int8": lambda: reduced(8, 2048, torch.int8),
    "8 requests x 2048, fp8": lambda: reduced(8, 2048, torch.float8_e4m3fn),
}
SMALL = {
    "vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "GptOss": {"head_dim": 32, "sliding_window": 128, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Gemma2": {"head_dim": 32, "sliding_window": 128},
    "DeepseekV3": {
        "kv_lora_rank": 64, "q_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 64,
        "num_key_value_heads": 8,
    },
}  # fmt: skip


def timed(call: Callable[[], Any]) -> float:
    before = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - before)


def measured(name: str) -> dict[str, Any]:
    torch.manual_seed(SEED)
    calls, right = CASES[name]()
    found: dict[str, Any] = {}
    with torch.no_grad():
        for contender, call in calls.items():
            output = call()[0, :, 0].double()
            found[contender] = {"relative_error": float((output - right).norm() / right.norm()), "samples_ms": []}
        for _ in range(REPEATS):
            for contender, call in calls.items():
                found[contender]["samples_ms"].append(timed(call))
    for each in found.values():
        each["median_ms"] = statistics.median(each["samples_ms"])
    return {"case": name, "contenders": found}


def generated(name: str) -> dict[str, Any]:
    """Tokens a second of one model by every implementation, and whether they are eager's."""
    register()
    tokens = torch.randint(3, 512, (4, PROMPT), generator=torch.Generator().manual_seed(SEED))
    runs: dict[str, Callable[[], Tensor]] = {}
    for implementation in ("eager", "sdpa", "attenio"):
        torch.manual_seed(SEED)
        config = getattr(transformers, f"{name}Config")(**SMALL | MODELS[name])
        try:
            model = getattr(transformers, f"{name}ForCausalLM")._from_config(config, attn_implementation=implementation)
        except ValueError as refusal:
            runs[implementation] = _refusing(str(refusal).splitlines()[0])
            continue
        runs[implementation] = _loop(model.eval(), tokens, paged=False)
        if implementation == "attenio":
            runs["attenio, pages"] = _loop(model.eval(), tokens, paged=True)
    found: dict[str, Any] = {}
    for contender, run in list(runs.items()):
        try:
            found[contender] = {"tokens": run()[:, PROMPT:].tolist(), "samples_s": []}
        except NotImplementedError as refusal:
            found[contender] = {"refused": str(refusal)}
            del runs[contender]
    for _ in range(LOOPS):
        for contender, run in runs.items():
            found[contender]["samples_s"].append(timed(run) / 1e3)
    right = found["eager"]["tokens"]
    for each in found.values():
        if "samples_s" in each:
            each["tokens_per_s"] = 4 * NEW_TOKENS / statistics.median(each["samples_s"])
            each["are_eagers"] = each.pop("tokens") == right
    return {"model": name, "contenders": found}


def _loop(model: Any, tokens: Tensor, *, paged: bool) -> Callable[[], Tensor]:
    def run() -> Tensor:
        cache = GenerationCache.of(model.config, pages=64, page_size=16) if paged else None
        given = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "eos_token_id": None}
        output: Tensor = model.generate(tokens, attention_mask=torch.ones_like(tokens), past_key_values=cache, **given)
        return output

    return run


def _refusing(said: str) -> Callable[[], Tensor]:
    def refuse() -> Tensor:
        raise NotImplementedError(said)

    return refuse


def appended_error() -> dict[str, float]:
    """How far keys are that were rounded as they were appended, one at a time, over the largest of their page."""
    found = {}
    key = torch.randn(1, KV_HEADS, 4 * PAGE, D, generator=torch.Generator().manual_seed(SEED))
    for name, kind in (("int8", torch.int8), ("fp8", torch.float8_e4m3fn)):
        for way, step in (("at once", 4 * PAGE), ("one by one", 1)):
            cache = PagedCache(pages=4, page_size=PAGE, kv_heads=KV_HEADS, width=D, dtype=kind)
            request = cache.open()
            for at in range(0, 4 * PAGE, step):
                cache.append([request], key[:, :, at : at + step], key[:, :, at : at + step])
            off = cache.gathered([request])[0] - key
            found[f"{name}, {way}"] = float(off.norm() / key.norm())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, default=HERE, help="folder of results.json")
    asked = parser.parse_args()
    made = {
        **asdict(provenance()), "seed": SEED, "torch": torch.__version__, "transformers": transformers.__version__,
        "processor": platform.machine(), "threads": torch.get_num_threads(), "load": [round(os.getloadavg()[0], 1)],
    }  # fmt: skip
    results: dict[str, Any] = {"provenance": made, "rounding": appended_error(), "cases": [], "models": []}
    for name in CASES:
        results["cases"].append(measured(name))
        print(name, {k: round(each["median_ms"], 2) for k, each in results["cases"][-1]["contenders"].items()})
    for name in MODELS:
        results["models"].append(generated(name))
        print(name, {k: each.get("tokens_per_s") for k, each in results["models"][-1]["contenders"].items()})
    made["load"].append(round(os.getloadavg()[0], 1))
    write_atomically(asked.into / "results.json", json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
