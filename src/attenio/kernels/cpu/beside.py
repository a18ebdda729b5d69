"""Calls that go to PyTorch's own attention, by their form: what was decided once is looked up.

The way there is as short as Python allows, for the shortest calls take a few microseconds. A form is everything that
the choice depends on, and all that makes a call wrong: a form is remembered only after a call of it passed all checks.
"""

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from types import NoneType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import scaled_dot_product_attention

from attenio.kernels.call.choice import note_launch, short_bytes
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.kernels.cpu.fused import can_fuse
from attenio.kernels.cpu.library import Sizes, is_any_type_fast, library_first, this_host
from attenio.kernels.cpu.library_calls import called, is_small, with_look
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
# The same by the least of it, where PyTorch's own attention is first.
known_ways: dict[Form, Way] = {}
# And for numbers of keys that were not met before.
_near: dict[Form, Way] = {}
_UNKNOWN: Form = ()
# Shapes of queries and keys of short calls whose gradients tiles computed.
_left_to_tiles: set[Form] = set()
_adding = Lock()
_is_compiling, _threads = torch.compiler.is_dynamo_compiling, torch.get_num_threads
_is_grad_enabled, _transforms = torch.is_grad_enabled, torch._C._functorch.peek_interpreter_stack
_is_any_autocast_enabled, _hooks = (
    torch._C._is_any_autocast_enabled,
    torch._C._autograd._top_saved_tensors_default_hooks,
)
_WIDE_TYPES = frozenset((torch.float32, torch.float64))
short_bytes[0] = _SHORT_BYTES = this_host().short_bytes
_SHORT_STEP_BYTES = _SHORT_BYTES // 8


def is_short(query: Tensor, key: Tensor, value: Tensor, *, gqa: bool) -> bool:
    """Whether a call goes to PyTorch's own attention whatever is estimated; ``attention()`` asks the same.

    Without groups only: tiles read the keys of a group once. With gradients up to an eighth of the keys: they are
    computed by a thread a head.
    """
    short, wide = not gqa and 0 < key.nbytes == value.nbytes <= _SHORT_BYTES, query.dtype in _WIDE_TYPES
    if _is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value)):
        return short and wide and key.nbytes <= _SHORT_STEP_BYTES and key.shape[-2] > 1
    return short and (wide or is_any_type_fast())


def short_answer(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool | str, scale: float | None
) -> Tensor | None:
    """PyTorch's own attention of a short call, and None for what that does not know, or gets wrong."""
    if causal.__class__ is not bool or (scale is not None and (scale.__class__ is not float or scale <= 0.0)):
        return None
    # It takes a mask from wherever it is.
    if mask is not None and not (mask.is_cpu and (mask.dtype is torch.bool or mask.dtype is query.dtype)):
        return None
    wants = _is_grad_enabled()
    if wants and (
        key.nbytes > _SHORT_STEP_BYTES
        or key.shape[-2] == 1
        or not query.nbytes
        or query.dtype not in _WIDE_TYPES
        or _is_any_autocast_enabled()
        or _hooks(True) is not None  # whoever packs what is saved is not to unpack it now
        or (_left_to_tiles and (query.shape, key.shape) in _left_to_tiles)
    ):
        return known_answer(query, key, value, mask, (causal, scale, False, False, None))
    if scale is not None:
        output = scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale)
    elif causal:
        output = scaled_dot_product_attention(query, key, value, mask, 0.0, True)
    elif mask is None:
        output = scaled_dot_product_attention(query, key, value)
    else:
        output = scaled_dot_product_attention(query, key, value, mask)
    if not wants or (node := output.grad_fn) is None:
        return output
    # Without a log-sum-exp products with a softmax between them were taken.
    lse = getattr(node, "_saved_logsumexp", None)
    if lse is None or is_small(lse):
        return output
    _left_to_tiles.add((query.shape, key.shape))
    given = (query, key, value) if mask is None else (query, key, value, mask)
    _ways[_whole_form(given, (causal, scale, False, False, None))] = None
    return None


def known_answer(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Form) -> Tensor | None:
    """PyTorch's own attention of a call whose form is known to go there, where nothing compiles; None for others."""
    if _is_any_autocast_enabled() or _transforms() is not None or forward_ad._current_level >= 0:
        return None
    way = _looked_up(_short_form(query, key, value, mask, options))
    if way is None:
        return None
    return way(query, key, value) if mask is None else way(query, key, value, mask)


def _looked_up(form: Form) -> Way | None:
    return known_ways.get(form) or (_near.get(_near_form(form)) if len(form) == _PLAIN else None)


