"""What is installed: the packages of every extra, and which kernels ``attention()`` would run here."""

import platform
import re
from dataclasses import dataclass
from importlib import metadata

from attenio import __version__
from attenio.errors import how_to_install

# What each extra is for; those of developers are left out of the diagnosis.
_PURPOSES = {
    "report": "plots of the report and of benchmarks",
    "parquet": "sweeps as Parquet files",
    "pandas": "data frames (to_pandas)",
    "approximation": "certificates of safetensors files",
    "pebble": "exact solvers of the pebble game",
    "torch": "attention() on tensors",
    "cpu": "compiled decode steps and calls on CPUs",
    "triton": "kernels for NVIDIA GPUs",
    "transformers": "attn_implementation='attenio'",
    "cluster": "attention over torch.distributed",
    "dask": "sweeps on a Dask cluster",
    "rtl": "the accelerator as hardware (attenio rtl)",
}
_DEVELOPERS = ("dev", "docs", "browser")
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)[^;]*(?:;(.*))?$")


@dataclass(frozen=True, kw_only=True)
class Extra:
    """An extra, its packages with their versions (None where one is missing), and how to get what is missing."""

    name: str
    purpose: str
    packages: dict[str, str | None]

    @property
    def is_there(self) -> bool:
        """Whether nothing of it is missing."""
        return None not in self.packages.values()

    @property
    def remedy(self) -> str | None:
        """The command that installs what is missing, if anything is."""
        return None if self.is_there else how_to_install(self.name)


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Kernels of ``attention()``: whether they run here, and on what, or why they do not."""

    name: str
    runs: bool
    why: str


def core() -> dict[str, str | None]:
    """Versions of attenio, Python and what every installation has."""
    packages = [name for name, extra in _requirements() if extra is None]
    return {
        "attenio": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: version_of(name) for name in packages},
    }


def extras() -> tuple[Extra, ...]:
    """Every extra that people use, as the installed package declares it."""
    named: dict[str, dict[str, str | None]] = {}
    for package, extra in _requirements():
        if extra is not None and extra not in _DEVELOPERS:
            named.setdefault(extra, {})[package] = version_of(package)
    return tuple(
        Extra(name=name, purpose=_PURPOSES.get(name, ""), packages=packages) for name, packages in named.items()
    )


def backends() -> tuple[Backend, ...]:
    """The kernels, in the order in which they are preferred."""
    if version_of("torch") is None:
        return (Backend(name="all", runs=False, why=f"PyTorch is not installed: {how_to_install('torch')}"),)
    import torch

    gpu = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if gpu else ""
    hopper = gpu and torch.cuda.get_device_capability() == (9, 0)
    triton = version_of("triton") is not None
    no_triton = f"Triton is not installed: {how_to_install('triton')}"
    no_gpu = "PyTorch finds no GPU here"
    threads = torch.get_num_threads()
    from attenio.kernels.cpu.front import why_no_front

    why_not = why_no_front()
    compiled = "; the front of attention() is compiled" if why_not is None else f"; not compiled: {why_not}"
    if not version_of("llvmlite"):
        compiled = f"; neither decode steps nor the front of attention() are compiled: {how_to_install('cpu')}"
    return (
        Backend(
            name="hopper",
            runs=hopper and triton,
            why=f"{device}{_without_nvrtc()}{_without_compiled_replay()}"
            if hopper and triton
            else no_gpu
            if not gpu
            else no_triton
            if not triton
            else f"{device} is another GPU",
        ),
        Backend(name="triton", runs=gpu and triton, why=device if gpu and triton else no_gpu if not gpu else no_triton),
        Backend(name="cpu", runs=True, why=f"{threads} threads{compiled}"),
    )


def _without_nvrtc() -> str:
    """What is missing where CUDA C++ cannot be compiled."""
    from attenio.kernels.hopper.cuda.compiler import library

    return "" if library() else "; the forward pass runs in Gluon alone: NVRTC is missing (package nvidia-cuda-nvrtc)"


def _without_compiled_replay() -> str:
    """What keeps launches from being repeated in C."""
    from attenio.kernels.replay.native import why_not

    reason = why_not()
    return "" if reason is None else f"; known calls are repeated by Python, not in C: {reason}"


def version_of(package: str) -> str | None:
    """The version that is installed, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _requirements() -> list[tuple[str, str | None]]:
    """Packages that attenio asks for here, each with its extra; none where it runs from a folder of sources."""
    try:
        declared = metadata.requires("attenio") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for line in declared:
        match = _REQUIREMENT.match(line)
        marker = (match[2] or "") if match else ""
        elsewhere = re.search(r"sys_platform\s*==\s*['\"](\w+)['\"]", marker)
        if match is None or (elsewhere and elsewhere[1] != platform.system().lower()):
            continue
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker)
        found.append((match[1], extra[1] if extra else None))
    return found
