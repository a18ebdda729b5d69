"""Named machines, and machines described in YAML files of the user's own.

>>> machine_named("attenio-512k").levels[0].capacity_bytes
524288
"""

from dataclasses import fields, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.files import checked_path
from attenio.granularity import Granularity
from attenio.machine import Machine, MemoryLevel
from attenio.names import did_you_mean, show_value
from attenio.parts import AcceleratorParts, HbmParts, Link, LinkShape, SiliconParts

# YAML loads when a file is read: a machine that is given as a value needs none.
if TYPE_CHECKING:
    from attenio.catalogue.yaml_fields import Section

_MACHINE_KEYS = (
    "name",
    "levels",
    "flops_per_s",
    "exponentials_per_s",
    "description",
    "source",
    "accelerator",
    "granularity",
    "compute_capability",
    "links",
)
_LINK_KEYS = ("name", "devices", "bandwidth_bytes_per_s", "latency_s", "shape")
_LEVEL_KEYS = ("name", "capacity_bytes", "bandwidth_bytes_per_s", "units")
_PART_KEYS = ("pe_lines", "macs_per_line", "exp_modules", "kv_buffer_bytes", "clock_hz", "hbm", "silicon")
# Parts whose values are whole numbers.
_Parts = TypeVar("_Parts", HbmParts, SiliconParts)


@lru_cache(maxsize=1)
def machines() -> tuple[Machine, ...]:
    """Every machine of the catalogue, in its order."""
    from attenio.catalogue.yaml_fields import sections_in

    text = resources.files("attenio.catalogue").joinpath("machines.yaml").read_text(encoding="utf-8")
    return tuple(_machine(section, section.text("name")) for section in sections_in(text, "machines.yaml"))


def as_machine(value: Machine | str) -> Machine:
    """A machine as it is, or the one that a name stands for: what every function that takes a machine asks first.

    >>> as_machine("h100") is as_machine(as_machine("h100"))
    True
    """
    return value if isinstance(value, Machine) else machine_named(value)


def machine_named(name: str) -> Machine:
    """The machine with this name, in any case, or the one in this YAML file; ``host`` is this computer, measured once.

    ``boards.yaml#small`` is the machine ``small`` of a file that lists several.
    """
    if not isinstance(name, str | Path):
        raise InvalidInput(
            f"machine is {show_value(name)}; give a Machine, or a name such as 'h100' ('attenio machines' lists all)"
        )
    name = str(name)
    if name.lower() == "host":
        from attenio.catalogue.host import host

        return host()
    path, _, wanted = name.partition("#")
    if Path(path).suffix.lower() in (".yaml", ".yml") or "/" in path or "\\" in path:
        return _machine_in_file(path, wanted)
    for machine in machines():
        if machine.name == name.lower():
            return machine
    if Path(path).suffix.lower() == ".json":
        raise InvalidInput(f"machine file {path!r} ends in .json; JSON is YAML too, so rename it to end in .yaml")
    hint = did_you_mean(name, [machine.name for machine in machines()])
    raise InvalidInput(
        f"unknown machine {name!r}; {hint}'attenio machines' lists all, and a path ending in .yaml reads a file"
    )


def machines_in_file(path: str | Path) -> tuple[Machine, ...]:
    """The machines that a YAML file describes; a machine without a name is called after the file."""
    from attenio.catalogue.yaml_fields import sections_in

    file = checked_path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"machine file {str(path)!r} does not exist; check the path") from None
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"machine file {str(path)!r} is not UTF-8 text (byte {problem.start}); save it so") from None
    except OSError as problem:
        raise InvalidInput(f"machine file {str(path)!r} cannot be read: {problem.strerror}; give a YAML file") from None
    described = [(section, _machine(section, file.stem)) for section in sections_in(text, str(path))]
    first: dict[str, int] = {}
    for section, machine in described:
        if machine.name in first:
            raise section.error(
                f"machine {machine.name} is described again (first on line {first[machine.name]}); rename one", "name"
            )
        first[machine.name] = section.key_lines.get("name", section.line)
    return tuple(machine for _, machine in described)


def _machine_in_file(path: str, wanted: str) -> Machine:
    machines = machines_in_file(path)
    names = ", ".join(machine.name for machine in machines)
    if not wanted:
        if len(machines) == 1:
            return machines[0]
        raise InvalidInput(
            f"{path} describes {len(machines)} machines ({names}); choose one, as in {path}#{machines[0].name}"
        )
    for machine in machines:
        if machine.name.lower() == wanted.lower():
            return machine
    raise InvalidInput(f"{path} describes no machine {wanted!r}; it has {names}")


