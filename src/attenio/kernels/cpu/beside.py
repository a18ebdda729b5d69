"""Calls that go to PyTorch's own attention, by their form: what was decided once is looked up.

The way there is as short as Python allows, for the shortest calls take a few microseconds. A form is everything that
the choice depends on, and all that makes a call wrong: a form is remembered only after a call of it passed all checks.
"""

from collections.abc import Callable
from threading import Lock
from types import NoneType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.kernels.call.watching import is_traced
from attenio.kernels.cpu.fused import can_fuse
from attenio.kernels.cpu.library import Sizes, library_first
from attenio.kernels.cpu.tiling import PRODUCT_KEYS

# What a form's calls are given to; it gives None where its answer would not hold.
Way: TypeAlias = Callable[..., Tensor | None]
Form: TypeAlias = tuple[Any, ...]
# Options of other types may not stay what they are.
_FIXED = frozenset((NoneType, bool, int, float))
_MOST = 1024
# A mask made of a window is kept for its form.
_MOST_MASK = 2**20
# Weights of a backward pass are off by as many roundings as their row's log-sum-exp: a million equal scores have 14.
LARGEST_LSE = 16.0
_ways: dict[Form, Way | None] = {}
# The same without masks and windows, by less of the form: the shortest calls are of these.
_plain: dict[Form, Way] = {}
_adding = Lock()
_math = torch.ops.aten._scaled_dot_product_attention_math.default
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_has_function_mode = torch._C._is_torch_function_mode_enabled
_is_compiling, _threads, _is_grad_enabled = torch.compiler.is_compiling, torch.get_num_threads, torch.is_grad_enabled


def plain_way(query: Tensor, key: Tensor, value: Tensor, options: Form) -> Way | None:
    """What was chosen for calls without a mask or a window, found by the fewest questions.

    Whatever else the tensors are, PyTorch's own function serves them or refuses them: it is what stands behind a way.
    """
    try:
        on_cpu = query.is_cpu and key.is_cpu and value.is_cpu  # first: calls on a GPU are not to wait for the rest
        if not on_cpu or _is_compiling() or _has_function_mode() or is_traced():
            return None
        return _plain.get(_plain_form(query, key, value, options))
    except (AttributeError, TypeError, RuntimeError):
        return None  # no dense tensor, or no option: refused where calls are checked


def _plain_form(query: Tensor, key: Tensor, value: Tensor, options: Form) -> Form:
    wants = _is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    types = query.dtype, key.dtype, value.dtype, options[0].__class__, options[2].__class__
    return query.shape, key.shape, value.shape, types, options, wants, _threads()


def way_of(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Form) -> Way | None:
    """What was chosen for calls of this form; None for tiles, for a form not seen before, and where somebody watches.

    PyTorch's own function may be given whatever any other may: only who looks at what is called is asked about.
    """
    if _is_compiling() or _has_function_mode() or is_traced():
        return None
    try:
        return _ways.get(form_of(query, key, value, mask, options))
    except (AttributeError, TypeError, RuntimeError):
        return None  # no dense tensor, or no option: refused where calls are checked


def form_of(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Form) -> Form:
    """Everything that the choice depends on, and whether the call is right."""
    wants = torch.is_grad_enabled()
    form = (
        query.shape, key.shape, value.shape, query.stride(), key.stride(), value.stride(),
        query.dtype, key.dtype, value.dtype, query.is_cpu and key.is_cpu and value.is_cpu,
        query.__class__, key.__class__, value.__class__,
        wants and (query.requires_grad or key.requires_grad or value.requires_grad),
        *map(type, options), options, torch.get_num_threads(),
    )  # fmt: skip
    if mask is None:
        return form
    return (*form, mask.shape, mask.stride(), mask.dtype, mask.is_cpu, mask.__class__, wants and mask.requires_grad)


def forget_ways() -> None:
    """Choose again, for whoever chooses in another way."""
    with _adding:
        _ways.clear()
        _plain.clear()


def choose(form: Form, problem: KernelProblem, given: tuple[Tensor, ...], options: Form) -> Way | None:
    """The way of a call that passed all checks: PyTorch's own attention, or None for tiles."""
    is_causal, _scale, gqa, _deterministic, *sides = options
    if not _FIXED.issuperset(map(type, options)):
        return None
    if form in _ways:
        return _ways[form]
    sizes, way = sizes_of(problem, given, is_causal=is_causal, gqa=gqa), None
    if sizes is not None and library_first(sizes):
        way = _way(problem, sizes, gqa=gqa, form=form)
    with _adding:
        if len(_ways) >= _MOST:
            del _ways[next(iter(_ways))]
            _plain.clear()
        if way is not None and len(given) == 3 and sides == [None]:
            _plain[_plain_form(*given, options[:3])] = way
        return _ways.setdefault(form, way)


