"""Many devices: the options that describe them, said once for every command."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attenio.cli.cache import Cache
from attenio.cli.options import option_field, taking
from attenio.cli.question import DEFAULT_MACHINE, Question
from attenio.errors import InvalidInput
from attenio.quantities import parse_bytes, parse_count, show_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from attenio.cluster.grid import Grid
    from attenio.cluster.plan import Cluster
    from attenio.elements import ElementType
    from attenio.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The options as typed."""

    devices: str | None = option_field("Spread it over this many devices.", "COUNT", panel="Devices")
    device_memory: str | None = option_field("What one device holds, such as 80GB.", "SIZE", panel="Devices")
    topology: str | None = option_field(
        "Links between devices: dgx-h100:8x8, tpu-torus:4x4x4, ethernet, or a machine file with links.",
        "NAME|PATH",
        panel="Devices",
    )
    grid: str | None = option_field(
        "Only this grid of head groups x rows of queries x columns of keys, such as 8x4x2.", "HxAxB", panel="Devices"
    )

    @property
    def are_asked(self) -> bool:
        """Whether many devices are asked about."""
        return any(each is not None for each in (self.devices, self.device_memory, self.topology, self.grid))

    def on_topology(self, question: Question) -> Question:
        """The question about the machine that the topology joins, where it names none."""
        return replace(question, machine=self._implied_machine(question) or question.machine)

    def notes(
        self, question: Question, machines: "Iterable[Machine]", dtypes: "Iterable[ElementType]"
    ) -> tuple[str, ...]:
        """Which machine a topology implies where none is named, and whose arithmetic no time has in it."""
        if self.topology is None:
            return ()
        found = []
        if question.machine is None and question.fast_bytes is None:
            implied = self._implied_machine(question)
            why = f"{DEFAULT_MACHINE}, since {self.topology} says none" if implied is None else None
            found.append(f"The machine is {why or f'{implied}, which {self.topology} joins'}; --machine chooses.")
        unknown = ((machine, dtype) for machine in machines for dtype in dtypes if dtype not in machine.flops_per_s)
        found += [
            f"{machine.name} has no rate for {dtype.value}: times are of the exchange alone, without arithmetic."
            for machine, dtype in unknown
        ]
        return tuple(found)

    def _implied_machine(self, question: Question) -> str | None:
        from attenio.cluster.topology import machine_joined_by

        if self.topology is None or question.machine is not None or question.fast_bytes is not None:
            return None
        return machine_joined_by(self.topology)

    @property
    def chosen_grid(self) -> "Grid | None":
        """The grid asked about, if one is."""
        from attenio.cluster.grid import Grid

        if self.grid is None:
            return None
        sides = self.grid.lower().split("x")
        if len(sides) != 3:
            raise InvalidInput(f"grid is {self.grid!r}; write head groups x rows x columns, such as 8x4x2")
        heads, queries, keys = (parse_count(side, "a side of the grid") for side in sides)
        return Grid(heads=heads, queries=queries, keys=keys)

    def cluster(self, machine: "Machine", devices: int | None = None) -> "Cluster":
        """The devices asked about; arithmetic is that of the machine."""
        from attenio.cluster.grid import checked_devices
        from attenio.cluster.plan import Cluster
        from attenio.cluster.topology import topology_named

        count = devices if devices is not None or self.devices is None else parse_count(self.devices, "devices")
        grid = self.chosen_grid
        if grid is not None and count is not None and grid.devices != count:
            raise InvalidInput(
                f"a grid of {grid} has {show_count(grid.devices, 'device')} and --devices says {count:,}; make"
                " them agree or leave"
                " one out"
            )
        count = grid.devices if count is None and grid is not None else count
        if count is not None:
            checked_devices(count)
        joined = None if self.topology is None else topology_named(self.topology, count)
        if count is None and joined is None:
            raise InvalidInput("--device-memory is of many devices; add --devices 8 or a topology that says how many")
        memory = None if self.device_memory is None else parse_bytes(self.device_memory, "device-memory")
        if memory is not None and memory < 1:
            raise InvalidInput(f"device-memory is {memory:,}; it must be at least 1 byte, such as 80GB")
        if count is None:
            assert joined is not None
            count = joined.devices
        return Cluster(devices=count, memory_bytes=memory, topology=joined, machine=machine)


asking_devices = taking(Question, Cache, Devices)


def idle_notes(cluster: "Cluster") -> tuple[str, ...]:
    """Which devices of the topology are asked for no work, if any."""
    if cluster.topology is None or cluster.devices == cluster.topology.devices:
        return ()
    there = cluster.topology.devices
    return (
        f"{there - cluster.devices:,} of the {show_count(there, 'device')} of {cluster.topology.name} are left idle.",
    )
