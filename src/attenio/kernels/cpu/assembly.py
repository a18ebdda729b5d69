"""LLVM's language, as much of it as a kernel needs: names, loops and vectors of four floats.

Text, because it is what every version of LLVM reads; variables that loops change are slots, which LLVM turns into
registers.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

FLOAT4 = "<4 x float>"
# What is expected of conditions, for a module in which that is said.
EXPECTED = """!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{!"branch_weights", i32 1, i32 2000}"""


def pointer_to(address: int) -> str:
    """What lies at an address of this process."""
    return f"inttoptr (i64 {address} to ptr)"


def splat(value: float) -> str:
    """The same float in all four places, as LLVM writes it: the bits of the double of the same value."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return "<" + ", ".join([f"float 0x{struct.pack('>d', rounded).hex().upper()}"] * 4) + ">"


class Body:
    """A function's instructions, in the order in which they are given, and how it ends."""

    def __init__(self, end: str = "ret void") -> None:
        self._end = end
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._names = 0

    def __str__(self) -> str:
        return "\n".join(["entry:", *self._slots, *self._lines, f"  {self._end}"])

    def let(self, expression: str) -> str:
        """A new name for the value of an expression."""
        name = self._name()
        self.do(f"{name} = {expression}")
        return name

    def do(self, instruction: str) -> None:
        """An instruction without a value."""
        self._lines.append(f"  {instruction}")

    def slot(self, kind: str, initial: str | None = None) -> str:
        """A place for one value; it is initialised again wherever it is declared."""
        name = self._name()
        self._slots.append(f"  {name} = alloca {kind}, align 16")
        if initial is not None:
            self.do(f"store {kind} {initial}, ptr {name}")
        return name

    def at(self, pointer: str, *offsets: str, kind: str = "float") -> str:
        """A pointer moved on by all offsets, counted in elements."""
        for offset in offsets:
            pointer = self.let(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")
        return pointer

    def read(self, pointer: str, kind: str = FLOAT4, *, align: int = 4) -> str:
        """What lies there."""
        return self.let(f"load {kind}, ptr {pointer}, align {align}")

    def write(self, value: str, pointer: str, kind: str = FLOAT4) -> None:
        """Put a value there."""
        self.do(f"store {kind} {value}, ptr {pointer}, align 4")

    def call(self, name: str, kind: str, *values: str, result: str | None = None) -> str:
        """One of LLVM's own functions, of values of one kind."""
        given = ", ".join(f"{kind} {value}" for value in values)
        return self.let(f"call {result or kind} @llvm.{name}({given})")

    def muladd(self, left: str, right: str, added: str) -> str:
        """left * right + added, with one rounding where the processor can."""
        return self.call("fmuladd.v4f32", FLOAT4, left, right, added)

    @contextmanager
    def loop(self, stop: str, step: int = 1) -> Iterator[str]:
        """The instructions inside, for 0, step, ... below stop."""
        head, body, done = (self._name()[1:] for _ in range(3))
        slot = self.slot("i64", "0")
        self.do(f"br label %{head}")
        self._label(head)
        index = self.let(f"load i64, ptr {slot}")
        more = self.let(f"icmp slt i64 {index}, {stop}")
        self.do(f"br i1 {more}, label %{body}, label %{done}")
        self._label(body)
        yield index
        self.do(f"store i64 {self.let(f'add i64 {index}, {step}')}, ptr {slot}")
        self.do(f"br label %{head}")
        self._label(done)

    @contextmanager
    def endless(self) -> Iterator[str]:
        """The instructions inside again and again, until they go to the label that is given."""
        head, done = (self._name()[1:] for _ in range(2))
        self.begin(head, f"br label %{head}")
        yield done
        self.begin(done, f"br label %{head}")

    @contextmanager
    def only_if(self, condition: str, *, rarely: bool = False) -> Iterator[None]:
        """The instructions inside where the condition holds."""
        then, done = (self._name()[1:] for _ in range(2))
        self.do(f"br i1 {condition}, label %{then}, label %{done}{', !prof !1' if rarely else ''}")
        self._label(then)
        yield
        self.do(f"br label %{done}")
        self._label(done)

    def need(self, condition: str, otherwise: str) -> None:
        """Go on where the condition holds, as it nearly always does, and at a label otherwise."""
        then = self._name()[1:]
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}, !prof !0")
        self._label(then)

    def leave_unless(self, condition: str, done: str, *, mostly: bool = False) -> None:
        """Go on in a loop where the condition holds, and else to where it is done, which is ``mostly`` at once."""
        then = self._name()[1:]
        self.do(f"br i1 {condition}, label %{then}, label %{done}{', !prof !1' if mostly else ''}")
        self._label(then)

    def begin(self, name: str, end: str) -> None:
        """End what came before, and begin at a label of this name."""
        self.do(end)
        self._label(name)

    def _label(self, name: str) -> None:
        self._lines.append(f"{name}:")

    def _name(self) -> str:
        self._names += 1
        return f"%x{self._names}"
