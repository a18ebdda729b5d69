"""What sinks, caps on scores, pages and latents cost on Hopper, beside FlashAttention-4 and FlexAttention, in one run.

    PYTHONPATH=src python studies/todays-models/run.py [--into FOLDER] [--commit NAME] [--only PART]

writes results.json: GPU times of every contender (replays of CUDA graphs, contenders in turns of every order, bf16,
random inputs), the error of outputs and gradients against float64 on a small problem of the same form, and what made
it. A case that was measured at the same commit is not measured again. ``answer.py`` turns the results into answer.md.
FlashAttention-4 takes part where ``flash_attn.cute`` can be imported.
"""

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import latents
import pages
import torch
import torch._dynamo
import triton
from torch import Tensor

from attenio import attention
from attenio.files import write_atomically
from attenio.measurement.graphs import captured, samples_in_turns
from attenio.measurement.provenance import provenance
from attenio.measurement.software import expect_gpu

HERE = Path(__file__).parent
SEED, REPEATS = 0, 24
CAP = 30.0
# Batch, query heads, KV heads, tokens, width: gpt-oss's heads, Gemma 2's, and those of studies/hopper.
SIZES = (
    (1, 64, 8, 8192, 64),
    (8, 64, 8, 1024, 64),
    (1, 32, 16, 8192, 128),
    (4, 16, 16, 4096, 128),
    (1, 8, 4, 8192, 256),
)
FORMS = ("plain", "sinks", "cap", "sinks and cap")
DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class Case:
    """Causal attention of one form."""

    size: tuple[int, ...]
    form: str
    direction: str

    @property
    def name(self) -> str:
        batch, heads, kv_heads, n, d = self.size
        return f"{self.direction}, {self.form}, {batch} x {heads}/{kv_heads} x {n} x {d}"

    @property
    def flops(self) -> float:
        batch, heads, _, n, d = self.size
        return 2.0 * batch * heads * n * n * d * (1.0 if self.direction == "forward" else 2.5)


def options_of(form: str, sinks: Tensor) -> dict[str, Any]:
    return ({"sinks": sinks} if "sinks" in form else {}) | ({"softcap": CAP} if "cap" in form else {})


def ours(form: str) -> Callable[..., Tensor]:
    return lambda q, k, v, sinks: attention(q, k, v, is_causal=True, enable_gqa=True, **options_of(form, sinks))


def flash_attention_4(form: str) -> Callable[..., Tensor]:
    from flash_attn.cute.interface import flash_attn_func

    def call(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
        given = {"learnable_sink": sinks.bfloat16()} if "sinks" in form else {}
        given |= {"softcap": CAP} if "cap" in form else {}
        found = flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=True, **given)
        output: Tensor = (found[0] if isinstance(found, tuple) else found).transpose(1, 2)
        return output

    return call


