"""Instructions on objects of Python and tensors of PyTorch, which refer to everything by one table of addresses."""

from attenio.kernels.call.tensor_layout import WORD, TensorLayout
from attenio.kernels.cpu.assembly import Body, pointer_to

# The arguments that are read, in their order.
NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa", "window")
# What the text refers to by address, in this order: objects, the names of arguments, functions of Python and PyTorch.
OBJECTS = (
    "Tensor", "Parameter", "None", "False", "True", "float", "int", "library", "refusals", "_version", "autocasts",
    "python",
)  # fmt: skip
FUNCTIONS = (
    "PyObject_Call", "PyObject_CallNoArgs", "PyObject_GetAttr", "PyErr_ExceptionMatches", "PyErr_Clear",
    "PyTuple_Pack", "PyDict_Next", "PyLong_AsLongLong", "PyLong_AsLongLongAndOverflow", "Py_IncRef", "Py_DecRef",
)  # fmt: skip
GRAD_MODE = "c10::GradMode::is_enabled"
# What an argument is that is not given, in the order of names.
DEFAULTS = (*(f"no {name}" for name in NAMES),)
LIBRARY = ("library's function", "library's self")
TABLE = (*OBJECTS, *NAMES, *DEFAULTS, *FUNCTIONS, GRAD_MODE, *LIBRARY)


class ObjectBody(Body):
    """Instructions on Python's objects and PyTorch's tensors."""

    def __init__(
        self, layout: TensorLayout, addresses: tuple[int, int, int], items: int, end: str, *, asks_autocast: bool
    ) -> None:
        super().__init__(end)
        self.layout, self.items, self.asks_autocast = layout, items, asks_autocast
        # Nobody is to know that these are constants: every use of one would have it anew, in ten bytes.
        self.table, self.entries, self.masks = (
            self.let(f'call ptr asm "", "=r,0"(ptr {pointer_to(address)})') for address in addresses
        )

    def known(self, name: str) -> str:
        """What the table has under this name."""
        return self.load(self.table, WORD * TABLE.index(name), "ptr")

    def load(self, pointer: str, offset: int = 0, kind: str = "i64") -> str:
        """What lies so many bytes further."""
        return self.let(f"load {kind}, ptr {self.at(pointer, str(offset), kind='i8')}")

    def call_of(self, result: str, name: str, *given: str) -> str:
        """What a function gives for objects and other pointers; nothing if the result is void."""
        call = f"call {result} {self.known(name)}({', '.join(f'ptr {each}' for each in given)})"
        if result != "void":
            return self.let(call)
        self.do(call)
        return ""

    def is_one(self, pointer: str, name: str) -> str:
        """Whether it is this very object."""
        return self.let(f"icmp eq ptr {pointer}, {self.known(name)}")

    def is_a(self, given: str, name: str) -> str:
        """Whether an object is of this very class."""
        return self.is_one(self.load(given, WORD, "ptr"), name)

    def all_of(self, operation: str, first: str, *others: str, kind: str = "i64") -> str:
        """All of them by one operation."""
        for each in others:
            first = self.let(f"{operation} {kind} {first}, {each}")
        return first

    def apart(self, *pairs: tuple[str, str]) -> str:
        """Zero where each two are the same."""
        return self.all_of("or", *(self.let(f"xor i64 {mine}, {theirs}") for mine, theirs in pairs))

    def need_zero(self, word: str, otherwise: str) -> None:
        """Go on where a word is zero."""
        self.need(self.let(f"icmp eq i64 {word}, 0"), otherwise)

    def flag(self, condition: str, shift: int) -> str:
        """A condition as a bit of a word."""
        return self.let(f"shl i64 {self.let(f'zext i1 {condition} to i64')}, {shift}")

    def choice(self, condition: str, one: str, other: str) -> str:
        """One word where a condition holds, or else another."""
        return self.let(f"select i1 {condition}, i64 {one}, i64 {other}")
