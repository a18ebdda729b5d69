"""How devices are joined: link levels from the closest to the farthest, by name or as a machine file has them.

>>> topology_named("dgx-h100:8x8").devices
64
>>> [link.name for link in topology_named("tpu-torus:4x4x4").links]
['axis 1', 'axis 2', 'axis 3']
"""

import re
from dataclasses import dataclass
from math import prod
from pathlib import Path

from attenio.cluster.grid import checked_devices
from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.names import did_you_mean
from attenio.parts import Link, LinkShape
from attenio.quantities import checked_count

_NAMES = ("dgx-h100", "tpu-torus", "ethernet")
# The machine of the catalogue that a named topology joins; it has no TPU v4, and Ethernet joins anything.
_JOINED = {"dgx-h100": "h100"}
_DGX_GPUS = 8
_KNOWN = "dgx-h100:NODESxGPUS, tpu-torus:XxYxZ, ethernet and machine files with links"
_SIZES = re.compile(r"^\d+(x\d+)*$")


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Link levels, the closest first. Either all are switches, or all are rings: the axes of a torus.

    Devices count along the closest level first. Between switches a message crosses the closest level that joins its two
    ends; in a torus it goes along one axis after the other, the shorter way round.
    """

    name: str
    links: tuple[Link, ...]
    source: str = ""

    def __post_init__(self) -> None:
        if not self.links:
            raise InvalidInput(f"topology {self.name} has no links; give at least one level of them")
        if len({link.shape for link in self.links}) > 1:
            raise InvalidInput(f"topology {self.name} mixes switches and rings; make all levels one or the other")
        checked_devices(self.devices)

    @property
    def devices(self) -> int:
        """How many devices are joined."""
        return prod(link.devices for link in self.links)

    @property
    def is_torus(self) -> bool:
        """Whether the levels are the axes of a torus."""
        return self.links[0].shape is LinkShape.RING

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Devices of one group of every level."""
        return tuple(prod(link.devices for link in self.links[: level + 1]) for level in range(len(self.links)))


def topology_named(name: str, devices: int | None = None) -> Topology:
    """The topology of this name, such as ``dgx-h100:8x8``, or of a machine file.

    Without sizes ``ethernet`` joins ``devices``, and ``dgx-h100`` as many nodes of eight as have these.

    >>> topology_named("dgx-h100", 20).name, topology_named("dgx-h100", 4).name
    ('dgx-h100:3x8', 'dgx-h100:1x4')
    """
    if _is_file(name):
        from attenio.catalogue import machine_named

        return topology_of(machine_named(name))
    kind, colon, sizes = name.strip().lower().partition(":")
    if kind not in _NAMES:
        raise InvalidInput(f"unknown topology {name!r}; {did_you_mean(kind, _NAMES)}known are {_KNOWN}")
    counts = _counts(name, sizes) if colon else ()
    if kind == "ethernet":
        if len(counts) > 1:
            raise InvalidInput(f"topology {name!r} has {len(counts)} sizes; write how many devices: ethernet:16")
        return ethernet(counts[0] if counts else _given(name, devices))
    if kind == "dgx-h100":
        if not counts and devices is not None:
            return dgx_h100(nodes=-(-checked_devices(devices) // _DGX_GPUS), gpus=min(devices, _DGX_GPUS))
        if len(counts) != 2:
            raise InvalidInput(
                f"topology {name!r} does not say nodes and GPUs of a node; write dgx-h100:8x8, or say how many devices"
            )
        return dgx_h100(nodes=counts[0], gpus=counts[1])
    if not counts:
        raise InvalidInput(f"topology {name!r} does not say its axes; write tpu-torus:4x4x4")
    return tpu_torus(counts)


def machine_joined_by(name: str) -> str | None:
    """The machine that a topology of this name joins, by its own name or its file; None where that is not said.

    >>> machine_joined_by("dgx-h100:8x8"), machine_joined_by("ethernet")
    ('h100', None)
    """
    return name if _is_file(name) else _JOINED.get(name.strip().lower().partition(":")[0])


def _is_file(name: str) -> bool:
    path = name.partition("#")[0]
    return Path(path).suffix.lower() in (".yaml", ".yml") or "/" in path


def topology_of(machine: Machine) -> Topology:
    """The links that a machine states."""
    if not machine.links:
        raise InvalidInput(f"machine {machine.name} has no links; add 'links:' to its file, or choose from {_KNOWN}")
    return Topology(name=machine.name, links=machine.links, source=machine.source)


def dgx_h100(*, nodes: int, gpus: int) -> Topology:
    """Nodes of H100 GPUs on NVLink, one 400 Gb/s adapter a GPU between nodes."""
    nvlink = Link(name="NVLink", devices=gpus, bandwidth_bytes_per_s=450e9, latency_s=2e-6)
    fabric = Link(name="InfiniBand", devices=nodes, bandwidth_bytes_per_s=50e9, latency_s=5e-6)
    return Topology(
        name=f"dgx-h100:{nodes}x{gpus}",
        links=(nvlink, fabric),
        source="NVIDIA DGX H100 datasheet: 900 GB/s NVLink a GPU, both directions together; eight 400 Gb/s adapters."
        " Estimated: latencies.",
    )


def tpu_torus(axes: tuple[int, ...]) -> Topology:
    """A torus of TPU v4 chips: a link of 50 GB/s to either neighbour along each axis."""
    links = [
        Link(name=f"axis {k + 1}", devices=size, bandwidth_bytes_per_s=50e9, latency_s=1e-6, shape=LinkShape.RING)
        for k, size in enumerate(axes)
    ]
    return Topology(
        name="tpu-torus:" + "x".join(map(str, axes)),
        links=tuple(links),
        source="Jouppi et al., TPU v4, ISCA'23: six links of 50 GB/s a chip in a 3D torus. Estimated: latency.",
    )


def ethernet(devices: int) -> Topology:
    """One switch of 100 Gb/s Ethernet."""
    link = Link(name="Ethernet", devices=devices, bandwidth_bytes_per_s=12.5e9, latency_s=20e-6)
    return Topology(name=f"ethernet:{devices}", links=(link,), source="100 Gb/s Ethernet. Estimated: latency.")


def _counts(name: str, sizes: str) -> tuple[int, ...]:
    if not _SIZES.match(sizes):
        raise InvalidInput(f"topology {name!r} has sizes {sizes!r}; write whole numbers between x, as in 8x8 or 4x4x4")
    return tuple(checked_count(f"a size of topology {name}", int(size), most=2**17) for size in sizes.split("x"))


def _given(name: str, devices: int | None) -> int:
    if devices is None:
        raise InvalidInput(f"topology {name!r} does not say how many devices it joins; add --devices 16")
    return checked_devices(devices)