def known_way(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Form) -> Way | None:
    """What was chosen for calls like this one, found by the fewest questions; None where that is not known, or tiles.

    ``options``: is_causal, scale, enable_gqa, deterministic and window. A question takes a tenth of a microsecond, and
    several times that after a kernel that filled the caches. So nothing is asked that PyTorch's function checks itself,
    as types and devices that differ. Sizes of values it does not check: it would read past their end. Modes and
    profilers see that function. Compilers and transforms see the operator: a compiler is not to trace this, and
    gradients of a transform are not known here.
    """
    if _is_compiling() or _transforms() is not None or forward_ad._current_level >= 0:
        return None
    try:
        return _looked_up(_short_form(query, key, value, mask, options))
    except (AttributeError, TypeError, RuntimeError, ValueError):
        return None  # no dense tensor, or no option: refused where calls are checked


# Entries of a form without mask and window.
_PLAIN = 9


def _short_form(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Form) -> Form:
    causal, scale, gqa, deterministic, window = options
    if not (query.is_cpu and causal.__class__ is gqa.__class__ is deterministic.__class__ is bool):
        return ()  # 0 is as False for a dictionary
    wants = _is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    if mask is window is None:
        return query.shape, key.shape, value.shape, query.dtype, causal, scale, gqa, _threads(), wants
    sides = map(type, window) if window.__class__ is tuple else (window.__class__,)
    form = query.shape, key.shape, value.shape, query.dtype, *options, _threads(), wants, *sides
    if mask is None:
        return form
    return (*form, mask.shape, mask.dtype, mask.is_cpu, _is_grad_enabled() and mask.requires_grad)


def _near_form(form: Form) -> Form:
    """The same without gradients for all numbers of keys between two powers of two: a cache grows with every call."""
    query, (*batch, keys, width), (*values, tokens, value_width), *options, wants = form
    if wants or keys < 2 or keys != tokens:
        return ()
    return query, *batch, keys.bit_length(), width, *values, value_width, *options


def _is_near(sizes: Sizes) -> bool:
    """Whether PyTorch is first with as few and as many keys as well: both times are linear in them."""
    least = 2 ** (sizes.keys.bit_length() - 1)
    return all(library_first(replace(sizes, keys=n, visible_keys=n, short=False)) for n in (least, 2 * least - 1))


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
        known_ways.clear()
        _near.clear()
        _left_to_tiles.clear()


def goes_to_tiles(given: tuple[Tensor, ...], options: Form) -> bool:
    """Whether a call of this form is known to be left to tiles, which data may be the reason of."""
    return _ways.get(_whole_form(given, options), _UNKNOWN) is None


def choose(problem: KernelProblem, given: tuple[Tensor, ...], options: Form) -> Way | None:
    """The way of a call that passed all checks: PyTorch's own attention, or None for tiles.

    ``given``: queries, keys, values, and a mask if there is one.
    """
    is_causal, scale, gqa, _deterministic, window = options
    sides = window if isinstance(window, tuple) else (window,)
    if not _FIXED.issuperset(map(type, (*options[:-1], *sides))):
        return None
    form = _whole_form(given, options)
    if form in _ways:
        return _ways[form]
    query, key, value, *masks = given
    short = _short_form(query, key, value, masks[0] if masks else None, options)
    sizes, way = sizes_of(problem, given, is_causal=is_causal, gqa=gqa), None
    if sizes is not None and library_first(sizes):

        def forget() -> None:
            _ways[form] = None
            known_ways.pop(short, None)

        way = _way(problem, sizes, None if scale is None else problem.scale, gqa=gqa, forget=forget)
    near = _near_form(short) if way is not None and len(short) == _PLAIN else ()
    with _adding:
        for forms in (_ways, known_ways, _near):
            if len(forms) >= _MOST:
                del forms[next(iter(forms))]
        if way is not None and short and sizes is not None:
            known_ways[short] = way
            if near and _is_near(sizes):
                _near[near] = way
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
    met = problem.keys
    if windowed:
        met = min(met, visible.above - visible.below + 1 + PRODUCT_KEYS)
    return Sizes(
        batch=problem.batch, heads=problem.kv_heads * problem.group, kv_heads=problem.kv_heads,
        queries=problem.queries, keys=problem.keys, visible_keys=met, dtype=query.dtype,
        widths=query.shape[-1] + given[2].shape[-1], masks=mask is not None, causal=is_causal,
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


def _way(problem: KernelProblem, sizes: Sizes, scale: float | None, *, gqa: bool, forget: Callable[[], None]) -> Way:
    note_launch("scaled_dot_product_attention", part=problem.everything)
    windowed = not sizes.causal and (problem.visible.below > -UNBOUNDED or problem.visible.above < UNBOUNDED)
    kept = _window_mask(problem, sizes.dtype) if windowed else None
    if sizes.differentiates and sizes.fuses and problem.keys == 1:
        # The weight of an only key is 1 whatever its score, and a scale of 0 makes its gradients exact.
        return called(kept, causal=False, scale=0.0, gqa=gqa)
    if sizes.differentiates and sizes.fuses and sizes.dtype in (torch.float32, torch.float64):
        return with_look(kept, causal=sizes.causal, scale=problem.scale, group=problem.group, forget=forget)
    return called(kept, causal=sizes.causal, scale=scale, gqa=gqa)
