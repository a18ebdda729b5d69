"""The backward pass on Hopper: which problems it takes, and by which of two dataflows they run.

Blocks keep keys while rows pass. Parts of dQ are added to accumulators, in any order (``key_stationary``); or dS is
spilled to memory and multiplied with keys by a kernel of its own (``spilled_gradients``). The second repeats to the
bit, and is faster for wide heads. Accumulators of integers repeat to the bit too; narrower heads take them if they
must.
"""

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.backward.chunks import ROW_STEP
from attenio.kernels.hopper.backward.config import BackwardConfig, config_of, give_up_cuda
from attenio.kernels.hopper.backward.fixed_point import fixed_point_suffices
from attenio.kernels.hopper.backward.key_stationary import key_stationary_gradients, key_stationary_grids
from attenio.kernels.hopper.backward.spilled_gradients import carries, spilled_gradients, spilled_grids
from attenio.kernels.hopper.backward.whole_heads import whole_heads_gradients
from attenio.kernels.hopper.cuda.key_stationary import begin_compiling_key_stationary, is_compiled
from attenio.kernels.hopper.cuda.proving import is_known
from attenio.kernels.hopper.cuda.proving import is_proven as is_proven_cuda
from attenio.kernels.hopper.proving import (
    forward_by_definition,
    gradients_by_definition,
    is_right,
    small_problem,
)
from attenio.kernels.hopper.standing_in import compiles_for
from attenio.kernels.replay.standing_in import Awaited, may_stand_in
from attenio.planning import Dataflow, Tiles
from attenio.planning.shared_cache import Grid, Sweep


def why_not(problem: KernelProblem) -> str | None:
    """Why these kernels do not compute a problem: they take 16-bit heads up to 256 wide, bands and ranges."""
    seen = problem.visible
    if problem.query.dtype not in (torch.bfloat16, torch.float16):
        return "tensor cores take 16-bit heads"
    if not all(0 < width <= 256 and width % 8 == 0 for width in (problem.query.shape[-1], problem.value.shape[-1])):
        return "TMA loads heads of up to 256 columns, a multiple of 8"
    if any(given is not None for given in (seen.bias, seen.query_ids, seen.blocks, problem.dropout)):
        return "masks, ids, blocks and dropout are computed by portable kernels"
    if problem.softcap:
        return "a cap on scores is computed by portable kernels"
    if not min(problem.query.numel(), problem.key.numel()):
        return "there are no scores"
    if problem.deterministic and not (config_of(problem).repeats or fixed_point_suffices(problem)):
        return "fixed point is too coarse for so many keys"
    return None if problem.scale > 0.0 else "masked scores are -inf before they are scaled"


def supports(problem: KernelProblem) -> bool:
    """Whether these kernels compute the problem."""
    return why_not(problem) is None


def choose(problem: KernelProblem) -> Choice:
    """What computes the gradients of a problem that ``supports`` accepts."""
    return _choice(config_of(problem), problem.queries, problem.keys)


@lru_cache(maxsize=1024)
def _choice(config: BackwardConfig, queries: int, keys: int) -> Choice:
    sizes = {"query_tile": min(config.rows, queries), "key_tile": min(config.keys, keys)}
    if config.spills:
        dataflow, why = Dataflow.SPILLED_GRADIENTS, "wide heads leave no registers for a product of dS and keys"
        sizes |= {"query_rows": min(ROW_STEP, queries), "query_columns": config.d}
    else:
        dataflow, why = (
            Dataflow.KEY_STATIONARY,
            "a program has all keys of a head, and writes dQ itself"
            if config.whole_heads
            else "gradients of keys stay in registers, and blocks add to dQ as they go",
        )
    return Choice(
        dataflow=dataflow, tiles=Tiles.of(**sizes), language="CUDA C++" if config.is_cuda else "Gluon",
        name=config.kernel_name, kernel=config, why=why,
    )  # fmt: skip


