"""Measured choice among the best few planned tiles, stored on disk for each device and version of the kernels.

The plan's first candidate runs, and nothing is measured, unless ``ATTENIO_TUNE=1`` asks for it: compiling the others
takes half a minute, which a first call should not. Then the first call of its kind that is large enough to be worth it
runs every candidate a few times. The winner is remembered in this process and in a file, so that the next process that
asks does not measure again. Nothing is measured while a CUDA graph is captured, nor away from a GPU.
"""

import hashlib
import json
import os
import re
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch
import triton
from triton.runtime.errors import OutOfResources

from attenio.files import cache_folder, write_atomically

Candidate = TypeVar("Candidate")
# A kernel shorter than about a millisecond on a large GPU: compiling candidates would cost more than it saves.
_WORTH_FLOPS = 2**36
_RUNS = 5
# What asks for tiles that are measured.
ASKS = "ATTENIO_TUNE"
_chosen: dict[str, str] = {}
_loaded: set[torch.device] = set()


def tuned(
    name: str, candidates: Sequence[Candidate], run: Callable[[Candidate], None], device: torch.device, flops: int
) -> None:
    """Run the best candidate for calls of this kind; candidates that an SM has no room for are passed over."""
    worth_it = asked() and device.type == "cuda" and flops >= _WORTH_FLOPS
    if worth_it and not torch.cuda.is_current_stream_capturing() and recalled(name, device) is None:
        remember(name, _label(_fastest(candidates, run)), device)
    ordered = preferred(name, candidates, device)
    for each in ordered[:-1]:
        try:
            return run(each)
        except OutOfResources:
            continue
    return run(ordered[-1])


def asked() -> bool:
    """Whether tiles are to be measured, and those that were are to be used."""
    return os.environ.get(ASKS) == "1"


def recalled(name: str, device: torch.device) -> str | None:
    """What was measured under this name on this device, by this process or an earlier one."""
    _load(device)
    return _chosen.get(name)


def remember(name: str, value: str, device: torch.device) -> None:
    """Store what was measured, for this process and on disk."""
    _chosen[name] = value
    _save(_file(device))


def preferred(name: str, candidates: Sequence[Candidate], device: torch.device) -> Sequence[Candidate]:
    """Candidates in the order in which they are tried: where it is asked for the one measured best, then as planned."""
    wanted = recalled(name, device) if asked() else None
    return candidates if wanted is None else sorted(candidates, key=lambda each: _label(each) != wanted)


def beginning_with(chosen: Candidate, others: Sequence[Candidate]) -> Sequence[Candidate]:
    """What was chosen, and then the others."""
    return chosen, *(each for each in others if each is not chosen)


def _label(candidate: Candidate) -> str:
    """Tiles as text, of a choice or by themselves."""
    return str(getattr(candidate, "kernel", candidate))


def _fastest(candidates: Sequence[Candidate], run: Callable[[Candidate], None]) -> Candidate:
    """The candidate with the least median; all take turns, so that a GPU that is waking up slows all of them alike."""
    fitting = []
    for index, each in enumerate(candidates):
        try:
            run(each)
            fitting.append(index)
        except OutOfResources:
            continue
    if len(fitting) < 2:
        return candidates[fitting[0] if fitting else -1]
    samples: dict[int, list[float]] = {index: [] for index in fitting}
    for _ in range(_RUNS):
        for index in fitting:
            samples[index].append(_milliseconds(lambda chosen=candidates[index]: run(chosen)))  # type: ignore[misc]
    return candidates[min(fitting, key=lambda index: (statistics.median(samples[index]), index))]


def _milliseconds(call: Callable[[], None]) -> float:
    """Of a call that finds the GPU busy: what the host does before a launch is not counted."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    before.record()
    call()
    call()
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) / 2


def _file(device: torch.device) -> Path:
    from attenio import __version__

    gpu = re.sub(r"[^A-Za-z0-9]+", "-", torch.cuda.get_device_name(device)).strip("-").lower()
    return cache_folder() / f"tiles-{gpu}-triton-{triton.__version__}-attenio-{__version__}-{_kernels()}.json"


@cache
def _kernels() -> str:
    """A name for the text of all kernels: what was measured for one does not hold for another."""
    read = hashlib.sha256()
    texts = (file for kind in ("py", "cu") for file in Path(__file__).parents[1].glob(f"*/**/*.{kind}"))
    for file in sorted(texts):
        read.update(file.read_bytes())
    return read.hexdigest()[:12]


def _load(device: torch.device) -> None:
    if device in _loaded or device.type != "cuda":
        return
    _loaded.add(device)
    try:
        _chosen.update(json.loads(_file(device).read_text()))
    except (OSError, ValueError):  # not there, or not ours: measured again
        return


def _save(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(_chosen, indent=1, sort_keys=True) + "\n")
    except OSError:  # a home that cannot be written to: the choice lives as long as the process
        return
