"""Calls that go to PyTorch's own attention, by their form: what was decided once is looked up.

The way there is as short as Python allows, for the shortest calls take a few microseconds. A form is everything that
the choice depends on, and all that makes a call wrong: a form is remembered only after a call of it passed all checks.
"""

from collections.abc import Callable
from dataclasses import replace
from os import cpu_count
from threading import Lock
from types import NoneType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import scaled_dot_product_attention

from attenio.kernels.call.choice import note_launch, set_short_bytes
from attenio.kernels.call.latent import MOST_VALUE_WIDTH
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.kernels.cpu.fused import can_fuse
from attenio.kernels.cpu.library import (
    Sizes,
    has_fast_steps,
    is_any_type_fast,
    library_first,
    library_seconds,
    this_host,
    tiles_seconds,
)
from attenio.kernels.cpu.library_calls import beside_tame_masks, called, is_tame, takes_both
from attenio.kernels.cpu.tiling import PRODUCT_KEYS

# What a form's calls are given to; it gives None where its answer would not hold.
Way: TypeAlias = Callable[..., Tensor | None]
Form: TypeAlias = tuple[Any, ...]
# Options of other types may not stay what they are.
_FIXED = frozenset((NoneType, bool, int, float))
_MOST = 1024
# A mask made of a window is kept for its form.
_MOST_MASK = 2**20
# What was chosen, by all of a form; None for tiles.
_ways: dict[Form, Way | None] = {}
# The same where PyTorch's own attention is first, without strides.
_exact_ways: dict[Form, Way] = {}
# And by the least that ``attention()`` has to ask, where it is first on any number of threads.
_known_ways: dict[Form, Way] = {}
# And by the bits in the numbers of queries and keys, for numbers that were not met before.
_ways_by_bits: dict[Form, Way] = {}
# PyTorch's function with the options of the call as they are.
PLAIN: Way = scaled_dot_product_attention
_adding = Lock()
_is_compiling, _threads = torch.compiler.is_dynamo_compiling, torch.get_num_threads
_is_grad_enabled, _transforms = torch.is_grad_enabled, torch._C._are_functorch_transforms_active
_WIDE_TYPES = frozenset((torch.float32, torch.float64))
_SHORT_BYTES = this_host().short_bytes
set_short_bytes(_SHORT_BYTES)
_SHORT_STEP_BYTES = _SHORT_BYTES // 8


def is_short(query: Tensor, key: Tensor, value: Tensor, *, gqa: bool) -> bool:
    """Whether a call goes to PyTorch's own attention whatever is estimated; ``attention()`` asks the same.

    Without groups only: tiles read the keys of a group once.
    """
    short = not gqa and 0 < key.nbytes == value.nbytes <= _SHORT_BYTES
    if _is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value)):
        return short and is_short_step(key.shape, key.nbytes, query.dtype)
    return short and (query.dtype in _WIDE_TYPES or is_any_type_fast())


def is_short_step(keys: torch.Size, size: int, dtype: torch.dtype) -> bool:
    """The same with gradients, by keys of so many bytes: up to an eighth, for they are computed by a thread a head.

    An only key is none: PyTorch's function has to be told that its score does not matter.
    """
    return 0 < size <= _SHORT_STEP_BYTES and keys[-2] > 1 and (dtype in _WIDE_TYPES or has_fast_steps(dtype))


def way_of(form: Form) -> Way | None:
    """The way of calls of this form, or else of one with as many bits in the numbers of queries and keys.

    A form has the shape of queries; that of keys, or where neither gradients are enabled nor a window is given the bits
    of their bytes, as a cache grows with every call; the type, is_causal, scale, enable_gqa; a mask's type or a window;
    and whether gradients are enabled, or with bits the batch and heads of keys in groups.
    """
    way = _known_ways.get(form)
    if way is None and (way := _ways_by_bits.get(_by_bits(form))) is not None:
        _remember(_known_ways, form, way)
    return way


def _by_bits(form: Form) -> Form:
    queries, keys, *rest = form
    near = keys if isinstance(keys, int) else (*keys[:-2], keys[-2].bit_length())
    return *queries[:-2], queries[-2].bit_length(), queries[-1], near, *rest


def _remember(forms: dict[Form, Any], form: Form, way: Way | None) -> None:
    with _adding:
        if len(forms) >= _MOST:
            del forms[next(iter(forms))]
        forms[form] = way


