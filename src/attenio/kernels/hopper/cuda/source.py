"""The text that NVRTC compiles: constants, products of these tiles as wgmma instructions, and files of CUDA C++."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

# Files of a kernel that come before the one of its name.
_PARTS = {
    "attenio": ("block", "rows"),
    "key_stationary": ("block", "producer", "dq", "tile", "step"),
    "split_latents": ("block", "softmax"),
}
_TYPES = "typedef unsigned long long u64;\ntypedef unsigned int u32;\ntypedef unsigned short u16;\n"


class Product(NamedTuple):
    """Functions that issue d (64 x n) = a b over 16 columns of ``a`` (named ``first_...``), or add it to d.

    The first takes the registers that d had before: another array would take others. A ``fresh`` d has none before.

    ``b`` is in shared memory, ``a`` too or in registers. A matrix there is row by row with the columns that are summed
    over, or column by column.
    """

    name: str
    n: int
    a_in_registers: bool = False
    a_by_columns: bool = False
    b_by_columns: bool = False
    fresh: bool = False

    def text(self, element: str) -> str:
        """Their CUDA C++, for elements of ``bf16`` or ``f16``."""
        return self._function(element, f"first_{self.name}", adds=False) + self._function(element, self.name, adds=True)

    def _function(self, element: str, name: str, *, adds: bool) -> str:
        sums = self.n // 2
        given = [f"a{i}" for i in range(4)] if self.a_in_registers else ["a"]
        kind, constraint = ("u32", "r") if self.a_in_registers else ("u64", "l")
        places = ", ".join(f"%{sums + i}" for i in range(len(given)))
        orders = (int(self.b_by_columns),) if self.a_in_registers else (int(self.a_by_columns), int(self.b_by_columns))
        operands = (
            f"{{{', '.join(f'%{i}' for i in range(sums))}}}", f"{{{places}}}" if self.a_in_registers else places,
            f"%{sums + len(given)}", "adds", "1", "1", *map(str, orders),
        )  # fmt: skip
        parameters = ", ".join(f"{kind} {each}" for each in given)
        inputs = ", ".join(f'"{constraint}"({each})' for each in given)
        writes = "+f" if adds or not self.fresh else "=f"
        outputs = ", ".join(f'"{writes}"(d[{i}])' for i in range(sums))
        return (
            f"__device__ __forceinline__ void {name}(float (&d)[{sums}], {parameters}, u64 b) {{\n"
            f'    asm volatile("{{\\n.reg .pred adds;\\nsetp.{"eq" if adds else "ne"}.b32 adds, 0, 0;\\n'
            f'wgmma.mma_async.sync.aligned.m64n{self.n}k16.f32.{element}.{element} {", ".join(operands)};\\n}}"\n'
            f'        : {outputs}\n        : {inputs}, "l"(b));\n}}\n'
        )


def source(kernel: str, element: str, constants: Mapping[str, int], products: Iterable[Product]) -> str:
    """CUDA C++ of a kernel for elements of ``bf16`` or ``f16``, with these constants and products."""
    numbers = "".join(f"constexpr int {name} = {value};\n" for name, value in constants.items())
    numbers += f"#define CLUSTERED {int(constants.get('CLUSTER', 1) > 1)}\n"
    generated = (_TYPES + numbers, _CONVERSIONS.format(element=element), *(each.text(element) for each in products))
    names = ("instructions", *(f"{kernel}_{part}" for part in _PARTS[kernel]), kernel)
    return "\n".join((*generated, *(_text(f"{name}.cu") for name in names)))


@cache
def _text(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


# Two numbers in one word, the first in its lower half, of the element's type and of fp16.
_CONVERSIONS = """__device__ __forceinline__ u32 packed(float low, float high) {{
    u32 pair;
    asm("cvt.rn.{element}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}}
__device__ __forceinline__ u32 saturated_fp16(float low, float high) {{
    u32 pair;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}}
__device__ __forceinline__ void of_fp16(u32 pair, float &low, float &high) {{
    asm("{{\\n.reg .b16 first, second;\\nmov.b32 {{first, second}}, %2;\\n"
        "cvt.f32.f16 %0, first;\\ncvt.f32.f16 %1, second;\\n}}"
        : "=f"(low), "=f"(high) : "r"(pair));
}}
"""
