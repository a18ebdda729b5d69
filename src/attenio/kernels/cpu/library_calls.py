"""How PyTorch's own attention is called, with as little on the way as Python allows.

Its gradients in single and double precision lose digits next to a large log-sum-exp: weights are made again as
exp(score - log-sum-exp), and that is off by as many roundings as the log-sum-exp is large. So after such a call the
log-sum-exp is looked at, and where it is large tiles compute the call. In 16 bits scores of an untiled computation are
rounded more coarsely than that, and nothing is looked at.
"""

import sys
from collections.abc import Callable
from ctypes import c_char
from functools import partial
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# Weights of a backward pass are off by as many roundings as their row's log-sum-exp: a million equal scores have 14.
LARGEST_LSE = 16.0
# The last byte of a number is its sign and seven bits of its exponent: these are of less than 8 in single precision,
# and of less than 2**17 in double precision, beside which 36 bits are left. And where the last bytes are.
_SMALL = bytes((*range(0x41), *range(0x80, 0xC1)))
_LAST = {torch.float32: slice(3, None, 4), torch.float64: slice(7, None, 8)}
# So many bytes are looked at: an operation on a tensor takes ten microseconds and more beside other work.
_MOST_BYTES = 2**16 if sys.byteorder == "little" else 0
_MOST_READERS = 1024


class _Readers(dict[int, Callable[[int], Any]]):
    """What reads so many bytes at an address, and None for too many; of so many sizes, for Python keeps their types."""

    def __missing__(self, size: int) -> Callable[[int], Any] | None:
        if not 0 < size <= _MOST_BYTES or len(self) >= _MOST_READERS:
            return None
        return self.setdefault(size, (c_char * size).from_address)


_readers = _Readers()
_flash = torch._scaled_dot_product_flash_attention_for_cpu
_hooks = torch._C._autograd._top_saved_tensors_default_hooks


def called(kept: Tensor | None, *, causal: bool, scale: float | None, gqa: bool) -> Callable[..., Tensor]:
    """PyTorch's function of queries, keys, values and a mask; ``kept`` stands for a window."""
    options: dict[str, Any] = {"is_causal": causal, "scale": scale, "enable_gqa": gqa}
    given = {name: option for name, option in options.items() if option is not None and option is not False}
    function: Callable[..., Tensor] = scaled_dot_product_attention
    if given:
        function = partial(scaled_dot_product_attention, **given)
    if kept is None:
        return function
    return lambda query, key, value: function(query, key, value, kept)


def with_look(
    kept: Tensor | None, *, causal: bool, scale: float, group: int, forget: Callable[[], None]
) -> Callable[..., Tensor | None]:
    """With gradients: the fused kernel, and None, from now on without it, where its gradients would lose digits."""

    def way(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = kept) -> Tensor | None:
        if group > 1 or (mask is not None and mask.dtype == torch.bool):
            if _hooks(True) is None:
                output = scaled_dot_product_attention(
                    query, key, value, mask, is_causal=causal, scale=scale, enable_gqa=group > 1
                )
                node = output.grad_fn
                if not hasattr(node, "_saved_logsumexp"):
                    return output  # strides that the fused kernel does not take: products with a softmax between them
                return _seen(output, node._saved_logsumexp, forget)
            # Whoever packs what is saved is not to unpack it now.
            key, value, mask = _spelled_out(query, key, value, mask)
        if not (query.dtype is key.dtype is value.dtype and key.is_cpu and value.is_cpu):
            return None  # PyTorch's function refuses it, the kernel would take it
        if not query.stride(-1) == key.stride(-1) == value.stride(-1) == 1:  # the kernel takes it so without asking
            query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        output, lse = _flash(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
        return _seen(output, lse, forget)

    return way


def _spelled_out(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys and values for every head, and a mask that is added, as PyTorch's function makes them."""
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype, device="cpu").masked_fill_(~mask, -torch.inf)
    group = query.shape[1] // key.shape[1]
    return key.repeat_interleave(group, 1), value.repeat_interleave(group, 1), mask


def _seen(output: Tensor, lse: Tensor, forget: Callable[[], None]) -> Tensor | None:
    if lse.__class__ is not Tensor:
        return None  # there is nothing to look at
    if is_small(lse):
        return output
    forget()
    return None


def is_small(lse: Tensor) -> bool:
    """Whether gradients beside this log-sum-exp keep their digits: by their bytes where they are few, without gaps."""
    read = _readers[lse.nbytes]
    if read is not None and not read(lse.data_ptr()).raw[_LAST[lse.dtype]].translate(None, _SMALL):
        return True
    return bool(torch.linalg.vector_norm(lse, inf).item() <= LARGEST_LSE)