def known_way(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Form) -> Way | None:
    """What was chosen for calls like this one, found by the fewest questions; None where that is not known, or tiles.

    ``options``: is_causal, scale, enable_gqa, deterministic and window. A question takes a tenth of a microsecond, and
    several times that after a kernel that filled the caches. So nothing is asked that PyTorch's function checks itself,
    as types and devices that differ. Sizes of values it does not check: it would read past their end. Modes and
    profilers see that function. Compilers and transforms see the operator: a compiler is not to trace this, and
    gradients of a transform are not known here.
    """
    if _is_compiling() or _transforms() or forward_ad._current_level >= 0:
        return None
    try:
        return _exact_ways.get(_exact_form(query, key, value, mask, options))
    except (AttributeError, TypeError, RuntimeError, ValueError):
        return None  # no dense tensor, or no option: refused where calls are checked


def _exact_form(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Form) -> Form:
    causal, _scale, gqa, deterministic, window = options
    if not (query.is_cpu and causal.__class__ is gqa.__class__ is deterministic.__class__ is bool):
        return ()  # 0 is as False for a dictionary
    wants = _is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    sides = map(type, window) if window.__class__ is tuple else (window.__class__,)
    form = query.shape, key.shape, value.shape, query.dtype, *options, _threads(), wants, *sides
    if mask is None:
        return form
    return (*form, mask.shape, mask.dtype, mask.is_cpu, _is_grad_enabled() and mask.requires_grad)


def _whole_form(given: tuple[Tensor, ...], options: Form) -> Form:
    """Everything that the choice depends on, and whether the call is right."""
    each = [(tensor.shape, tensor.stride(), tensor.dtype, tensor.is_cpu, tensor.__class__) for tensor in given]
    wants = [tensor.requires_grad for tensor in given] if _is_grad_enabled() else None
    sides = options[-1] if isinstance(options[-1], tuple) else ()
    return (*each, str(wants), options, *map(type, (*options, *sides)), _threads())


def forget_ways() -> None:
    """Choose again, for whoever chooses in another way."""
    with _adding:
        _ways.clear()
        _exact_ways.clear()
        _known_ways.clear()
        _ways_by_bits.clear()
    set_short_bytes()


def loses_digits(given: tuple[Tensor, ...]) -> bool:
    """Whether PyTorch's gradients would be wrong beside what the mask adds."""
    mask = given[3] if len(given) > 3 else None
    if mask is None or mask.dtype == torch.bool or not mask.is_cpu or not _is_grad_enabled():
        return False
    return any(tensor.requires_grad for tensor in given) and not is_tame(mask)


def choose(problem: KernelProblem, given: tuple[Tensor, ...], options: Form) -> Way | None:
    """The way of a call that passed all checks: PyTorch's own attention, or None for tiles.

    ``given``: queries, keys, values, and a mask if there is one.
    """
    is_causal, scale, gqa, _deterministic, window = options
    sides = window if isinstance(window, tuple) else (window,)
    if not _FIXED.issuperset(map(type, (*options[:-1], *sides))) or loses_digits(given):
        return None
    whole = _whole_form(given, options)
    if whole in _ways:
        return _ways[whole]
    sizes, way = sizes_of(problem, given, is_causal=is_causal, gqa=gqa), None
    if sizes is not None and library_first(sizes):
        way, plain = _way(problem, sizes, None if scale is None else problem.scale, gqa=gqa)
        query, key, value, *masks = given
        if exact := _exact_form(query, key, value, masks[0] if masks else None, options):
            _remember(_exact_ways, exact, way)
        _remember_plainly(given, options, sizes, plain)
    _remember(_ways, whole, way)
    return way


