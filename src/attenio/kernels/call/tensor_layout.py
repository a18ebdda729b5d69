"""Where PyTorch keeps what a call is known by: sizes, type, and which kernels a tensor goes to.

To ask a tensor from Python takes a tenth of a microsecond in a loop and one or two after a kernel. Compiled code reads
memory instead, which PyTorch's own attention is about to read. Nothing here is promised by PyTorch, so it is found by
looking at tensors that are known, and tried on others; where any of them is read wrongly, nothing is read.
"""

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

WORD = 8
# So many sizes lie in the tensor itself, whatever their number.
MOST_DIMENSIONS = 4
# Numbers of PyTorch's C++ for types, which it promises, and bytes of an element.
TYPE_NUMBERS = {torch.float16: 5, torch.float32: 6, torch.float64: 7, torch.bool: 11, torch.bfloat16: 15}
# Looked through for what is known to be there.
_OBJECT_WORDS, _TENSOR_WORDS = 5, 24


@dataclass(frozen=True, kw_only=True)
class TensorLayout:
    """Bytes from the start: of the tensor in its Python object, and in the tensor of its keys, type and sizes.

    The number of sizes lies in the word before them. ``plain_keys`` have dense tensors on a CPU that no transform, mode
    or subclass has wrapped, outside of inference mode and made in it.
    """

    tensor: int
    keys: int
    type: int
    sizes: int
    plain_keys: tuple[int, int]


def tensor_layout() -> TensorLayout | None:
    """Where everything is in tensors of this PyTorch; None where they are not as they were.

    Raises what PyTorch raises where it cannot make them: then nothing is known of where they are.
    """
    try:
        return _found()
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _found() -> TensorLayout | None:
    with torch.inference_mode(mode=False):
        plain = torch.empty((7, 11, 13, 17), device="cpu", dtype=torch.float32)
        others = [plain[1:, 2:], *(plain.to(each) for each in TYPE_NUMBERS), torch.nn.Parameter(plain[:, :, 1:])]
        others += [plain.transpose(1, 2), plain[0, :, 1], plain.detach().clone()[0].requires_grad_()]
    with torch.inference_mode():
        inference = torch.empty((3, 5, 19), device="cpu", dtype=torch.float32)
    tensor = _only([WORD * i for i in range(2, _OBJECT_WORDS) if _word(id(plain), WORD * i) == plain._cdata])
    at_sizes = [
        WORD * i
        for i in range(1, _TENSOR_WORDS - MOST_DIMENSIONS)
        if [_word(plain._cdata, WORD * (i + j)) for j in range(-1, 4)] == [4, *plain.shape]
    ]
    both = (plain, inference)
    at_keys = [
        WORD * i for i in range(1, _TENSOR_WORDS) if all(_word(each._cdata, WORD * i) == _keys(each) for each in both)
    ]
    at_type = [
        i
        for i in range(WORD, WORD * _TENSOR_WORDS, 2)
        if all(_type_number(each, i) == TYPE_NUMBERS[each.dtype] for each in (*others, *both))
    ]
    layout = TensorLayout(
        tensor=tensor, keys=_only(at_keys), type=_only(at_type), sizes=_only(at_sizes),
        plain_keys=(_keys(plain), _keys(inference)),
    )  # fmt: skip
    apart = [plain.to("meta"), plain.to_sparse(), torch.empty(3, 5, dtype=torch.complex64, device="cpu").conj()]
    most, least = layout.plain_keys
    right = most & least == least and all(_is_read(each, layout) for each in (*others, *both))
    return layout if right and not any(_keys_of(each, layout) in layout.plain_keys for each in apart) else None


def _is_read(tensor: Tensor, layout: TensorLayout) -> bool:
    """Whether all of a tensor is where the layout says."""
    count, start = tensor.dim(), layout.sizes
    same = _word(id(tensor), layout.tensor) == tensor._cdata and _word(tensor._cdata, start - WORD) == count
    sizes = tuple(_word(tensor._cdata, start + WORD * i) for i in range(count))
    typed = _type_number(tensor, layout.type) == TYPE_NUMBERS[tensor.dtype]
    return same and sizes == tuple(tensor.shape) and typed and _keys_of(tensor, layout) in layout.plain_keys


def _keys_of(tensor: Tensor, layout: TensorLayout) -> int:
    return _word(tensor._cdata, layout.keys)


def _keys(tensor: Tensor) -> int:
    return int(torch._C._dispatch_keys(tensor).raw_repr())


def _type_number(tensor: Tensor, offset: int) -> int:
    return ctypes.c_uint16.from_address(tensor._cdata + offset).value


def _word(address: int, offset: int) -> int:
    return ctypes.c_uint64.from_address(address + offset).value


def _only(found: list[int]) -> int:
    (offset,) = found
    return offset
