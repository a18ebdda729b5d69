"""What the page asks about: its address has every choice, and means a workload, a machine and maybe a dataflow.

>>> State.of("n=4K&d=64&mask=causal&machine=h100").workload.keys
4096
"""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from attenio.catalogue import machine_named, model_named
from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.masks import Layout
from attenio.names import did_you_mean
from attenio.planning.plan import Dataflow
from attenio.quantities import parse_count
from attenio.workload import Workload

DEFAULTS = {"n": "128K", "d": "64", "machine": "attenio-512k"}
NAMES = (
    "model", "n", "queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch", "mask", "dtype", "direction",
    "decode", "machine", "fast", "dataflow",
)  # fmt: skip
_COUNTS = ("queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch")
_LONGEST_ADDRESS = 2000
# Sparse layouts are counted block by block, which takes too long for a slider beyond this.
_LONGEST_LAYOUT = 2**14


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that an address says."""

    workload: Workload
    machine: Machine
    dataflow: Dataflow | None
    given: dict[str, str]

    @classmethod
    def of(cls, address: str) -> "State":
        """The state of an address; InvalidInput says in a line what is wrong with it."""
        if len(address) > _LONGEST_ADDRESS:
            raise InvalidInput(f"the address has {len(address):,} characters; use at most {_LONGEST_ADDRESS:,}")
        given = dict(DEFAULTS)
        for name, value in parse_qsl(address.lstrip("?#"), keep_blank_values=True, max_num_fields=64):
            if name not in NAMES:
                raise InvalidInput(f"unknown choice {name!r}; {did_you_mean(name, NAMES)}there are {', '.join(NAMES)}")
            if value.strip():
                given[name] = value.strip()
        if "fast" in given:
            given.pop("machine", None)
        workload = _workload(given)
        if workload.is_training:
            raise InvalidInput("a training step has two plans; choose the direction forward or backward")
        if isinstance(workload.mask, Layout) and workload.keys > _LONGEST_LAYOUT:
            raise InvalidInput(f"layouts are explored up to {_LONGEST_LAYOUT:,} keys; attenio plan takes more")
        chosen = given.get("dataflow")
        return cls(
            workload=workload,
            machine=_machine(given),
            dataflow=None if chosen is None else Dataflow.named(chosen),
            given=given,
        )


def _workload(given: dict[str, str]) -> Workload:
    counts: dict[str, Any] = {name: parse_count(given[name], name) for name in _COUNTS if name in given}
    decode = given.get("decode", "") in ("1", "true", "on")
    mask = given.get("mask")
    if mask is not None and mask.lower().startswith("block-sparse"):
        raise InvalidInput("a page has no files for block-sparse masks; use a layout such as longformer:512:64")
    options: dict[str, Any] = {name: given[name] for name in ("mask", "dtype", "direction") if name in given}
    n = parse_count(given["n"], "n")
    if "model" not in given:
        if decode:
            counts |= {"queries": 1, "keys": counts.get("keys", n)}
        both = "queries" in counts and "keys" in counts
        return Workload(n=None if both else n, **counts, **options)
    counts.pop("d", None)  # a model has its own widths and heads
    widths = {name: counts.pop(name) for name in ("value_dim", "heads", "kv_heads") if name in counts}
    if widths:
        raise InvalidInput(f"model {given['model']} has its own {', '.join(widths)}; leave them out")
    base = model_named(given["model"]).workload(n=None if decode and "keys" in counts else n, decode=decode, **counts)
    return replace(base, **options)


def _machine(given: dict[str, str]) -> Machine:
    if "fast" in given:
        return Machine.with_fast_bytes(given["fast"])
    name = given.get("machine", DEFAULTS["machine"])
    if "/" in name or "\\" in name or name.lower().endswith((".yaml", ".yml")) or name.lower() == "host":
        raise InvalidInput(f"a page knows machines by name only, and {name!r} is none; give a fast memory instead")
    return machine_named(name)
