"""What runs for a call: problem and machine give one ``Choice``, which ``attention()`` runs and ``explain()`` prints.

A tensor's device decides on the backend, by its compute capability on a GPU. Each backend then chooses for itself:
``choose(problem)`` and ``choose_backward(problem)``. Here the same is asked about a machine that need not be here.
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from attenio.elements import ElementType
from attenio.errors import InvalidInput, MissingExtra
from attenio.granularity import FREE_TILES, Granularity
from attenio.kernels import cpu
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.choice import LIBRARY, Choice
from attenio.kernels.call.pages.plan import PagedPlan, plan_of
from attenio.kernels.call.pages.problem import PagedProblem, problem_on_pages
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.cpu import pages as cpu_pages
from attenio.kernels.cpu.choice import choose_library
from attenio.kernels.cpu.host import host_machine, private_boundary
from attenio.kernels.cpu.library import Sizes, library_first
from attenio.kernels.gpu.capability import gpu_at, gpu_named, is_hopper
from attenio.kernels.replay.compiling import remember_triton_key
from attenio.kernels.replay.standing_in import waiting
from attenio.machine import Machine, MemoryLevel
from attenio.masks import Mask
from attenio.planning import Dataflow
from attenio.quantities import show_count
from attenio.workload import Workload

_TYPES = {torch.float16: ElementType.FP16, torch.bfloat16: ElementType.BF16}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a call runs: the fast memory that its tiles are chosen for, and the type of a word in it.

    ``processors`` are SMs of a GPU that need not be here, and None here.
    """

    machine: Machine
    level: MemoryLevel
    dtype: ElementType
    workers: str
    granularity: Granularity = FREE_TILES
    processors: int | None = None

    @property
    def boundary(self) -> Machine:
        """The fast memory by itself, as a machine with nothing but what is below it."""
        return Machine(name=self.machine.name, levels=(self.level, MemoryLevel(name="below")))

    @property
    def is_cpu(self) -> bool:
        """Whether this computer's processor is meant."""
        return self.machine is host_machine()


def place_of(problem: KernelProblem, machine: str | Machine | None) -> Place:
    """The device of the tensors, or a machine of the catalogue with SMs."""
    if machine is None and problem.query.device.type != "cuda":
        here, threads = host_machine(), torch.get_num_threads()
        level = private_boundary(here).fast
        return Place(machine=here, level=level, dtype=ElementType.FP32, workers=show_count(threads, "thread"))
    gpu = gpu_at(problem.query.device) if machine is None else gpu_named(machine)
    level, dtype = gpu.levels[0], _TYPES.get(problem.query.dtype, ElementType.FP32)
    return Place(
        machine=gpu, level=level, dtype=dtype, workers=f"{level.units} SMs", granularity=gpu.granularity_of(dtype),
        processors=None if machine is None else level.units,
    )  # fmt: skip


def workload_of(problem: KernelProblem, mask: Mask, dtype: ElementType) -> Workload:
    """A problem as the planner knows it; on a CPU words are those that are computed with, in single precision."""
    return Workload(
        queries=problem.queries, keys=problem.keys, d=int(problem.query.shape[-1]),
        value_dim=int(problem.value.shape[-1]), heads=problem.kv_heads * problem.group, kv_heads=problem.kv_heads,
        batch=problem.batch, mask=mask, dtype=dtype, values_in_keys=problem.values_in_keys,
    )  # fmt: skip


def choose(problem: KernelProblem, place: Place, sizes: Sizes | None = None) -> Choice:
    """What ``attention()`` runs there; ``sizes`` are those by which a CPU's call may go to PyTorch's own attention."""
    if not place.is_cpu:
        with waiting():
            choice: Choice = _gpu_backend(place.machine).choose(problem, place.processors)
        return choice
    if sizes is not None and library_first(sizes):
        return choose_library(problem, sizes)
    chosen = cpu.choose(problem)
    return chosen if sizes is None else replace(chosen, why_not=(f"{LIBRARY}: {choose_library(problem, sizes).why}",))


def choose_backward(problem: KernelProblem, place: Place, forward: Choice, *, with_bias: bool = False) -> Choice:
    """What computes the gradients of a call, given what runs forward; it has no prefix by then."""
    problem = replace(problem, prefix=0)
    if forward.language == LIBRARY:
        return replace(forward, dataflow=Dataflow.QUERY_STATIONARY, name=f"gradient of {forward.name}")
    if place.is_cpu:
        return cpu.choose_backward(problem, subtracts=forward.kernel.subtracts)
    backend = _gpu_backend(place.machine)
    choice: Choice = backend.choose_backward(problem, place.processors, with_bias=with_bias)
    return choice


def backend_of(tensor: Tensor) -> ModuleType:
    """A module with ``choose`` and ``run``, and with ``gradients``, which runs what its ``choose_backward`` says."""
    if tensor.device.type == "cpu":
        return cpu
    if tensor.dtype == torch.float64:
        raise InvalidInput("attention in float64 runs on the CPU only; move the tensors there, or use float32")
    return _gpu_backend(tensor.device)


def _gpu_backend(where: torch.device | Machine) -> ModuleType:
    """The kernels of a GPU, by its compute capability."""
    if isinstance(where, torch.device):
        remember_triton_key()
    try:
        from attenio.kernels import triton
    except ImportError:
        raise MissingExtra("attention on a GPU", "triton") from None
    if not is_hopper(where):
        return triton
    from attenio.kernels import hopper

    return hopper


def features_of(tensor: Tensor) -> ModuleType:
    """A module with ``promise_for``, ``approximate_operations`` and ``attend_by_features``."""
    if tensor.device.type == "cpu":
        from attenio.kernels.cpu import features

        return features
    if tensor.dtype == torch.float64:
        raise InvalidInput("use exact: features on a GPU are summed in float32")
    try:
        from attenio.kernels.triton import feature_function
    except ImportError:
        raise MissingExtra("attention on a GPU", "triton") from None
    return feature_function


def attend_pages(query: Tensor, key: Tensor, value: Tensor, asked: CallArguments) -> Any:
    """The output in the shape of the query, with its log-sum-exp if that is asked for."""
    problem = problem_on_pages(query, key, value, asked)
    plan = plan_of(problem)
    if problem.query.is_cpu:
        assert plan is not None
        output, lse = cpu_pages.attend(problem, plan, wants_lse=asked.return_lse)
    else:
        output, lse = _pages_on_gpu(problem, plan)
    lead = (*query.shape[:-3], query.shape[-2], query.shape[-3])  # tokens before heads, as they are computed
    output = output.view(*lead, problem.width).transpose(-2, -3)
    if not asked.return_lse:
        return output
    assert lse is not None
    return output, lse.view(lead).transpose(-1, -2)


def _pages_on_gpu(problem: PagedProblem, plan: PagedPlan | None) -> tuple[Tensor, Tensor | None]:
    if not problem.query.is_cuda or problem.query.dtype == torch.float64:
        raise InvalidInput(
            f"pages are {problem.query.dtype} on {problem.query.device}; attention on them is computed on CPUs, and on"
            " NVIDIA GPUs up to float32"
        )
    try:
        from attenio.kernels.hopper import pages as hopper_pages
        from attenio.kernels.triton import pages
    except ImportError:
        raise MissingExtra("attention on pages on a GPU", "triton") from None
    attend = hopper_pages.attend if is_hopper(problem.query.device) else pages.attend
    return attend(problem, plan)
