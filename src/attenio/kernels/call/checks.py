"""What ``scaled_dot_product_attention`` refuses, refused with the same kind of exception."""

import math
from operator import index
from types import NoneType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from attenio.errors import AttenioError, InvalidInput
from attenio.kernels.call.latent import MOST_KEY_WIDTH, MOST_VALUE_WIDTH, is_latent
from attenio.names import show_type, show_value
from attenio.quantities import show_count

# FlashAttention's names that are like no name here, or like another.
NICKNAMES = {"softmax_scale": "scale"}
_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class TensorMismatch(AttenioError, RuntimeError):
    """Tensors that do not belong together; a RuntimeError, as PyTorch raises it."""


class WrongType(AttenioError, TypeError):
    """An argument that is not a tensor, or not of a type that attention takes; a TypeError, as PyTorch raises it."""


class NotComputed(AttenioError, NotImplementedError):
    """A derivative that is not implemented; a NotImplementedError, as PyTorch raises it."""


def autocast(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Any, ...]:
    """The tensors in the type of ``torch.autocast`` where it is on for their device, as for what they stand in for."""
    if not isinstance(query, Tensor) or not torch.is_autocast_enabled(query.device.type):
        return query, key, value, mask
    dtype = torch.get_autocast_dtype(query.device.type)

    def cast(tensor: Any) -> Any:
        wide = isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.dtype != torch.float64
        return tensor.to(dtype) if wide else tensor

    wanted = torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in (key, value))
    if isinstance(key, Tensor) and isinstance(value, Tensor) and not wanted and is_latent(key, value):
        latent = cast(key)  # of one latent, one is made
        return cast(query), latent, latent[..., : value.shape[-1]], cast(mask)
    return cast(query), cast(key), cast(value), cast(mask)