def stand_in(problem: KernelProblem) -> Choice | None:
    """What computes the gradients of a problem until the best kernel is compiled; None where that runs.

    That is the kernel with masks whose programs share heads, which takes every length. It is compiled first where
    neither is. While a CUDA graph is captured nothing is compiled or tried.
    """
    dtype, device, config = problem.query.dtype, problem.query.device, config_of(problem)
    masked = _is_masked(problem, config)
    if not config.is_cuda or not compiles_for(device) or (masked and not config.whole_heads):
        return None
    general = config._replace(masks=True, whole_heads=False)
    choice = _choice(general, problem.queries, problem.keys)
    if torch.cuda.is_current_stream_capturing():
        known, other = (is_known(_name(problem, each), dtype, device) for each in (config, general))
        return choice if other and not known else None
    may = may_stand_in(deterministic=problem.deterministic)
    best = {"masked": masked, "whole_heads": config.whole_heads}
    if not may or is_compiled(dtype, config.d, **best):
        return None
    awaited = Awaited(config, (begin_compiling_key_stationary(dtype, config.d, **best),))
    if not is_proven(problem, config=general) or config_of(problem) != config:
        return None
    return choice if awaited.has_failed else replace(choice, awaited=config)


def _is_masked(problem: KernelProblem, config: BackwardConfig) -> bool:
    return config.masks or Band.of(problem).masks(problem.queries, problem.keys, config.keys)


def _name(problem: KernelProblem, config: BackwardConfig) -> str:
    """By which a kernel that was tried is known."""
    tiles = "packed" if Band.of(problem).packed else "masked" if _is_masked(problem, config) else "whole"
    if config.spills:
        way = "dS spilled and carried" if carries(problem) else "dS spilled"
    else:
        way = "dQ in fixed point" if config.fixed_point else "dQ added in any order"
        way = "dQ of whole heads" if config.whole_heads else way
    columns = str(config.d) if config.d == config.width else f"{config.d} and {config.width}"
    return f"gradients {columns} wide, {tiles} tiles, {way}"


def is_proven(problem: KernelProblem, *, tries: bool = True, config: BackwardConfig | None = None) -> bool:
    """Whether the kernels for this problem have given the gradients of the definition on this device.

    Unless this ``tries`` them, they are taken to be right until they are tried.
    """
    config, band = config or config_of(problem), Band.of(problem)
    dtype, device, name = problem.query.dtype, problem.query.device, _name(problem, config)
    masked, carried = _is_masked(problem, config), config.spills and carries(problem)

    def both() -> tuple[list[Tensor], list[Tensor]]:
        if config.is_cuda:
            form = {"masked": masked, "whole_heads": config.whole_heads, "packed": band.packed}
            begin_compiling_key_stationary(dtype, config.d, **form)
        queries, keys = (2 * config.rows + 40, 3 * config.keys + 24) if masked else (4 * config.rows, 4 * config.keys)
        trial = small_problem(
            (2 * ROW_STEP + queries if carried else queries, keys), (config.d, config.width), dtype, device,
            masked=masked, packed=band.packed, deterministic=problem.deterministic,
        )  # fmt: skip
        gradient = trial.query.flip(2, 3)[..., : config.width].contiguous()
        saved = (*forward_by_definition(trial), gradient)
        if carried:
            mine = spilled_gradients(trial, saved, workspace_bytes=1)
        else:
            mine = _by_config(trial, saved, config)
        return list(mine[:3]), gradients_by_definition(trial, gradient)

    if not config.is_cuda:
        return is_right(name, dtype, device, both if tries else None)
    if is_proven_cuda(name, dtype, device, both if tries else None):
        return True
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():  # it could not be tried
        return False
    give_up_cuda(device)
    return is_proven(problem, tries=tries)


def gradients(problem: KernelProblem, saved: tuple[Tensor, ...], choice: Choice | None = None) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    return _by_config(problem, saved, config_of(problem) if choice is None else choice.kernel)


def _by_config(problem: KernelProblem, saved: tuple[Tensor, ...], config: BackwardConfig) -> Gradients:
    if config.whole_heads:
        return whole_heads_gradients(problem, saved, config)
    by = spilled_gradients if config.spills else key_stationary_gradients
    return by(problem, saved, config=config)


def gradient_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...] | None:
    """The programs of all launches, for a prediction of the bytes that they move below L2, if they can be told."""
    return spilled_grids(problem) if config_of(problem).spills else key_stationary_grids(problem)
