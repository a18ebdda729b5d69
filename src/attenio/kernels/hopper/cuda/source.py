"""The text that NVRTC compiles: constants, the products of these tiles as wgmma instructions, and ``attenio.cu``."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

KERNEL = "attenio_kernel"
_TYPES = "typedef unsigned long long u64;\ntypedef unsigned int u32;\ntypedef unsigned short u16;\n"


def source(element: str, constants: Mapping[str, int]) -> str:
    """CUDA C++ for elements of ``bf16`` or ``f16``."""
    n, width = constants["KEY_TILE"], constants["V"]
    numbers = "".join(f"constexpr int {name} = {value};\n" for name, value in constants.items())
    products = (
        _scores_product(element, n),
        _outputs_product(element, width),
    )
    return "\n".join((_TYPES + numbers, _packed(element), *products, _kernel()))


def _scores_product(element: str, n: int) -> str:
    """A function that issues S = Q K^T over 16 columns, or adds it to ``d``; both are in shared memory."""
    head = f"void scores_product(float (&d)[{n // 2}], u64 a, u64 b, bool more)"
    operands = f"%{n // 2}, %{n // 2 + 1}, more, 1, 1, 0, 0"
    text = f"setp.ne.b32 more, %{n // 2 + 2}, 0;\\n{_instruction(element, n)}, {operands};"
    return _function(head, text, n, '"l"(a), "l"(b), "r"(static_cast<int>(more))')


def _outputs_product(element: str, n: int) -> str:
    """A function that issues O += P V over 16 keys: P in registers, V in shared memory, row by row."""
    head = f"void outputs_product(float (&d)[{n // 2}], u32 a0, u32 a1, u32 a2, u32 a3, u64 b)"
    a = ", ".join(f"%{n // 2 + i}" for i in range(4))
    text = f"setp.eq.b32 more, 0, 0;\\n{_instruction(element, n)}, {{{a}}}, %{n // 2 + 4}, more, 1, 1, 1;"
    return _function(head, text, n, '"r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b)')


def _instruction(element: str, n: int) -> str:
    """A product of 64 x 16 and 16 x n entries, and the registers of its sums."""
    sums = ", ".join(f"%{i}" for i in range(n // 2))
    return f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element} {{{sums}}}"


def _function(head: str, text: str, n: int, operands: str) -> str:
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(n // 2))
    return (
        f"__device__ __forceinline__ {head} {{\n"
        f'    asm volatile("{{\\n.reg .pred more;\\n{text}\\n}}"\n        : {sums}\n        : {operands});\n}}\n'
    )


def _packed(element: str) -> str:
    """Two numbers in one word, the first in its lower half."""
    return (
        "__device__ __forceinline__ u32 packed(float low, float high) {\n    u32 pair;\n"
        f'    asm("cvt.rn.{element}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));\n    return pair;\n}}\n'
    )


@cache
def _kernel() -> str:
    return files(__package__).joinpath("attenio.cu").read_text(encoding="utf-8")
