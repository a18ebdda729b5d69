"""What a GPU is: its compute capability, by which kernels are chosen, its SMs, and itself as the planner's machine."""

from functools import lru_cache

import torch

from attenio.catalogue import as_machine
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.granularity import Granularity
from attenio.machine import Machine, MemoryLevel

_HOPPER, _BF16 = (9, 0), (8, 0)
# SMs that kernels are planned for where no GPU is: in the interpreter.
_SOME = 4
# Rows and keys that one instruction of the tensor cores multiplies, by compute capability (PTX ISA: mma, wgmma).
_UNITS = {(8, 0): Granularity(rows=16, keys=16), (9, 0): Granularity(rows=64, keys=16)}


@lru_cache(maxsize=64)
def capability_of(where: torch.device | Machine) -> tuple[int, int] | None:
    """The compute capability of a device, or of a machine that need not be here; None where there is no GPU."""
    if isinstance(where, Machine):
        return where.compute_capability
    if where.type != "cuda":
        return None
    major, minor = torch.cuda.get_device_capability(where)
    return major, minor


def is_hopper(where: torch.device | Machine) -> bool:
    """Whether the Hopper kernels run there."""
    return capability_of(where) == _HOPPER


def multiplies_parts(where: torch.device | Machine) -> bool:
    """Whether tensor cores there take bf16: numbers of fp32 are then multiplied in parts, and else one by one."""
    capability = capability_of(where)
    return capability is not None and capability >= _BF16


@lru_cache(maxsize=16)
def processors_of(device: torch.device) -> int:
    """SMs of a GPU; some number where there is none."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else _SOME


def gpu_named(machine: str | Machine) -> Machine:
    """A machine whose fastest level the kernels' tiles are meant for: many of it, below them a cache that all share."""
    gpu = as_machine(machine)
    if not gpu.levels[0].name.startswith("registers"):
        raise InvalidInput(
            f"{gpu.name} is no NVIDIA GPU of the catalogue, and kernels are for these; name one such as h200, or leave"
            " machine out"
        )
    return gpu


@lru_cache(maxsize=16)
def gpu_at(device: torch.device) -> Machine:
    """The GPU that a tensor is on: registers and shared memory of an SM, and its cache."""
    properties = torch.cuda.get_device_properties(device)
    inner = properties.shared_memory_per_multiprocessor + 4 * properties.regs_per_multiprocessor
    levels = (
        MemoryLevel(name="registers+shared", capacity_bytes=inner, units=properties.multi_processor_count),
        MemoryLevel(name="L2", capacity_bytes=properties.L2_cache_size),
        MemoryLevel(name="HBM"),
    )
    whole = _UNITS.get((properties.major, properties.minor), _UNITS.get((properties.major, 0)))
    types = (ElementType.FP16, ElementType.BF16)
    return Machine(
        name=properties.name, levels=levels, granularity={} if whole is None else dict.fromkeys(types, whole),
        compute_capability=(properties.major, properties.minor),
    )  # fmt: skip
