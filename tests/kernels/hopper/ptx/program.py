"""A kernel's PTX as functions of Python: each does a stretch of instructions for all active lanes of a warp.

A stretch ends where lanes may part or meet, and where other warps may notice it. ``R`` are registers of the warp, each
of 32 numbers, ``M`` the active lanes, ``w`` the warp, which does what is more than arithmetic.
"""

import re
from functools import cache

import numpy as np
from tests.kernels.hopper.ptx.arithmetic import HELPERS, TYPES, expression, immediate
from tests.kernels.hopper.ptx.parsing import Address, parsed

__all__ = ["LANES", "Program", "Stretch", "program_of"]

LANES = 32
_IGNORED = re.compile(
    r"setmaxnreg|griddepcontrol|prefetch|cp\.async\.bulk\.prefetch|fence\.mbarrier_init|\.pragma|membar|fence\.acq_rel"
)
# What others may notice, or a warp waits for.
_NOTICED = re.compile(r"mbarrier|bar\.|barrier\.|cp\.|wgmma\.(wait|commit)|atom|fence|st\.global|nanosleep")
_SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid|cluster_ctarank|laneid|cluster_nctarank)\b")


class Stretch:
    """Instructions without a branch but at the end: where that leads to, and the predicate that leads there."""

    def __init__(self, program, instructions, branch):
        self._program, self.instructions, self.branch = program, instructions, branch
        self.target, self.guard, self.is_end = None, None, False
        self._made = {}
        if branch is not None:
            self.is_end = branch.opcode in ("ret", "exit")
            self.guard = branch.guard and (program.register(branch.guard[0]), branch.guard[1])

    def function(self, whole):
        """For all lanes, or for some."""
        if whole not in self._made:
            self._made[whole] = self._program.function(self.instructions, whole)
        return self._made[whole]