def flex(form: str) -> Callable[..., Tensor]:
    """Sinks as its own documentation has them: outputs shrunk by the log-sum-exp."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    masks: dict[int, Any] = {}

    def capped(score: Tensor, *_place: Tensor) -> Tensor:
        return CAP * torch.tanh(score / CAP)

    def call(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
        n = q.shape[2]
        if n not in masks:
            masks[n] = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cuda")
        given = {"score_mod": capped} if "cap" in form else {}
        if "sinks" not in form:
            plain: Tensor = compiled(q, k, v, block_mask=masks[n], enable_gqa=True, **given)
            return plain
        output, lse = compiled(q, k, v, block_mask=masks[n], enable_gqa=True, return_lse=True, **given)
        shrunk: Tensor = (output * torch.sigmoid(lse - sinks[:, None])[..., None]).to(output.dtype)
        return shrunk

    return call


PEERS = {"FlashAttention-4": flash_attention_4, "FlexAttention": flex}


def drawn(size: tuple[int, ...], *, gradients: bool) -> tuple[list[Tensor], Tensor]:
    batch, heads, kv_heads, n, d = size
    shapes = (heads, n), (kv_heads, n), (kv_heads, n)
    given = [torch.randn(batch, h, m, d, device="cuda").bfloat16().requires_grad_(gradients) for h, m in shapes]
    return given, torch.randn(heads, device="cuda")


def exact(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, form: str) -> Tensor:
    group, n = q.shape[1] // k.shape[1], q.shape[2]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if "cap" in form:
        scores = CAP * torch.tanh(scores / CAP)
    scores = scores.masked_fill(torch.ones(n, n, device="cuda", dtype=torch.bool).triu(1), -torch.inf)
    if "sinks" in form:
        scores = torch.cat((scores, sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    output: Tensor = torch.softmax(scores, -1)[..., :n] @ v
    return output


def error_of(attend: Callable[..., Tensor], case: Case) -> float:
    """Of outputs, or the largest of those of gradients: norms over those of float64."""
    batch, heads, kv_heads, _, d = case.size
    (q, k, v), sinks = drawn((batch, heads, kv_heads, 500, d), gradients=True)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    outputs = attend(q, k, v, sinks), exact(*wide, sinks, case.form)
    if case.direction == "forward":
        pairs = [outputs]
    else:
        g = torch.randn_like(outputs[0])
        mine, theirs = torch.autograd.grad(outputs[0], (q, k, v), g), torch.autograd.grad(outputs[1], wide, g.double())
        pairs = list(zip(mine, theirs, strict=True))
    return max(float((x.double() - y).norm() / y.norm()) for x, y in pairs)


def prepared(attend: Callable[..., Tensor], case: Case) -> Callable[[], Any]:
    gradients = case.direction == "backward"
    heads, sinks = drawn(case.size, gradients=gradients)
    if not gradients:
        return lambda: attend(*heads, sinks)
    output = attend(*heads, sinks)
    g = torch.randn_like(output)
    return lambda: torch.autograd.grad(output, heads, g, retain_graph=True)


def measured(case: Case) -> dict[str, Any]:
    attends: dict[str, Callable[..., Tensor]] = {"attenio": ours(case.form)}
    if case.form != "plain":
        attends["attenio, plain"] = ours("plain")
    found: dict[str, Any] = {}
    graphs, calls = {}, []
    # FlexAttention is compiled for ten seconds and more for every form.
    peers = PEERS if case.size in SIZES[:2] and case.direction == "forward" else ("FlashAttention-4",)
    for name in (*attends, *peers):
        try:
            attend = attends[name] if name in attends else PEERS[name](case.form)
            found[name] = {} if name == "attenio, plain" else {"relative_error": error_of(attend, case)}
            calls.append(prepared(attend, case))  # a graph holds addresses only
            graphs[name] = captured(calls[-1])
        except Exception as problem:  # a peer that refuses a form does so in its own way
            found[name] = {"refused": (str(problem).splitlines() or [type(problem).__name__])[0][:160]}
    for name, samples in samples_in_turns(graphs, repeats=REPEATS, seed=SEED).items():
        found[name] |= {"samples_ms": samples, "median_ms": statistics.median(samples)}
        found[name]["tflop_per_s"] = case.flops / found[name]["median_ms"] / 1e9
    return {"case": case.name, **asdict(case), "contenders": found}


def made_by(commit: str | None) -> dict[str, Any]:
    named = asdict(provenance())
    try:
        peer = version("flash-attn-4")
    except PackageNotFoundError:
        peer = None
    return {
        **named, "commit": commit or named["commit"], "seed": SEED, "device": torch.cuda.get_device_name(),
        "torch": torch.__version__, "cuda": torch.version.cuda, "triton": triton.__version__, "flash_attn_4": peer,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, default=HERE, help="folder of results.json")
    parser.add_argument("--commit", help="name of the commit, where there is no checkout")
    parser.add_argument("--only", choices=("scores", "paged", "latents"), help="one part alone")
    parser.add_argument("--few", action="store_true", help="the first size only")
    parser.add_argument(
        "--named", action="append", default=[], help="of sinks and caps only cases whose names have all of these"
    )
    asked = parser.parse_args()
    expect_gpu()
    warnings.filterwarnings("ignore", message="Argument aux_data")  # FlashAttention-4's compiler, at every form
    torch._dynamo.config.recompile_limit = 256  # FlexAttention is compiled for every form
    file, made = asked.into / "results.json", made_by(asked.commit)
    before = json.loads(file.read_text()) if file.exists() else {}
    if asked.only in (None, "paged"):
        before = alone("paged", file, before, made, pages.CASES, pages.measured)
    if asked.only in (None, "latents"):
        before = alone("latents", file, before, made, latents.SIZES, latents.measured)
    if asked.only in (None, "scores"):
        sizes = SIZES[:1] if asked.few else SIZES
        cases = [Case(size, form, direction) for direction in DIRECTIONS for size in sizes for form in FORMS]
        scores(file, before, made, [case for case in cases if all(each in case.name for each in asked.named)])


def scores(file: Path, before: dict[str, Any], made: dict[str, Any], cases: list[Case]) -> Any:
    """Sinks and caps; the results with theirs."""
    rows = {row["case"]: row for row in before.get("cases", [])}
    for case in cases:
        if rows.get(case.name, {}).get("commit") == made["commit"]:
            continue
        torch.manual_seed(SEED)
        rows[case.name] = row = {**measured(case), "commit": made["commit"]}
        print(case.name, told(row), flush=True)
        before = {**before, "provenance": made, "cases": list(rows.values())}
        write_atomically(file, json.dumps(before, indent=1) + "\n")
    return before


def alone(part: str, file: Path, before: Any, made: dict[str, Any], cases: Any, measure: Callable[..., Any]) -> Any:
    """A part under a name of its own in the results; the results with it."""
    rows = []
    for case in cases:
        torch.manual_seed(SEED)
        rows.append({**measure(case, timed), "commit": made["commit"]})
        print(rows[-1]["case"], told(rows[-1]), flush=True)
        before = {**before, part: {"provenance": made, "cases": rows}}
        write_atomically(file, json.dumps(before, indent=1) + "\n")
    return before


def timed(calls: dict[str, Callable[[], Tensor]]) -> dict[str, list[float]]:
    return samples_in_turns({name: captured(call) for name, call in calls.items()}, repeats=REPEATS, seed=SEED)


def told(row: dict[str, Any]) -> dict[str, str]:
    return {
        name: f"{each['median_ms']:.4f}" if "median_ms" in each else each.get("refused", "")
        for name, each in row["contenders"].items()
    }


if __name__ == "__main__":
    main()
