"""Calls for a profiler to look at: ``python -m attenio.measurement.counted_calls JSON``.

A call runs twice before (kernels are compiled and tiles chosen then), and the cache is filled with something else, by
reading: what was written would be written back while the call is counted.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

import torch

from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.call import call_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.choice import backend_of
from attenio.kernels.replay import set_stand_ins
from attenio.measurement.contenders import contenders, random_inputs
from attenio.measurement.exact import Inputs, window_of
from attenio.measurement.ncu import range_of_call
from attenio.measurement.result import OURS, OURS_REPEATING
from attenio.workload import Direction, Workload

# Marks the lines for the parent among whatever else is printed.
SAID = "attenio-call:"
_WARM = 2


def main(asked: str) -> None:
    """Run what is asked, one call after the other, and print what is known of each."""
    set_stand_ins(False)
    filler = torch.randn(torch.cuda.get_device_properties(0).L2_cache_size, device="cuda")
    for number, each in enumerate(json.loads(asked)):
        try:
            told = _call(number, Workload(**each["workload"]), each["contender"], filler)
        except Exception as problem:  # as in a bench: the others are counted all the same
            told = {"refused": (str(problem).strip().splitlines() or ["refused"])[0][:120]}
        print(SAID, json.dumps({"number": number, **told}), flush=True)
        torch.cuda.empty_cache()


def _call(number: int, workload: Workload, name: str, filler: torch.Tensor) -> dict[str, Any]:
    """One call in a range of its own."""
    torch.manual_seed(0)
    inputs = random_inputs(workload, "cuda")
    repeats = name == OURS_REPEATING
    known = contenders(workload, "cuda", flex=name == "flex", jax=name.startswith("jax"), repeating=repeats)
    if name not in known:
        raise InvalidInput(f"no contender is called {name!r}; there are {', '.join(known)}, flex and jax mosaic")
    contender = known[name]
    call = (contender.backward if workload.direction is Direction.BACKWARD else contender.forward)(inputs)
    for _ in range(_WARM):
        contender.tensors(call())
    filler.sum()
    torch.cuda.synchronize()
    counted = torch.cuda.nvtx.range_start(range_of_call(number))
    torch.cuda.profiler.start()
    returned = call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    torch.cuda.nvtx.range_end(counted)
    contender.tensors(returned)
    return {
        "cache_bytes": filler.numel(),
        "grids": _grids(workload, inputs, repeats) if name == OURS or repeats else None,
    }


def _grids(workload: Workload, inputs: Inputs, repeats: bool) -> list[dict[str, Any]] | None:
    """What ``attention()`` launches, in order, as grids whose traffic below the L2 can be predicted, if it tells."""
    query, key, value = inputs
    grouped = query.shape[1] != key.shape[1]
    asked = CallArguments(window=window_of(workload), scale=workload.scale, enable_gqa=grouped)
    call = call_of(query, key, value, asked)
    problem = KernelProblem.of_heads(call.query, call.key, call.value, call.visible, call.scale, deterministic=repeats)
    told = getattr(backend_of(query), "grids", None)
    grids = None if told is None else told(problem, backward=workload.direction is Direction.BACKWARD)
    return None if grids is None else [asdict(grid) for grid in grids]


if __name__ == "__main__":
    main(sys.argv[1])
