"""Do FlashAttention's own test cases hold for attention()?

    PYTHONPATH=src python studies/flash-attention-cases/run.py --out FILE [--seconds 240] [--commit COMMIT]
    PYTHONPATH=src python studies/flash-attention-cases/run.py --out FILE --small --device cpu

needs NumPy and PyTorch. A run that was ended goes on where it was; what was left out for time is counted in the file.
``answer.py`` turns results.json into answer.md.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from grid import COMMIT, Case, cases, small, totals
from torch import Tensor

from attenio import attention
from attenio.files import write_atomically
from attenio.kernels.replay import set_stand_ins
from attenio.measurement.provenance import provenance
from attenio.measurement.software import software_of

DTYPE = torch.bfloat16


def compared(case: Case, device: str) -> dict[str, Any]:
    """Largest errors of ours and of an untiled computation in bf16, against an untiled one in fp32."""
    draw = torch.Generator(device).manual_seed(0)

    def drawn(heads: int, tokens: int, width: int) -> Tensor:
        return torch.randn(case.batch, heads, tokens, width, generator=draw, device=device, dtype=DTYPE)

    q, k = drawn(case.heads, case.queries, case.width), drawn(case.kv_heads, case.keys, case.width)
    v, dout = drawn(case.kv_heads, case.keys, case.value_width), drawn(case.heads, case.queries, case.value_width)
    lengths = _lengths(case, device)
    seen = _seen(case, lengths)
    start = time.perf_counter()
    mine = _ours(case, (q, k, v, dout), lengths, seen)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    exact = _untiled(case, [x.float() for x in (q, k, v, dout)], seen)
    rough = _untiled(case, [q, k, v, dout], seen)
    errors = {}
    for name, ours, best, plain in zip(("out", "dq", "dk", "dv"), mine, exact, rough, strict=False):
        side = lengths[0] if name in ("out", "dq") else lengths[1]
        errors[name] = _error(ours, _packed(case, best, side), _packed(case, plain, side))
    return {"seconds": round(seconds, 3), "errors": errors}


def _lengths(case: Case, device: str) -> tuple[Tensor, Tensor]:
    """How many queries and keys each sequence of the batch has."""
    draw = torch.Generator().manual_seed(case.queries + case.keys + case.width)

    def of(tokens: int, zero: bool) -> Tensor:
        least = {"random": tokens - 20, "third": tokens // 3, "cache": 1}.get(case.lengths or "", tokens)
        found = torch.randint(max(0 if zero else min(1, tokens), least), tokens + 1, (case.batch,), generator=draw)
        if zero:
            found[::5], found[-1:] = 0, 0
        return found.to(device)

    if case.test == "packed":
        queries = of(case.queries, case.zeros[0])
    elif case.unequal:
        queries = torch.randint(1, case.queries + 1, (case.batch,), generator=draw)
    else:
        queries = torch.full((case.batch,), case.queries)
    same = case.test == "packed" and case.mask != "dense"
    return queries.to(device), queries.to(device) if same else of(case.keys, case.zeros[1])


def _seen(case: Case, lengths: tuple[Tensor, Tensor]) -> Tensor:
    """Which keys each query sees, (batch, 1, queries, keys), by the definition."""
    queries, keys = (each[:, None, None, None] for each in lengths)
    row = torch.arange(case.queries, device=queries.device)[:, None]
    key = torch.arange(case.keys, device=queries.device)
    stands = row + keys - queries  # the last query at the last key
    left, right = case.window
    seen = (row < queries) & (key < keys)
    if left is not None:
        seen = seen & (key >= stands - left)
    return seen if right is None else seen & (key <= stands + right)


def _packed(case: Case, tensor: Tensor, lengths: Tensor) -> Tensor:
    """(batch, heads, tokens, width), its sequences one behind the other where the case has them so."""
    if case.test != "packed" and not case.unequal:
        return tensor
    inside = torch.arange(tensor.shape[2], device=tensor.device) < lengths[:, None]
    return tensor.transpose(1, 2)[inside].transpose(0, 1)[None]


def _ours(case: Case, tensors: tuple[Tensor, ...], lengths: tuple[Tensor, Tensor], seen: Tensor) -> list[Tensor]:
    """Output and gradients of attention()."""
    if case.page is not None:
        return [_in_pages(case, tensors, lengths)]
    sides = (lengths[0], lengths[1], lengths[1], lengths[0])
    *given, dout = (_packed(case, tensor, side) for tensor, side in zip(tensors, sides, strict=True))
    leaves = [tensor.detach().clone().requires_grad_(case.backward) for tensor in given]
    options: dict[str, Any] = {"enable_gqa": case.heads != case.kv_heads, "deterministic": case.deterministic}
    if case.test == "packed":
        options["cu_seqlens"] = tuple(torch.nn.functional.pad(side.cumsum(0), (1, 0)).int() for side in lengths)
    if case.test == "cached" or any(side is not None and side < 0 for side in case.window):
        options["attn_mask"] = seen
    elif case.window != (None, None):
        options["window"] = tuple(-1 if side is None else side for side in case.window)
    out = attention(*leaves, **options)
    return [out.detach(), *(torch.autograd.grad(out, leaves, dout) if case.backward else ())]


def _in_pages(case: Case, tensors: tuple[Tensor, ...], lengths: tuple[Tensor, Tensor]) -> Tensor:
    """The output, with keys and values in pages of random order."""
    q, k, v, _ = tensors
    assert case.page is not None
    places = case.keys // case.page
    order = torch.randperm(case.batch * places, generator=torch.Generator().manual_seed(0)).to(q.device)
    pools = []
    for tensor in (k, v):
        cut = tensor.unflatten(2, (places, case.page)).permute(0, 2, 3, 1, 4).flatten(0, 1)
        pools.append(torch.empty_like(cut).index_copy_(0, order, cut))
    options: dict[str, Any] = {"pages": order.view(case.batch, places).int(), "lengths": lengths[1].int()}
    if case.unequal:
        options["cu_seqlens"] = torch.nn.functional.pad(lengths[0].cumsum(0), (1, 0)).int()
    if case.window != (None, None):
        options["window"] = tuple(-1 if side is None else side for side in case.window)
    output: Tensor = attention(_packed(case, q, lengths[0]), *pools, **options)
    return output


def _untiled(case: Case, tensors: list[Tensor], seen: Tensor) -> list[Tensor]:
    """The same by the definition, in the precision of the tensors; a query that sees nothing gives zeros."""
    *given, dout = tensors
    q, k, v = leaves = [tensor.detach().clone().requires_grad_(case.backward) for tensor in given]
    wide = [tensor.repeat_interleave(case.heads // case.kv_heads, 1) for tensor in (k, v)]
    scores = (q @ wide[0].mT / math.sqrt(case.width)).masked_fill(~seen, -math.inf)
    weights = torch.softmax(scores, -1).masked_fill(~seen, 0.0) if case.keys else scores
    out = weights @ wide[1]
    if not case.backward:
        return [out]
    # A row of -inf has NaN for weights, which 0 replaces going forward and masked_fill again going back.
    gradients = torch.autograd.grad(out, leaves, dout)
    return [out.detach(), *gradients]


def _error(mine: Tensor, exact: Tensor, rough: Tensor) -> list[float]:
    """Largest errors of ours and untiled, and what their test allows beside: the rounding when 0.3 is added."""
    if mine.shape != exact.shape:
        raise ValueError(f"a result of shape {tuple(mine.shape)} where {tuple(exact.shape)} is right")
    if not exact.numel():
        return [0.0, 0.0, 0.0]
    stored = exact.to(DTYPE)
    apart = float((mine.float() - exact).abs().max())
    untiled = float((rough.float() - exact).abs().max())
    allowed = 2 * float((stored + 0.3 - 0.3 - stored).abs().max())
    return [float(f"{number:.4g}") for number in (apart if math.isfinite(apart) else 1e30, untiled, allowed)]


def measured(wanted: list[Case], device: str, done: dict[str, Any], seconds: float, out: Path) -> dict[str, Any]:
    """Every case that is not done yet, until the time is over; the file is written as it goes."""
    until = time.monotonic() + seconds
    results = {**done, "flash_attention_commit": COMMIT, "totals": totals()}
    rows = results.setdefault("cases", {})
    written = time.monotonic()
    for case in wanted:
        if case.name in rows:
            continue
        if time.monotonic() > until:
            break
        try:
            rows[case.name] = {"test": case.test, **compared(case, device)}
        except Exception as reason:  # a case that raises has failed, and the others are still wanted
            rows[case.name] = {"test": case.test, "raised": f"{type(reason).__name__}: {str(reason)[:300]}"}
        if time.monotonic() - written > 5:
            _write(out, results, wanted)
            written = time.monotonic()
            print(f"{len(rows):,} of {len(wanted):,}: {case.name}", file=sys.stderr, flush=True)
    _write(out, results, wanted)
    return results


def _write(out: Path, results: dict[str, Any], wanted: list[Case]) -> None:
    left = [case for case in wanted if case.name not in results["cases"]]
    results["left_out"] = {"for_time": len(left), "essential": sum(case.essential for case in left)}
    write_atomically(out, json.dumps(results, separators=(",", ":")) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="one case of each kind, for a CPU")
    parser.add_argument("--seconds", type=float, default=240.0, help="stop after the case in which this is over")
    parser.add_argument("--commit", help="of attenio, where git is not there to ask")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    set_stand_ins(False)
    made = {**asdict(provenance()), **software_of(given.device)}
    if given.commit:
        made["commit"] = given.commit
    done = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    done["provenance"] = [*done.get("provenance", []), made]
    results = measured(small() if given.small else cases(), given.device, done, given.seconds, given.out)
    raised = sum("raised" in row for row in results["cases"].values())
    print(
        f"{len(results['cases']):,} cases, {raised} raised, {results['left_out']['for_time']:,} left for another time"
    )


if __name__ == "__main__":
    main()