class Program:
    """Stretches in the order of the text; ``kinds`` are types of registers by number."""

    def __init__(self, ptx):
        self.text = parsed(ptx)
        self.kinds, self._numbers, self._constants, self._places = [], {}, [], {}
        self.stretches, self._known = [], {}
        for each in self.text.instructions:
            self._number(each.operands)
        starts = set(self.text.labels.values())
        begun, at = [], {}
        for index, instruction in enumerate(self.text.instructions):
            if index in starts and begun:
                self._end(begun, None)
                begun = []
            if not begun:
                at[index] = len(self.stretches)
            is_branch = instruction.opcode.split(".")[0] in ("bra", "ret", "exit")
            if not is_branch:
                begun.append(instruction)
            if is_branch or _NOTICED.match(instruction.opcode):
                self._end(begun, instruction if is_branch else None)
                begun = []
        for each in self.stretches:
            if each.branch is not None and not each.is_end:
                each.target = at[self.text.labels[each.branch.operands[0]]]

    def _end(self, instructions, branch):
        self.stretches.append(Stretch(self, instructions, branch))

    def _number(self, operands):
        """Registers are known before any stretch is made."""
        for each in operands:
            if isinstance(each, tuple):
                self._number(each)
            elif isinstance(each, str):
                for name in each.lstrip("!").split("|"):
                    if (name.startswith("%") and not _SPECIAL.match(name)) or name in self.text.registers:
                        self.register(name)

    def register(self, name):
        """Its number."""
        if name not in self._numbers:
            prefix = name if name in self.text.registers else name.rstrip("0123456789")
            self._numbers[name] = len(self.kinds)
            self.kinds.append(TYPES[self.text.registers[prefix]])
        return self._numbers[name]

    def function(self, instructions, whole):
        """What does these instructions."""
        lines = [line for each in instructions for line in self._lines(each, whole)] or ["pass"]
        scope = {**HELPERS, "C": self._constants}
        exec("def stretch(w, R, M):\n" + "\n".join(f"    {line}" for line in lines), scope)
        return scope["stretch"]

    def of(self, operand, kind):
        """A source operand as an expression."""
        if isinstance(operand, tuple):
            return "(" + ", ".join(self.of(each, kind) for each in operand) + ",)"
        if _SPECIAL.match(operand):
            return f"w.special('{operand}')"
        if operand in self._numbers or operand.startswith("%") or operand in self.text.registers:
            return f"R[{self.register(operand)}]"
        if operand == "memory":
            return f"w.memory.astype('{TYPES[kind]}')"
        if operand in self.text.parameters:
            return f"w.parameter({self.text.parameters.index(operand)})"
        number = immediate(operand, kind)
        key = number.tobytes(), number.dtype
        if key not in self._known:
            self._known[key] = len(self._constants)
            self._constants.append(np.full(LANES, number))
        return f"C[{self._known[key]}]"

    def place(self, address, kind="u32"):
        """An address as an expression."""
        base = self.of(address.base, kind)
        return f"({base} + {self.of(str(address.offset), 'u64' if base[0] == 'w' else self._kind(address.base))})" \
            if address.offset else base  # fmt: skip

    def _kind(self, name):
        return {"u8": "u64", "u4": "u32"}[self.kinds[self.register(name)]]

    def _lines(self, instruction, whole):
        opcode = instruction.opcode
        if _IGNORED.match(opcode):
            return []
        if opcode.startswith("setp") and "|" in instruction.operands[0]:
            raise NotImplementedError(instruction.said)
        lines, mask = [], "M"
        if instruction.guard is not None:
            name, negated = instruction.guard
            lines, mask = [f"m = M & {'~' if negated else ''}R[{self.register(name)}]"], "m"
        whole = whole and mask == "M"
        made = self._moved(instruction) or self._arithmetic(instruction)
        if made is None:
            made = _EFFECTS.made(self, instruction, mask)
        for to, what in made:
            if to is None:
                lines.append(what)
            elif isinstance(to, tuple):
                lines.append(f"v = {what}")
                lines.extend(self._stored(each, f"v[{i}]", whole, mask) for i, each in enumerate(to) if each != "_")
            else:
                lines.append(self._stored(to, what, whole, mask))
        return lines

    def _stored(self, name, what, whole, mask):
        register = f"R[{self.register(name)}]"
        return f"{register} = {what}" if whole else f"{register} = where({mask}, {what}, {register})"

    def _arithmetic(self, instruction):
        opcode, (to, *given) = instruction.opcode, instruction.operands or (None,)
        kind = opcode.split(".")[-1]
        if kind not in TYPES and not opcode.startswith("cvt"):
            return None
        if any(isinstance(each, (Address, tuple)) for each in given) or opcode.split(".")[0] in ("shfl", "vote"):
            return None
        kinds = [kind if kind != "f16" else "b16"] * len(given)
        if opcode.startswith("selp"):
            kinds[2] = "pred"
        if opcode.startswith(("shl", "shr")):
            kinds[1] = "u32"
        if opcode.startswith("mad.wide"):
            kinds[2] = {"u32": "u64", "s32": "s64"}[kind]
        what = expression(opcode, [self.of(each, of) for each, of in zip(given, kinds, strict=True)])
        return None if what is None else [(to, what)]

    def _moved(self, instruction):
        """Moves between types, and of parts of a word."""
        if not instruction.opcode.startswith("mov"):
            return None
        to, given = instruction.operands
        kind = instruction.opcode.split(".")[1]
        if isinstance(to, tuple):
            parts = TYPES[kind][1:]
            part = f"u{int(parts) // 2}"
            return [(to, f"np.ascontiguousarray({self.of(given, kind)}).view('{part}').reshape({LANES}, 2).T")]
        if isinstance(given, tuple):
            return [(to, f"np.stack({self.of(given, kind)}, 1).view('{TYPES[kind]}').ravel()")]
        what = self.of(given, kind)
        source = self.kinds[self.register(given)] if what.startswith("R") else TYPES[kind]
        target = self.kinds[self.register(to)]
        return [(to, what if source == target else f"{what}.view('{target}')")]


class _EFFECTS:
    """What is more than arithmetic: (registers or none, what the warp does)."""

    @staticmethod
    def made(program, instruction, mask):
        opcode, operands = instruction.opcode, instruction.operands
        name = opcode.split(".")
        for pattern, make in _MADE:
            if re.match(pattern, opcode):
                return make(program, name, operands, mask)
        raise NotImplementedError(instruction.said)


def _load(p, name, operands, mask):
    to, address = operands
    kind, count = TYPES[name[-1]], next((int(each[1:]) for each in name if re.fullmatch(r"v\d", each)), 1)
    registers = to if isinstance(to, tuple) else (to,)
    wide = p.kinds[p.register(registers[0])]
    space = "param" if "param" in name else "shared" if any(each.startswith("shared") for each in name) else "global"
    signed = name[-1][0] == "s"
    return [(registers, f"w.load_{space}({p.place(address, 'u64')}, '{kind}', {count}, {mask}, '{wide}', {signed})")]


def _store(p, name, operands, mask):
    address, given = operands
    space = "shared" if any(each.startswith("shared") for each in name) else "global"
    given = given if isinstance(given, tuple) else (given,)
    return [(None, f"w.store_{space}({p.place(address, 'u64')}, {p.of(given, name[-1])}, '{TYPES[name[-1]]}', {mask})")]