def _machine(section: "Section", default_name: str) -> Machine:
    section.only(_MACHINE_KEYS)
    section.required("levels")
    name = section.text("name", default_name)
    described = section.sections("levels")
    levels = [_level(level) for level in described]
    if len(levels) < 2:
        raise section.error(f"levels lists {len(levels)}; give at least two, fastest first", "levels")
    for source, level in zip(described, levels, strict=True):
        if sum(other.name == level.name for other in levels) > 1:
            raise source.error(f"two levels are called {level.name}; give each its own name", "name")
    for source, level in zip(described[:-1], levels[:-1], strict=True):
        if level.capacity_bytes is None:
            raise source.error(f"level {level.name} has no capacity_bytes; only the slowest may lack one")
    flops_per_s, exponentials_per_s = _flops(section), section.rate("exponentials_per_s", "/s")
    granularity, capability = _granularity(section), _capability(section)
    links = tuple(_link(each) for each in section.sections("links")) if "links" in section else ()
    # A machine of the first levels alone fails exactly where the next level breaks the order: that is the line to name.
    for count in range(2, len(levels) + 1):
        try:
            machine = Machine(
                name=name,
                levels=tuple(levels[:count]),
                flops_per_s=flops_per_s,
                exponentials_per_s=exponentials_per_s,
                description=section.text("description"),
                source=section.text("source"),
                granularity=granularity,
                compute_capability=capability,
                links=links,
            )
        except InvalidInput as problem:
            raise described[count - 1].error(str(problem)) from None
    if "accelerator" not in section:
        return machine
    parts = _parts(section.section("accelerator"))
    try:
        return replace(machine, accelerator=parts)
    except InvalidInput as problem:
        raise section.error(str(problem), "accelerator") from None


def _parts(section: "Section") -> AcceleratorParts:
    section.only(_PART_KEYS)
    for key in ("pe_lines", "macs_per_line", "exp_modules", "kv_buffer_bytes"):
        section.required(key)
    counts = {key: section.count(key, most=2**24) for key in ("pe_lines", "macs_per_line", "exp_modules")}
    clock = section.rate("clock_hz", "Hz")
    if clock is not None and clock < 1:
        raise section.error(f"clock_hz is {clock:g}; it must be at least 1", "clock_hz")
    hbm = _parts_in(section.section("hbm"), HbmParts) if "hbm" in section else HbmParts()
    silicon = SiliconParts()
    if "silicon" in section:
        silicon = _parts_in(section.section("silicon"), SiliconParts)
    kv_buffer_bytes = section.size("kv_buffer_bytes")
    try:
        return AcceleratorParts(
            **counts,
            kv_buffer_bytes=kv_buffer_bytes,
            clock_hz=10**9 if clock is None else round(clock),
            hbm=hbm,
            silicon=silicon,
        )
    except InvalidInput as problem:
        raise _at_its_line(problem, section) from None


def _parts_in(section: "Section", parts: type[_Parts]) -> _Parts:
    """Parts of an accelerator whose values are whole numbers."""
    section.only(tuple(field.name for field in fields(parts)))
    given = {key: section.whole(key) for key in section}
    try:
        return parts(**given)
    except InvalidInput as problem:
        raise _at_its_line(problem, section) from None


def _at_its_line(problem: InvalidInput, section: "Section") -> InvalidInput:
    """A problem that begins with a key, with the line of that key."""
    return section.error(str(problem), next((key for key in section if str(problem).startswith(key)), None))


def _link(section: "Section") -> Link:
    section.only(_LINK_KEYS)
    for key in ("name", "devices", "bandwidth_bytes_per_s"):
        section.required(key)
    name, devices, latency = section.text("name"), section.count("devices", most=2**17), section.text("latency_s", "0")
    rate, shape = section.rate("bandwidth_bytes_per_s", "B/s"), section.text("shape", LinkShape.SWITCH.value)
    assert rate is not None
    try:
        seconds = float(latency)
    except ValueError:
        raise section.error(f"latency_s is {latency!r}; give seconds, such as 2e-6", "latency_s") from None
    try:
        return Link(
            name=name,
            devices=devices,
            bandwidth_bytes_per_s=rate,
            latency_s=seconds,
            shape=LinkShape.named(shape),
        )
    except InvalidInput as problem:
        raise section.error(str(problem)) from None


def _level(section: "Section") -> MemoryLevel:
    section.only(_LEVEL_KEYS)
    section.required("name")
    return MemoryLevel(
        name=section.text("name"),
        capacity_bytes=section.size("capacity_bytes") if "capacity_bytes" in section else None,
        bandwidth_bytes_per_s=section.rate("bandwidth_bytes_per_s", "B/s"),
        units=section.count("units", most=2**20) if "units" in section else 1,
    )


def _granularity(section: "Section") -> dict[ElementType, Granularity]:
    if "granularity" not in section:
        return {}
    granularities, by_type = {}, section.section("granularity")
    by_type.only(tuple(element.value for element in ElementType))
    for key in by_type:
        units = by_type.section(key)
        units.only(("rows", "keys"))
        sizes = {name: units.count(name, most=2**16) for name in units}
        granularities[ElementType.named(key)] = Granularity(**sizes)
    return granularities


def _capability(section: "Section") -> tuple[int, int] | None:
    given = section.text("compute_capability")
    major, _, minor = given.partition(".")
    if given and not (major.isdecimal() and minor.isdecimal()):
        raise section.error(f"compute_capability is {given}; write a GPU's as 9.0", "compute_capability")
    return (int(major), int(minor)) if given else None


def _flops(section: "Section") -> dict[ElementType, float]:
    if "flops_per_s" not in section:
        return {}
    rates = section.section("flops_per_s")
    rates.only(tuple(element.value for element in ElementType))
    return {ElementType.named(key): rate for key in rates if (rate := rates.rate(key, "FLOP/s")) is not None}
