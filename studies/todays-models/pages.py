"""Cases of keys in pages for this study: decode beside contiguous keys, pages that are shared, pages of 8 bits.

``run.py --only paged`` measures them; all contenders of a case take turns in one run.
"""

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attenio import attention
from attenio.kernels import PageTable
from attenio.kernels.call.pages.bits import quantised

HEADS, KV_HEADS, D = 32, 8, 128
Calls = dict[str, Callable[[], Tensor]]
Timing = Callable[[Calls], dict[str, list[float]]]


@dataclass(frozen=True)
class Decode:
    """One new token of each request, and as many keys of each."""

    requests: int
    keys: int

    @property
    def name(self) -> str:
        return f"decode, {self.requests} x {HEADS}/{KV_HEADS} x {self.keys} x {D}"


@dataclass(frozen=True)
class Shared:
    """Requests that begin with the same pages and have some keys of their own behind them."""

    requests: int
    prefix: int
    own: int

    @property
    def name(self) -> str:
        return f"shared prefix, {self.requests} x {HEADS}/{KV_HEADS} x {self.prefix} + {self.own} x {D}"


CASES = (Decode(64, 8192), Shared(64, 32768, 64), Decode(16, 8192), Decode(1, 131072))


def table_of(requests: int, places: int, device: str) -> Tensor:
    """Pages of requests that share nothing, in random order."""
    return torch.randperm(requests * places, device=device).view(requests, places).to(torch.int32)


def in_pages(keys: Tensor, table: Tensor, size: int) -> Tensor:
    """(requests, KV heads, keys, d) as pages (pages, keys of a page, KV heads, d), where the table says."""
    cut = keys.unflatten(2, (-1, size)).permute(0, 2, 3, 1, 4).flatten(0, 1)
    pages = torch.empty_like(cut)
    pages[table.flatten().long()] = cut
    return pages.contiguous()


def decode_calls(case: Decode) -> tuple[Calls, Tensor]:
    q = torch.randn(case.requests, HEADS, 1, D, device="cuda").bfloat16()
    k, v = (torch.randn(case.requests, KV_HEADS, case.keys, D, device="cuda").bfloat16() for _ in range(2))
    lengths = torch.full((case.requests,), case.keys, dtype=torch.int32, device="cuda")
    calls: Calls = {"contiguous": lambda: attention(q, k, v, enable_gqa=True)}
    for size in (64, 16, 256):
        table = table_of(case.requests, case.keys // size, "cuda")
        kp, vp = in_pages(k, table, size), in_pages(v, table, size)
        calls[f"pages of {size}"] = lambda kp=kp, vp=vp, table=table: attention(q, kp, vp, pages=table, lengths=lengths)
        if size == 256:
            continue
        for name, kind in (("fp8", torch.float8_e4m3fn), ("int8", torch.int8)):
            (k8, of_keys), (v8, of_values) = quantised(kp, kind), quantised(vp, kind)
            calls[f"{name} pages of {size}"] = lambda k8=k8, v8=v8, table=table, of_keys=of_keys, of_values=of_values: (
                attention(q, k8, v8, pages=table, lengths=lengths, page_scales=(of_keys, of_values))
            )
    return calls, exact(q[0, :, 0], k[0], v[0])


def shared_calls(case: Shared) -> tuple[Calls, Tensor]:
    size, first = 64, case.prefix // 64
    own = case.own // size
    pages = first + case.requests * own
    order = torch.randperm(pages)
    table = torch.cat(
        (order[:first].expand(case.requests, -1), order[first:].view(case.requests, own)), 1
    ).to(torch.int32)  # fmt: skip
    kp, vp = (torch.randn(pages, size, KV_HEADS, D, device="cuda").bfloat16() for _ in range(2))
    q = torch.randn(case.requests, HEADS, 1, D, device="cuda").bfloat16()
    lengths = torch.full((case.requests,), case.prefix + case.own, dtype=torch.int32)
    planned, on_gpu, many = PageTable.of(table, lengths), table.cuda(), lengths.cuda()
    # (requests, KV heads, keys, d): every request has its own copy, as without pages.
    k, v = (pool[on_gpu.long()].flatten(1, 2).transpose(1, 2).contiguous() for pool in (kp, vp))
    return {
        "read once": lambda: attention(q, kp, vp, pages=planned),
        "pages by request": lambda: attention(q, kp, vp, pages=on_gpu, lengths=many),
        "contiguous by request": lambda: attention(q, k, v, enable_gqa=True),
        "contiguous with prefix=": lambda: attention(q, k, v, enable_gqa=True, prefix=case.prefix),
    }, exact(q[0, :, 0], k[0], v[0])


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The output of one token (heads, d) in float64."""
    group = q.shape[0] // k.shape[0]
    scores = torch.einsum("hgd,hnd->hgn", q.double().unflatten(0, (-1, group)), k.double()) * D**-0.5
    return torch.einsum("hgn,hnd->hgd", scores.softmax(-1), v.double()).flatten(0, 1)


def measured(case: Decode | Shared, timing: Timing) -> dict[str, Any]:
    """Every contender's samples, bytes of keys and values, and error on the first request."""
    calls, right = decode_calls(case) if isinstance(case, Decode) else shared_calls(case)
    found: dict[str, Any] = {}
    for name, call in list(calls.items()):
        try:
            output = call()[0, :, 0].double()
        except Exception as problem:
            found[name] = {"refused": (str(problem).splitlines() or [type(problem).__name__])[0][:160]}
            del calls[name]
            continue
        found[name] = {"relative_error": float((output - right).norm() / right.norm())}
    for name, samples in timing(calls).items():
        found[name] |= {"samples_ms": samples, "median_ms": statistics.median(samples)}
        if isinstance(case, Decode):
            width = 1 if "8 pages" in name else 2
            moved = 2 * width * case.requests * case.keys * KV_HEADS * D
            found[name]["gb_per_s"] = moved / found[name]["median_ms"] / 1e6
    calls.clear()
    gc.collect()
    torch.cuda.empty_cache()
    return {"case": case.name, "contenders": found}