def sizes_of(problem: KernelProblem, given: tuple[Tensor, ...], *, is_causal: bool, gqa: bool) -> Sizes | None:
    """What the choice depends on; None for what PyTorch does not serve, or serves wrongly."""
    visible, query = problem.visible, given[0]
    windowed = visible.below > -UNBOUNDED or (visible.above < UNBOUNDED and not is_causal)
    mask = given[3] if len(given) > 3 else None
    if is_causal and (windowed or mask is not None or problem.scale <= 0.0):
        return None  # it refuses two restrictions, and hides scores before it scales them
    if windowed and (mask is not None or problem.queries * problem.keys > _MOST_MASK):
        return None
    if mask is not None and (mask.dtype not in (torch.bool, query.dtype) or mask.dim() < 2):
        return None
    if not problem.keys or not query.numel():
        return None
    added = _window_mask(problem, query.dtype) if windowed else mask
    fused = torch._fused_sdp_choice(*given[:3], added, 0.0, is_causal, scale=problem.scale, enable_gqa=gqa)
    differentiates = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    met = problem.keys
    if windowed:
        met = min(met, visible.above - visible.below + 1 + PRODUCT_KEYS)
    return Sizes(
        batch=problem.batch, heads=problem.kv_heads * problem.group, kv_heads=problem.kv_heads,
        queries=problem.queries, keys=problem.keys, visible_keys=met, dtype=query.dtype,
        widths=query.shape[-1] + given[2].shape[-1], masks=mask is not None, causal=is_causal,
        fuses=fused == 1 and not (differentiates and problem.keys == 1),
        fuses_tiles=can_fuse(problem), differentiates=differentiates, threads=torch.get_num_threads(),
    )  # fmt: skip


def _window_mask(problem: KernelProblem, dtype: torch.dtype) -> Tensor:
    """A window as what is added to scores: PyTorch makes this of booleans at every call."""
    rows = torch.arange(problem.queries, device="cpu")[:, None]
    keys = torch.arange(problem.keys, device="cpu")[None]
    hidden = (keys < rows + problem.visible.below) | (keys > rows + problem.visible.above)
    return torch.zeros(hidden.shape, dtype=dtype, device="cpu").masked_fill_(hidden, -torch.inf)


def _way(problem: KernelProblem, sizes: Sizes, *, gqa: bool, form: Form) -> Way:
    causal, scale = sizes.causal, problem.scale
    windowed = not causal and (problem.visible.below > -UNBOUNDED or problem.visible.above < UNBOUNDED)
    kept = _window_mask(problem, sizes.dtype) if windowed else None
    if sizes.differentiates and sizes.fuses:
        return _checked(causal, scale, kept, form)
    if sizes.differentiates and problem.keys == 1:
        return _unfused(causal, scale, kept, gqa=gqa)

    def way(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=gqa)

    def windowed_way(query: Tensor, key: Tensor, value: Tensor, _mask: None) -> Tensor:
        return scaled_dot_product_attention(query, key, value, kept, 0.0, False, scale=scale, enable_gqa=gqa)

    return way if kept is None else windowed_way


def _checked(causal: bool, scale: float, kept: Tensor | None, form: Form) -> Way:
    """With gradients: next to a large log-sum-exp weights lose their digits, and then tiles compute them."""

    def way(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor | None:
        if mask is None:
            mask = kept
        elif mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, dtype=query.dtype, device="cpu").masked_fill_(~mask, -torch.inf)
        group = query.shape[1] // key.shape[1]
        if group > 1:
            key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        output, lse = _flash(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
        low, high = lse.aminmax()
        if low.item() >= -LARGEST_LSE and high.item() <= LARGEST_LSE:
            found: Tensor = output
            return found
        _ways[form] = None
        _plain.clear()
        return None

    return way


def _unfused(causal: bool, scale: float, kept: Tensor | None, *, gqa: bool) -> Way:
    """An only key has a weight of 1 and gradients of zero: its softmax subtracts equal numbers."""

    def way(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        added = kept if mask is None else mask
        output: Tensor = _math(query, key, value, added, 0.0, causal, None, scale=scale, enable_gqa=gqa)[0]
        return output

    return way