def _wgmma(p, name, operands, mask):
    sums, a, b, *flags = operands
    numbers = tuple(p.register(each) for each in sums)
    of_a = tuple(p.register(each) for each in a) if isinstance(a, tuple) else ()
    given = "None" if of_a else p.of(a, "u64")
    adds, *signs = flags
    n = int(re.search(r"n(\d+)", next(each for each in name if each.startswith("m64n")))[1])
    return [(None, f"w.multiply({numbers}, {of_a}, {given}, {p.of(b, 'u64')}, {p.of(adds, 'pred')}, "
                   f"{tuple(map(int, signs))}, {n}, '{name[-1]}', {mask})")]  # fmt: skip


def _tensor(p, _name, operands, mask):
    to, source, barrier, *blocks = operands
    places = "(" + ", ".join(p.of(each, "u32") for each in source.coordinates) + ",)"
    target = p.of(blocks[0], "u16") if blocks else "None"
    return [(None, f"w.load_tensor({p.place(to)}, {p.of(source.base, 'u64')}, {places}, {p.place(barrier)}, {target}, "
                   f"{mask})")]  # fmt: skip


def _calls(method, *kinds):
    """A call with operands in these types."""

    def make(p, _name, operands, mask):
        given = [
            p.place(each) if isinstance(each, Address) else p.of(each, kind)
            for each, kind in zip(operands, kinds, strict=False)
        ]
        return [(None, f"w.{method}({', '.join((*given, mask))})")]

    return make


def _shuffle(p, name, operands, mask):
    to, given, lane, clamp, _members = operands
    value, _, _ = to.partition("|")
    mode = name[2]
    return [((value,), f"w.shuffle('{mode}', {p.of(given, 'b32')}, {p.of(lane, 'b32')}, {p.of(clamp, 'b32')}, {mask})")]


def _vote(p, name, operands, mask):
    to, given, _members = operands
    negated = given.startswith("!")
    return [((to,), f"w.vote('{name[2]}', {'~' * negated}{p.of(given.lstrip('!'), 'pred')}, {mask})")]


def _atomic(p, name, operands, mask):
    to, address, *given = operands
    return [((to,), f"w.atomic('{name[2]}', {p.place(address, 'u64')}, {p.of(given[0], 'u32')}, {mask})")]


def _try_wait(p, _name, operands, mask):
    done, barrier, phase = operands
    return [((done,), f"w.wait_barrier({p.place(barrier)}, {p.of(phase, 'u32')}, {mask})")]


_MADE = (
    (r"ld\.", _load),
    (r"st\.", _store),
    (r"atom\.", _atomic),
    (r"shfl\.", _shuffle),
    (r"vote\.", _vote),
    (r"mbarrier\.init", _calls("init_barrier", "u32", "u32")),
    (r"mbarrier\.arrive\.expect_tx", lambda p, n, o, m: _calls("expect", "u32", "u32")(p, n, o[1:], m)),
    (r"mbarrier\.arrive", lambda p, n, o, m: _calls("arrive", "u32", "u32")(p, n, o[1:], m)),
    (r"mbarrier\.try_wait", _try_wait),
    (r"mapa", lambda p, _n, o, m: [(o[0], f"w.of_block({p.of(o[1], 'u32')}, {p.of(o[2], 'u32')})")]),
    (r"bar\.sync|barrier\.sync", _calls("sync", "u32", "u32")),
    (r"bar\.warp", _calls("sync_warp", "u32")),
    (r"bar\.arrive", _calls("arrive_named", "u32", "u32")),
    (r"barrier\.cluster\.arrive", _calls("arrive_cluster")),
    (r"barrier\.cluster\.wait", _calls("wait_cluster")),
    (r"fence\.proxy", _calls("fence_proxy")),
    (r"wgmma\.fence", _calls("fence_products")),
    (r"wgmma\.commit", _calls("commit_products")),
    (r"wgmma\.wait", _calls("wait_products", "u32")),
    (r"wgmma\.mma", _wgmma),
    (r"cp\.async\.bulk\.tensor", _tensor),
    (r"cp\.async\.bulk\.shared", _calls("load_bulk", "u32", "u64", "u32", "u32")),
    (r"cp\.async\.bulk\.global", lambda p, n, o, m: _calls("store_bulk", "", "", "u32")(p, n, (*o,), m)),
    (r"cp\.reduce\.async\.bulk", lambda p, n, o, m: _calls("add_bulk", "", "", "u32")(p, n, (*o,), m)),
    (r"cp\.async\.bulk\.commit", _calls("commit_bulk")),
    (r"cp\.async\.bulk\.wait_group\.read", _calls("wait_bulk_read", "u32")),
    (r"cp\.async\.bulk\.wait_group", _calls("wait_bulk", "u32")),
    (r"stmatrix", _calls("store_matrices", "u32", "b32")),
    (r"ldmatrix", lambda p, _n, o, m: [(o[0], f"w.load_matrices({p.place(o[1])}, {m})")]),
)  # fmt: skip


@cache
def program_of(ptx):
    """Decoded once for all launches."""
    return Program(ptx)
