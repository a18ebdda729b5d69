"""Arithmetic of PTX as expressions of NumPy, on all lanes of a warp at once.

Registers of 16, 32 and 64 bits are unsigned, those of fp32 are floats, predicates are booleans.
"""

import struct

import numpy as np

__all__ = ["HELPERS", "TYPES", "expression", "immediate", "rounded_to_bf16"]

TYPES = {
    "pred": "b1", "b16": "u2", "u16": "u2", "s16": "u2", "b32": "u4", "u32": "u4", "s32": "u4", "f32": "f4",
    "b64": "u8", "u64": "u8", "s64": "u8",
}  # fmt: skip
_COMPARED = {
    "eq": "{} == {}", "ne": "({} < {1}) | ({} > {1})", "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}",
    "ge": "{} >= {}", "neu": "{} != {}", "gtu": "~({} <= {})", "geu": "~({} < {})", "ltu": "~({} >= {})",
    "leu": "~({} > {})", "equ": "~(({} < {1}) | ({} > {1}))", "lo": "{} < {}", "hi": "{} > {}", "ls": "{} <= {}",
    "hs": "{} >= {}",
}  # fmt: skip
_OPERATORS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "shl": "<<"}


def rounded_to_bf16(numbers):
    """Bits, rounded to nearest even."""
    bits = numbers.view("u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(numbers != numbers, np.uint32(0x7FFF), rounded)


def _bf16x2(high, low):
    return rounded_to_bf16(high) << np.uint32(16) | rounded_to_bf16(low)


def _f16x2(high, low, most=np.inf):
    halves = (np.clip(each, -most, most).astype("f2").view("u2").astype("u4") for each in (high, low))
    return next(halves) << np.uint32(16) | next(halves)


def _exp2(x):
    y = np.exp2(x)
    return np.where(y < np.float32(2.0**-126), np.float32(0), y)


def _quotient(a, b):
    return (a.astype("f8") / b).astype("i8")


HELPERS = {
    "bf16x2": _bf16x2, "f16x2": _f16x2, "exp2": _exp2, "quotient": _quotient, "where": np.where, "np": np,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
}  # fmt: skip


def immediate(said, kind):
    """A number as PTX spells it, in a type."""
    if said.startswith("0f"):
        return np.float32(struct.unpack(">f", bytes.fromhex(said[2:]))[0])
    bits = 8 * np.dtype(TYPES[kind]).itemsize
    return np.dtype(TYPES[kind]).type(int(said, 0) % 2**bits)


def _signed(of, kind):
    return f"{of}.view('i{TYPES[kind][1]}')" if kind[0] == "s" else of


def expression(opcode, of):
    """What an instruction gives for these operands; None where it is not arithmetic."""
    name, *parts = opcode.split(".")
    kind = parts[-1] if parts else ""
    if name in ("setp", "cvt", "mul", "mad"):
        return {"setp": _compared, "cvt": _converted, "mul": _multiplied, "mad": _multiplied}[name](parts, of)
    if name in _OPERATORS:
        return f"{of[0]} {_OPERATORS[name]} {_as(of[1], kind) if name == 'shl' else of[1]}"
    if name in ("min", "max"):
        function = "f" + name if kind == "f32" and "NaN" not in parts else name + "imum"
        return _unsigned(f"{function}({_signed(of[0], kind)}, {_signed(of[1], kind)})", kind)
    if name in ("div", "rem") and kind in ("s32", "u32"):
        a, b = (_signed(each, kind) for each in of)
        quotient = f"quotient({a}, {b})"
        return f"({quotient} if {name == 'div'} else {a}.astype('i8') - {quotient} * {b}).astype('u4')"
    shifted = _unsigned(f"({_signed(of[0], kind)} >> {_as(of[1], kind, signed=True)})", kind) if name == "shr" else None
    return shifted or {
        "mov": lambda: of[0], "cvta": lambda: of[0], "selp": lambda: f"where({of[2]}, {of[0]}, {of[1]})",
        "not": lambda: f"~{of[0]}", "neg": lambda: f"-{of[0]}", "abs": lambda: f"np.abs({of[0]})",
        "fma": lambda: f"({of[0]}.astype('f8') * {of[1]} + {of[2]}).astype('f4')",
        "ex2": lambda: f"exp2({of[0]})", "lg2": lambda: f"np.log2({of[0]})", "rcp": lambda: f"np.float32(1) / {of[0]}",
        "div": lambda: f"{of[0]} / {of[1]}",
    }.get(name, lambda: None)()  # fmt: skip


def _as(of, kind, *, signed=False):
    width = TYPES[kind][1]
    return f"{of}.astype('{'i' if signed and kind[0] == 's' else 'u'}{width}')"


def _unsigned(of, kind):
    return f"{of}.view('{TYPES[kind]}')" if kind[0] == "s" else of


def _compared(parts, of):
    a, b = (_signed(each, parts[-1]) for each in of[:2])
    if parts[0] in ("ne", "equ") and parts[-1] == "f32":
        return f"({a} < {b}) | ({a} > {b})" if parts[0] == "ne" else f"~(({a} < {b}) | ({a} > {b}))"
    return f"{a} != {b}" if parts[0] == "ne" else _COMPARED[parts[0]].format(a, b)


def _multiplied(parts, of):
    kind, way = parts[-1], parts[0]
    product = f"{of[0]} * {of[1]}"
    if way in ("wide", "hi"):
        wide = f"{kind[0].replace('s', 'i')}{2 * int(TYPES[kind][1])}"
        product = f"({_signed(of[0], kind)}.astype('{wide}') * {_signed(of[1], kind)})"
        product = f"{product}.view('u{wide[1]}')"
        product = f"({product} >> np.uint64(32)).astype('u4')" if way == "hi" else product
    return f"{product} + {of[2]}" if len(of) == 3 else product


def _converted(parts, of):
    if parts[-2] == "bf16x2":
        return f"bf16x2({of[0]}, {of[1]})"
    if parts[-2] == "f16x2":
        return f"f16x2({of[0]}, {of[1]}{', 65504.0' if 'satfinite' in parts else ''})"
    to, kind = parts[-2:]
    if kind == "f16":
        return f"{of[0]}.view('f2').astype('f4')"
    if kind == "f32" or to == "f32":
        number = "f4" if to == "f32" else {"s": "i", "u": "u"}[to[0]] + TYPES[to][1]
        return _unsigned(f"{_signed(of[0], kind)}.astype('{number}')", to if to != "f32" else "f")
    return f"{_signed(of[0], kind)}.astype('{TYPES[to]}')"