def refuse_tangents(*tensors: Tensor | None) -> None:
    """Raise where a tensor carries a tangent: a registered operator would drop it, and give zeros for a derivative."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotComputed("attention has no derivative in forward mode; use torch.autograd.grad or torch.func.vjp")


def check_switches(**switches: object) -> None:
    """Raise where one is not True or False: a word that says no would count as yes."""
    for name, given in switches.items():
        if not isinstance(given, bool):
            raise WrongType(f"{name} is {show_type(given)}; give True or False")


def checked_number(name: str, given: Any) -> float:
    """The argument as a float; raises where it is not a number. A learned parameter would get no gradient."""
    if isinstance(given, Tensor) and given.requires_grad:
        raise WrongType(f"{name} requires a gradient, and attention has none for it; give a number, or detach it")
    if not isinstance(given, str | bytes):
        try:
            return float(given)
        except OverflowError:  # an integer of hundreds of digits
            return math.inf
        except (TypeError, ValueError, RuntimeError):  # whatever a tensor of several numbers raises
            pass
    raise WrongType(f"{name} is {show_type(given)}; give a number")


def checked_scale(scale: Any, width: int) -> float:
    """What scores are multiplied by, for heads of this width; PyTorch takes True as 1, and NaN in silence."""
    if scale is None:
        return 1.0 / math.sqrt(width)
    number = checked_number("scale", scale)
    if isinstance(scale, bool) or not -math.inf < number < math.inf:
        raise InvalidInput(f"scale is {show_value(scale)}; give a finite number, or None for one over the root of d")
    return number


def checked_dropout(dropout_p: Any) -> float:
    """The probability as a number; of switches only False says one, as in PyTorch, where True drops everything."""
    if dropout_p is True:
        raise WrongType("dropout_p is True; give a probability from 0 to 1")
    return checked_number("dropout_p", dropout_p)


def check_tensors(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, enable_gqa: bool, dropout_p: float
) -> None:
    """Raise what is wrong with the tensors of a call."""
    tensors = {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.is_nested or tensor.layout != torch.strided:
            kind = "nested" if isinstance(tensor, Tensor) and tensor.is_nested else "sparse"
            given = f"{kind} tensor" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise WrongType(
                f"{name} is a {given}; give a dense torch.Tensor (ragged sequences: layout=torch.jagged, or packed with"
                " cu_seqlens=)"
            )
        if tensor.dim() < 2:
            raise TensorMismatch(
                f"{name} has {show_count(tensor.dim(), 'dimension')}; give at least two, (tokens, width)"
            )
        if tensor.dtype not in _TYPES:
            raise TensorMismatch(f"{name} is {tensor.dtype}; give float16, bfloat16, float32 or float64")
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise TensorMismatch(
                f"query is {query.dtype} on {query.device} and {name} {tensor.dtype} on {tensor.device};"
                " make them the same"
            )
        most = MOST_VALUE_WIDTH if name == "value" else MOST_KEY_WIDTH
        if tensor.shape[-1] > most and not tensor.is_cpu:
            raise InvalidInput(
                f"{name} is {tensor.shape[-1]:,} wide; queries and keys up to {MOST_KEY_WIDTH} wide are computed, and"
                f" values up to {MOST_VALUE_WIDTH}; on a CPU any are"
            )
    if query.device.type not in ("cpu", "cuda", "meta"):
        raise InvalidInput(
            f"tensors are on {query.device}; attention is computed on CPUs and NVIDIA GPUs: move them there"
        )
    if query.shape[-1] != key.shape[-1] or query.shape[-1] == 0:
        raise TensorMismatch(f"query is {query.shape[-1]} wide and key {key.shape[-1]}; make them equal, at least 1")
    if key.shape[-2] != value.shape[-2]:
        raise TensorMismatch(f"there are {key.shape[-2]:,} keys and {value.shape[-2]:,} values; make them equal")
    if not 0.0 <= dropout_p <= 1.0:
        raise TensorMismatch(f"dropout_p is {dropout_p}; give a probability from 0 to 1")
    if not isinstance(mask, Tensor | NoneType):
        raise WrongType(f"attn_mask is {show_type(mask)}; give a torch.Tensor, or None")
    if mask is not None and mask.dtype not in (torch.bool, query.dtype, torch.float32):
        raise TensorMismatch(f"attn_mask is {mask.dtype}; give booleans, or numbers of the query's {query.dtype}")
    if mask is not None and mask.device != query.device:
        raise TensorMismatch(f"attn_mask is on {mask.device} and query on {query.device}; move it there")
    _check_heads(query, key, value, enable_gqa=enable_gqa)


def check_prefix(prefix: Any, keys: int) -> None:
    """Raise where this is not a valid number of shared keys."""
    try:
        known = not isinstance(prefix, bool) and 0 <= index(prefix) <= keys
    except TypeError:
        known = False
    if not known:
        raise InvalidInput(f"prefix is {show_value(prefix)} of {keys:,} keys; give the number of keys that are shared")


def _check_heads(query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool) -> None:
    heads = heads_of(query, key, value)
    if enable_gqa:
        if min(query.dim(), key.dim(), value.dim()) < 3:
            raise TensorMismatch("enable_gqa needs heads; give (..., heads, tokens, width)")
        if heads[1] != heads[2] or (heads[0] % heads[1] if heads[1] else heads[0]):
            raise TensorMismatch(
                f"{heads[0]} query heads cannot share {heads[1]} key and {heads[2]} value heads;"
                " make the last two equal and a divisor of the first"
            )
        return
    several = [count for count in heads if count != 1]
    if any(count != several[0] for count in several):  # not by a set: counts of a tracer are equal, but have no hash
        raise TensorMismatch(
            f"query, key and value have {heads[0]}, {heads[1]} and {heads[2]} heads;"
            " make them equal, or set enable_gqa=True"
        )


def heads_of(*tensors: Tensor) -> list[int]:
    """Heads of each tensor; one without such a dimension has one."""
    return [tensor.shape[-3] if tensor.dim() > 2 else 1 for tensor in tensors]


def batch_of(query: Tensor, key: Tensor, value: Tensor) -> tuple[int, ...]:
    """The dimensions before heads, broadcast. Most calls have equal ones, and PyTorch takes long to say so."""
    batch: tuple[int, ...] = query.shape[:-3]
    if key.shape[:-3] == batch == value.shape[:-3]:
        return batch
    try:
        batch = torch.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value)))
    except RuntimeError:
        shapes = [tuple(tensor.shape) for tensor in (query, key, value)]
        raise TensorMismatch(f"batches of shapes {shapes} do not fit together; make them equal") from None
    return batch
