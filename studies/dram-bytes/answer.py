"""answer.md of this study, from its results.

python studies/dram-bytes/answer.py
"""

import json
from pathlib import Path
from typing import Any

from attenio.measurement.result import OURS, OURS_REPEATING
from attenio.planning.shared_cache import Grid, traffic

HERE = Path(__file__).parent

_TEXT = """# How many bytes does attention move between a GPU's L2 and its memory?

**Prediction** (before the run). Programs that run together read keys and values once for all of them, so a forward pass
sweeps over them once for every wave of programs; what the L2 still holds when the next wave begins is not read again.
The L2 has two partitions that hold the same, so {half:.0f} MB of it count. With that and the order of tiles the bytes
follow, with nothing fitted (`attenio.planning.shared_cache`): within 10 percent for n = 16K, 64K and 256K. Where the
keys and values of a head do not fit, waves that walk in turns save what fits, once a wave: below cuDNN at 256K.

**Measured** (`results.json`, made by `run.py`): {device}, Nsight Compute, bf16, random inputs that are not in the L2 at
first; MB = 10^6 bytes, read and written. "Once" is every input and output once, "least" the largest bound that holds
for every execution with {cache:.0f} MB of fast memory. What is dirty in the L2 at the end is not counted, so
that a short call may be below both. Commits: {commits}.

| case | once | least | ours | predicted | off by | cuDNN | FlashAttention-2 |
|---|---:|---:|---:|---:|---:|---:|---:|
{rows}
{repeating}{portable}
**Peers, predicted the same way.** cuDNN keeps 128 rows of a forward pass on each SM, FlashAttention-2 twice 128; both
walk one way.

| case | cuDNN | predicted | FlashAttention-2 | predicted |
|---|---:|---:|---:|---:|
{peers}

**What it means.** Over all tables predictions of our forward passes are off by {worst_forward:.1%} at most, and those
of our backward passes by {worst_backward:.1%}. At 256K keys, one head, ours moves {long:.2f} GB,
cuDNN {long_cudnn:.2f} GB, FlashAttention-2 {long_flash:.2f} GB. {resident}{gradients}
"""
_REPEATING = """
**Deterministic gradients** (`deterministic=True`). dQ is accumulated in fixed point, for which keys and values are read
once before; heads wider than 128 spill dS, as they always do, two bytes for each score, once each way.

| case | ours | predicted | off by |
|---|---:|---:|---:|
{rows}
"""
_GRADIENTS = (
    " The backward pass of {named} moves {ours:,.0f} MB, {ratio:.2f} times fewer than cuDNN ({cudnn:,.0f} MB): it is"
    " launched in groups of heads whose dQ accumulators stay in the L2. Causal heads of that width and heads"
    " 256 wide move more than cuDNN. Kernels are counted one at a time, and predicted so;"
    " but launches of such heads overlap in two streams, and move more then: 455 MB by a graph, where cuDNN moves 609"
    " (`studies/hopper/tuning.json`, run 17)."
)
_PORTABLE = """
**The portable kernels on the same GPU** (Triton, `portable` in `results.json`), counted before there were others,
at commit {commit}:

| case | ours | predicted | off by | cuDNN | FlashAttention-2 |
|---|---:|---:|---:|---:|---:|
{rows}
"""
_RESIDENT = (
    "Bytes follow the rows that are resident at once and the order of the walk: more rows on an SM move less."
    " Drift between programs is left out of the model; it may be what FlashAttention-2 adds at 256K."
)


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results but those of overlapping launches."""
    cases, portable = results["cases"], results["portable"]
    cache = cases[0]["cache_bytes"]
    counted = [
        (case["shape"]["direction"], abs(off))
        for case in (*cases, *portable["cases"])
        for name in (OURS, OURS_REPEATING)
        if (off := _off(case, name)) is not None
    ]
    worst = {way: max(off for each, off in counted if each == way) for way in ("forward", "backward")}
    longest = next(case for case in cases if _is_longest(case))
    ours, cudnn, flash = (_moved(longest, name) or 0.0 for name in ("attenio", "sdpa cudnn", "sdpa flash"))
    return _TEXT.format(
        half=cache / 2e6,
        cache=cache / 1e6,
        device=results["provenance"]["device_name"],
        rows="\n".join(_row(case) for case in cases),
        repeating=_repeating([case for case in cases if _off(case, OURS_REPEATING) is not None]),
        portable=_portable([case for case in portable["cases"] if case not in cases], portable["provenance"]["commit"]),
        peers="\n".join(_peer_row(case, cache) for case in cases if _peer_grid(case, 132) is not None),
        worst_forward=worst["forward"],
        worst_backward=worst["backward"],
        long=ours / 1e3,
        long_cudnn=cudnn / 1e3,
        long_flash=flash / 1e3,
        resident=_RESIDENT,
        gradients=_gradients(cases),
        commits="; ".join(
            f"{direction} passes at {commit}"
            for direction, commit in dict.fromkeys((case["shape"]["direction"], case["commit"]) for case in cases)
        ),
    )


def _repeating(cases: list[dict[str, Any]]) -> str:
    if not cases:
        return ""
    rows = []
    for case in cases:
        sizes = map(_shown, (_moved(case, OURS_REPEATING), _predicted(case, OURS_REPEATING)))
        rows.append(f"| {' | '.join([_named(case), *sizes, f'{_off(case, OURS_REPEATING):+.1%}'])} |")
    return _REPEATING.format(rows="\n".join(rows))


def _gradients(cases: list[dict[str, Any]]) -> str:
    """The first backward pass that both were counted in."""
    for case in cases:
        ours, cudnn = _moved(case, OURS), _moved(case, "sdpa cudnn")
        if case["shape"]["direction"] == "backward" and ours and cudnn:
            named = _named(case).removeprefix("backward, ")
            return _GRADIENTS.format(named=named, ours=ours, cudnn=cudnn, ratio=cudnn / ours)
    return ""


def _portable(cases: list[dict[str, Any]], commit: str) -> str:
    if not cases:
        return ""
    rows = []
    for case in cases:
        off = _off(case)
        shown = "-" if off is None else f"{off:+.1%}"
        peers = (_shown(_moved(case, name)) for name in ("sdpa cudnn", "sdpa flash"))
        cells = [_named(case), _shown(_moved(case, OURS)), _shown(_predicted(case)), shown, *peers]
        rows.append(f"| {' | '.join(cells)} |")
    return _PORTABLE.format(rows="\n".join(rows), commit=commit)


def _contender(case: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next((each for each in case["contenders"] if each["name"] == name), {})
    return found


def _moved(case: dict[str, Any], name: str) -> float | None:
    moved = _contender(case, name).get("moved_bytes")
    return None if moved is None else moved / 1e6


def _predicted(case: dict[str, Any], name: str = OURS) -> float | None:
    predicted = _contender(case, name).get("predicted")
    return None if predicted is None else predicted["moved_bytes"] / 1e6


def _off(case: dict[str, Any], name: str = OURS) -> float | None:
    moved, predicted = _moved(case, name), _predicted(case, name)
    return None if moved is None or predicted is None else predicted / moved - 1


def _is_longest(case: dict[str, Any]) -> bool:
    return case["shape"] == {"heads": 1, "n": 2**18, "d": 128, "mask": "dense", "direction": "forward"}


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _named(case: dict[str, Any]) -> str:
    shape = case["shape"]
    mask = "" if shape["mask"] == "dense" else f", {shape['mask']}"
    return f"{shape['direction']}, {shape['heads']} x {shape['n'] // 1024}K, d={shape['d']}{mask}"


def _row(case: dict[str, Any]) -> str:
    off = _off(case)
    numbers = (
        case["compulsory_bytes"] / 1e6,
        case["bound"]["bytes"] / 1e6,
        _moved(case, OURS),
        _predicted(case),
    )
    peers = (_shown(_moved(case, name)) for name in ("sdpa cudnn", "sdpa flash"))
    difference = "-" if off is None else f"{off:+.1%}"
    return f"| {' | '.join([_named(case), *map(_shown, numbers), difference, *peers])} |"


def _peer_grid(case: dict[str, Any], resident: int) -> Grid | None:
    shape = case["shape"]
    if shape["direction"] != "forward" or shape["mask"] != "dense" or shape["d"] != 128:
        return None
    row = 2 * shape["d"]
    return Grid(
        units=shape["heads"], rows=shape["n"], passing=shape["n"], tile=128, resident=resident,
        read_bytes=row, written_bytes=row + 4, passing_bytes=2 * row,
    )  # fmt: skip


def _peer_row(case: dict[str, Any], cache: int) -> str:
    cells = [_named(case)]
    for name, resident in (("sdpa cudnn", 132), ("sdpa flash", 264)):
        grid = _peer_grid(case, resident)
        assert grid is not None
        cells += [_shown(_moved(case, name)), _shown(traffic(grid, cache_bytes=cache).moved_bytes / 1e6)]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    text = answer(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
    (HERE / "answer.md").write_text(text, encoding="utf-8")
