"""``profile()``: DRAM bytes that a GPU counted, beside those predicted and the fewest that are possible."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attenio.bounds import LowerBound
from attenio.bounds.attention import bounds_for, largest_ordinary
from attenio.errors import InvalidInput
from attenio.measurement.counted_calls import SAID
from attenio.measurement.ncu import Counters, counters_in, ncu_command, range_of_call
from attenio.measurement.result import OURS
from attenio.plain_values import plain_fields
from attenio.planning.shared_cache import Traffic, kernel_of, traffic
from attenio.workload import Direction, Workload

CONTENDERS = (OURS, "sdpa cudnn", "sdpa flash")
_TIMEOUT_S = 600


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """What one contender moved, launch by launch, or why it could not be counted."""

    name: str
    launches: tuple[Counters, ...] = ()
    predicted: Traffic | None = None
    refused: str | None = None

    @property
    def moved_bytes(self) -> int | None:
        """All launches together, both ways."""
        return sum(each.moved_bytes for each in self.launches) if self.launches else None

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers."""
        predicted = (
            None if self.predicted is None else {**self.predicted._asdict(), "moved_bytes": self.predicted.moved_bytes}
        )
        return {
            "name": self.name,
            "moved_bytes": self.moved_bytes,
            "predicted": predicted,
            "refused": self.refused,
            "launches": [{**asdict(each), "moved_bytes": each.moved_bytes} for each in self.launches],
        }


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Contenders for one workload on one GPU, beside what every algorithm has to move."""

    workload: Workload
    cache_bytes: int
    bound: LowerBound
    contenders: tuple[Profiled, ...]

    @property
    def bound_bytes(self) -> int:
        """The fewest bytes that an execution with ordinary products and a cache of this size moves."""
        return self.bound.words * self.workload.dtype.bytes

    @property
    def compulsory_bytes(self) -> int:
        """Inputs and outputs, each once."""
        return self.workload.compulsory_words * self.workload.dtype.bytes

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers."""
        return {
            "workload": str(self.workload),
            **plain_fields(self, "cache_bytes", "compulsory_bytes"),
            "bound": {"bytes": self.bound_bytes, **plain_fields(self.bound, "theorem", "strength", "covers")},
            "contenders": [each.to_json() for each in self.contenders],
        }


def profile(workload: Workload, *, names: Sequence[str] = CONTENDERS) -> Profile:
    """Count every contender; what one cannot compute is listed with what it said."""
    return profiles([workload], names=names)[0]


def profiles(workloads: Sequence[Workload], *, names: Sequence[str] = CONTENDERS) -> list[Profile]:
    """Count every contender on every workload, all in one process."""
    if any(workload.direction is Direction.TRAINING for workload in workloads):
        raise InvalidInput("profile counts one pass at a time; ask for --direction forward or --direction backward")
    asked = [(workload, name) for workload in workloads for name in names]
    told, launches, last_words = _counted(asked)
    sizes = [each["cache_bytes"] for each in told.values() if "cache_bytes" in each]
    if not sizes:
        refused = [each["refused"] for each in told.values()]
        raise InvalidInput(f"nothing could be counted: {(refused or [last_words])[0]}")
    profiled = [
        _profiled(name, told.get(number, {"refused": last_words}), launches.get(range_of_call(number), ()))
        for number, (_, name) in enumerate(asked)
    ]
    return [
        Profile(
            workload=workload,
            cache_bytes=sizes[0],
            bound=largest_ordinary(bounds_for(workload, sizes[0] // workload.dtype.bytes)),
            contenders=tuple(profiled[number * len(names) : (number + 1) * len(names)]),
        )
        for number, workload in enumerate(workloads)
    ]


def _profiled(name: str, told: dict[str, Any], launches: Sequence[Counters]) -> Profiled:
    if "refused" in told or not launches:
        return Profiled(name=name, refused=told.get("refused", "no kernel was counted"))
    predicted = None
    if told["grids"] is not None:
        predicted = traffic(*map(kernel_of, told["grids"]), cache_bytes=told["cache_bytes"])
    return Profiled(name=name, launches=tuple(launches), predicted=predicted)


def _counted(asked: Sequence[tuple[Workload, str]]) -> tuple[dict[int, dict[str, Any]], dict[str, list[Counters]], str]:
    """What a process under Nsight Compute told of each call, launches by their ranges, and its last words."""
    calls = json.dumps([{"workload": _fields(workload), "contender": name} for workload, name in asked])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        command = ncu_command([sys.executable, "-m", "attenio.measurement.counted_calls", calls], log)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, shell=False)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    by_range: dict[str, list[Counters]] = {}
    for launch in counters_in(text):
        by_range.setdefault(launch.range, []).append(launch)
    told = [json.loads(line.removeprefix(SAID)) for line in done.stdout.splitlines() if line.startswith(SAID)]
    lines = done.stderr.strip().splitlines() or text.strip().splitlines() or [f"ended with status {done.returncode}"]
    return {each.pop("number"): each for each in told}, by_range, lines[-1][:200]


def _fields(workload: Workload) -> dict[str, Any]:
    """A workload as text and numbers, as its constructor takes them."""
    numbers = ("queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch", "scale")
    return {**plain_fields(workload, *numbers, "dtype", "direction", "values_in_keys"), "mask": str(workload.mask)}