def _remember_plainly(given: tuple[Tensor, ...], options: Form, sizes: Sizes, way: Way) -> None:
    """By the least that ``attention()`` has to ask, and for calls of nearly as many queries and keys as well.

    Where gradients are enabled ``way`` has them, wanted or not.
    """
    query, key, value, *masks = given
    causal, scale, gqa, deterministic, window = options
    enabled = _is_grad_enabled()
    learned = enabled and any(mask.requires_grad for mask in masks)
    # ``attention()`` does not ask for the device: no other one takes wider heads.
    alike = value.shape == key.shape and value.shape[-1] <= MOST_VALUE_WIDTH
    if deterministic or learned or not alike or type(window) not in (NoneType, int):
        return
    rest = query.dtype, causal, scale, gqa, window if window is not None else masks[0].dtype if masks else None
    if window is not None or enabled:
        form, fewest, most = (query.shape, key.shape, *rest, enabled), *_with_as_many_bits(sizes.keys)
    else:
        form = (query.shape, key.nbytes.bit_length(), *rest, gqa and key.shape[:-2])
        fewest, most = (n * sizes.keys // key.nbytes for n in _with_as_many_bits(key.nbytes))
    fewer, more = (replace(sizes, keys=n, visible_keys=n) for n in (max(1, fewest), most))
    # Both times are linear in the number of keys.
    near = [sizes] if window is not None or enabled else [fewer, more]
    if all(library_first(each) for sizes in near for each in _on_any_threads(sizes)):
        _remember(_known_ways, form, way)
    least, most = _with_as_many_bits(sizes.queries)
    few, many = (_on_any_threads(each) for each in (replace(fewer, queries=least), replace(more, queries=most)))
    first = (2.0 * library_seconds(each) <= tiles_seconds(other) for each, other in zip(many, few, strict=True))
    if window is None and all(first):
        _remember(_ways_by_bits, _by_bits(form), way)


def _with_as_many_bits(number: int) -> tuple[int, int]:
    least = 2 ** (number.bit_length() - 1)
    return least, 2 * least - 1


def _on_any_threads(sizes: Sizes) -> list[Sizes]:
    """On one and on all, between which the one time over the other grows; and with gradients where they are enabled."""
    ways = (False, True) if _is_grad_enabled() else (False,)
    threads = 1, max(sizes.threads, cpu_count() or 1)
    return [replace(sizes, threads=n, differentiates=way, short=False) for n in threads for way in ways]


def sizes_of(problem: KernelProblem, given: tuple[Tensor, ...], *, is_causal: bool, gqa: bool) -> Sizes | None:
    """What the choice depends on; None for what PyTorch does not serve, or serves wrongly."""
    visible, query = problem.visible, given[0]
    windowed = visible.below > -UNBOUNDED or (visible.above < UNBOUNDED and not is_causal)
    mask = given[3] if len(given) > 3 else None
    if is_causal and (windowed or problem.scale <= 0.0 or (mask is not None and not takes_both())):
        return None  # it hides scores before it scales them
    if windowed and (mask is not None or problem.queries * problem.keys > _MOST_MASK):
        return None
    if mask is not None and (mask.dtype not in (torch.bool, query.dtype) or mask.dim() < 2):
        return None
    if not problem.keys or not query.numel():
        return None
    added = _window_mask(problem, query.dtype) if windowed else mask
    fused = torch._fused_sdp_choice(*given[:3], added, 0.0, is_causal, scale=problem.scale, enable_gqa=gqa)
    if is_causal and mask is not None and fused != 1:
        return None
    met = problem.keys
    if windowed:
        met = min(met, visible.above - visible.below + 1 + PRODUCT_KEYS)
    return Sizes(
        batch=problem.batch, heads=problem.kv_heads * problem.group, kv_heads=problem.kv_heads,
        queries=problem.queries, keys=problem.keys, visible_keys=met, dtype=query.dtype,
        widths=query.shape[-1] + given[2].shape[-1], masks=mask is not None, causal=is_causal,
        adds=mask is not None and mask.dtype != torch.bool,
        short=not windowed and is_short(*given[:3], gqa=gqa),
        fuses=fused == 1, fuses_tiles=can_fuse(problem), threads=torch.get_num_threads(),
        differentiates=torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given),
    )  # fmt: skip


def _window_mask(problem: KernelProblem, dtype: torch.dtype) -> Tensor:
    """A window as what is added to scores: PyTorch makes this of booleans at every call."""
    rows = torch.arange(problem.queries, device="cpu")[:, None]
    keys = torch.arange(problem.keys, device="cpu")[None]
    hidden = (keys < rows + problem.visible.below) | (keys > rows + problem.visible.above)
    return torch.zeros(hidden.shape, dtype=dtype, device="cpu").masked_fill_(hidden, -torch.inf)


def _way(problem: KernelProblem, sizes: Sizes, scale: float | None, *, gqa: bool) -> tuple[Way, Way]:
    """PyTorch's function with the options of a form; and for ``attention()``, which has them and looks at masks."""
    note_launch("scaled_dot_product_attention", part=problem.everything)
    windowed = not sizes.causal and (problem.visible.below > -UNBOUNDED or problem.visible.above < UNBOUNDED)
    kept = _window_mask(problem, sizes.dtype) if windowed else None
    if _is_grad_enabled() and sizes.fuses and problem.keys == 1:
        # The weight of an only key is 1 whatever its score, and a scale of 0 makes its gradients exact.
        way = called(kept, causal=False, scale=0.0, gqa=gqa)
        return way, way
    way = called(kept, causal=sizes.causal, scale=scale, gqa=gqa)
    tame = beside_tame_masks(way) if _is_grad_enabled() and sizes.adds else way
    return tame, way if windowed else PLAIN
