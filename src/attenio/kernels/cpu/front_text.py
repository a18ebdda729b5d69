"""The front of ``attention()`` in LLVM's language: is this a call of a known form, and if so, PyTorch's function.

It takes arguments as Python has them, a tuple and a dictionary, and hands the same two on: to PyTorch's function, or,
with whatever is not known here, to ``attention()`` as it is written in Python. So nothing is made, and references are
those of the caller. What a call is known by are ``FORM`` words, in one place for looking up and for remembering:

- flags: the type, is_causal, enable_gqa, whether gradients are enabled, the number of dimensions, and of a mask whether
  there is one, whether it is added, and its dimensions;
- sizes of queries, and those of keys, which values share; where no gradients are enabled, in place of the number of
  keys the bits in the number of their bytes, as a cache grows with every call;
- the scale, and the window.

A kernel leaves next to nothing of this code in the caches, so it is short: a form and what is to be called are a line
of the cache, addresses lie in one table, and tests are made together.
"""

import torch

from attenio.kernels.call.tensor_layout import MOST_DIMENSIONS, TYPE_NUMBERS, WORD, TensorLayout
from attenio.kernels.cpu.assembly import EXPECTED
from attenio.kernels.cpu.object_body import DEFAULTS, GRAD_MODE, LIBRARY, NAMES, TABLE, ObjectBody

# Words of a form; and of an entry, whose last one has the address of options, if any, and these flags.
FORM, ENTRY = 7, 8
USED, LOOKS = 1, 2
# Entries, and places for masks that were looked at, as powers of two.
ENTRY_BITS, MASK_BITS = 10, 6
_INFINITY_BITS = 0x7FF0000000000000
# Floats by number of their type, and two to the power of what are the bytes of an element.
_SIZE_BITS = {5: 1, 15: 1, 6: 2, 7: 3}
_ATTRIBUTES = 'nounwind optsize "no-builtins"'


def front_text(layout: TensorLayout, table: int, entries: int, masks: int, *, items: int, asks_autocast: bool) -> str:
    """The module: ``attention``, and ``place``, which writes a form and gives the first word of its entry, or -1.

    ``table``, ``entries`` and ``masks`` are addresses; ``items``: bytes up to the first item of a tuple.
    ``asks_autocast``: whether calls under autocast go to Python.
    """
    attention, place = (
        ObjectBody(layout, (table, entries, masks), items, end, asks_autocast=asks_autocast)
        for end in ("ret ptr null", "ret i64 -1")
    )
    _attention(attention)
    _place(place)
    return "\n".join(
        [
            "declare i64 @llvm.ctlz.i64(i64, i1)",
            f"define ptr @attention(ptr %self, ptr %args, ptr %named) {_ATTRIBUTES} {{", str(attention), "}",
            f"define i64 @place(ptr %args, ptr %named, ptr %words) {_ATTRIBUTES} {{", str(place), "}",
            EXPECTED,
        ]
    )  # fmt: skip


def _attention(body: ObjectBody) -> None:
    given, words = _form(body, "python")
    entry = body.at(body.entries, _first_word(body, words), kind="i64")
    found = body.load(entry, WORD * FORM)
    body.need(body.let(f"icmp ne i64 {found}, 0"), "python")
    with body.only_if(body.let(f"icmp ne i64 {body.let(f'and i64 {found}, {LOOKS}')}, 0"), rarely=True):
        _need_tame(body, given[3], "python")
    options = body.let(f"and i64 {found}, {-8}")
    result = body.slot("ptr")
    body.need(body.let(f"icmp eq i64 {options}, 0"), "otherwise")
    output = body.call_of("ptr", LIBRARY[0], body.known(LIBRARY[1]), "%args", "%named")
    body.do(f"store ptr {output}, ptr {result}")
    body.begin("done", "br label %done")
    output = body.load(result, kind="ptr")
    body.need(body.let(f"icmp ne ptr {output}, null"), "refused")
    body.begin("otherwise", f"ret ptr {output}")
    _call_otherwise(body, given, body.let(f"inttoptr i64 {options} to ptr"), result)
    # What PyTorch refuses the checks of the whole call refuse in words, or it is computed.
    body.begin("refused", "br label %done")
    matches = body.call_of("i32", "PyErr_ExceptionMatches", body.known("refusals"))
    body.need(body.let(f"icmp ne i32 {matches}, 0"), "raised")
    body.call_of("void", "PyErr_Clear")
    body.begin("python", "br label %python")
    output = body.call_of("ptr", "PyObject_Call", body.known("python"), "%args", "%named")
    body.begin("raised", f"ret ptr {output}")


def _call_otherwise(body: ObjectBody, given: list[str], options: str, result: str) -> None:
    """PyTorch's function with the options of the form, among which is a mask that is made of a window."""
    tensors = [body.load(slot, kind="ptr") for slot in given[:4]]
    number = body.choice(body.is_one(tensors[3], "None"), "3", "4")
    listed = ", ".join(f"ptr {each}" for each in tensors)
    packed = body.let(f"call ptr (i64, ...) {body.known('PyTuple_Pack')}(i64 {number}, {listed})")
    body.need(body.let(f"icmp ne ptr {packed}, null"), "raised")
    # Whoever forgets forms while this one runs is not to free its options.
    body.call_of("void", "Py_IncRef", options)
    output = body.call_of("ptr", "PyObject_Call", body.known("library"), packed, options)
    for each in (options, packed):
        body.call_of("void", "Py_DecRef", each)
    body.do(f"store ptr {output}, ptr {result}")


def _place(body: ObjectBody) -> None:
    _given, words = _form(body, "none")
    for i, word in enumerate(words):
        body.do(f"store i64 {word}, ptr {body.at('%words', str(i), kind='i64')}")
    first = _first_word(body, words)
    body.begin("none", f"ret i64 {first}")


def _form(body: ObjectBody, otherwise: str) -> tuple[list[str], list[str]]:
    """Places of all arguments in their order, and the words of the form; ``otherwise`` is where all else goes."""
    given = _arguments(body, otherwise)
    query, key, value, mask, dropout, causal, scale, grouped, window = (body.load(slot, kind="ptr") for slot in given)
    with body.only_if(body.let(f"icmp ne ptr {dropout}, null"), rarely=True):
        body.need(body.is_a(dropout, "float"), otherwise)
        body.need_zero(body.load(dropout, 2 * WORD), otherwise)
    switches = [_switch(body, each, otherwise) for each in (causal, grouped)]
    scaled, span = _scale(body, scale, otherwise), _window(body, window, otherwise)
    tensors = _tensors(body, (query, key, value), otherwise)
    count = body.load(tensors[0], body.layout.sizes - WORD)
    body.need(body.let(f"icmp ult i64 {body.let(f'sub i64 {count}, 2')}, {MOST_DIMENSIONS - 1}"), otherwise)
    dtype = body.load(tensors[0], body.layout.type, "i16")
    known, size_bits = [], "0"
    for number, bits in _SIZE_BITS.items():
        known.append(body.let(f"icmp eq i16 {dtype}, {number}"))
        size_bits = body.choice(known[-1], str(bits), size_bits)
    body.need(body.all_of("or", *known, kind="i1"), otherwise)
    kind = _mask(body, mask, dtype, otherwise)
    # A bool of C has eight bits; what lies above them is nobody's.
    enabled = body.let(f"icmp ne i8 {body.let(f'call i8 {body.known(GRAD_MODE)}()')}, 0")
    if body.asks_autocast:
        answer = body.call_of("ptr", "PyObject_CallNoArgs", body.known("autocasts"))
        body.call_of("void", "Py_DecRef", answer)
        body.need(body.is_one(answer, "False"), otherwise)
    sizes = _sizes(body, tensors, (count, size_bits, enabled), otherwise)
    parts = [body.flag(each, 16 + i) for i, each in enumerate((*switches, enabled))]
    typed = body.let(f"zext i16 {dtype} to i64")
    flags = body.all_of("or", typed, *parts, kind, body.let(f"shl i64 {count}, 32"))
    return given, [flags, *sizes, scaled, span]


def _arguments(body: ObjectBody, otherwise: str) -> list[str]:
    """Places of all arguments in their order; what is not given is null."""
    size = len(NAMES)
    places = body.slot(f"[{size} x ptr]")
    number = body.load("%args", 2 * WORD)
    body.need(body.let(f"icmp ult i64 {number}, {size}"), otherwise)  # a window has a name
    given = [body.at(places, str(i), kind="ptr") for i in range(size)]
    # Without branches, which are guessed wrong where code was not run for a while.
    for i, place in enumerate(given):
        from_table = body.at(body.table, str(WORD * TABLE.index(DEFAULTS[i])), kind="i8")
        from_tuple = body.at("%args", str(body.items + WORD * i), kind="i8")
        source = body.let(f"select i1 {body.let(f'icmp ugt i64 {number}, {i}')}, ptr {from_tuple}, ptr {from_table}")
        body.do(f"store ptr {body.load(source, kind='ptr')}, ptr {place}")
    with body.only_if(body.let("icmp ne ptr %named, null")):
        position, name, value = body.slot("i64", "0"), body.slot("ptr"), body.slot("ptr")
        with body.loop(body.load("%named", 2 * WORD)):
            more = body.call_of("i32", "PyDict_Next", "%named", position, name, value)
            body.need(body.let(f"icmp ne i32 {more}, 0"), otherwise)
            met, place = body.load(name, kind="ptr"), "-1"
            for i, each in enumerate(NAMES):
                place = body.choice(body.is_one(met, each), str(i), place)
            # One that is no name, or given already, is before the first that is not given.
            body.need(body.let(f"icmp sge i64 {place}, {number}"), otherwise)
            body.do(f"store ptr {body.load(value, kind='ptr')}, ptr {body.at(places, place, kind='ptr')}")
    return given


def _switch(body: ObjectBody, given: str, otherwise: str) -> str:
    """Whether it is True, and not False."""
    on = body.is_one(given, "True")
    body.need(body.all_of("or", body.is_one(given, "False"), on, kind="i1"), otherwise)
    return on


def _scale(body: ObjectBody, given: str, otherwise: str) -> str:
    """The bits of a positive and finite scale; 0 for none."""
    place = body.slot("i64", "0")
    with body.only_if(body.let(f"icmp ne ptr {given}, {body.known('None')}"), rarely=True):
        body.need(body.is_a(given, "float"), otherwise)
        bits = body.load(given, 2 * WORD)
        # Bits of positive numbers are in order, and those of negative ones beyond.
        body.need(body.let(f"icmp ult i64 {body.let(f'sub i64 {bits}, 1')}, {_INFINITY_BITS - 1}"), otherwise)
        body.do(f"store i64 {bits}, ptr {place}")
    return body.load(place)


def _window(body: ObjectBody, given: str, otherwise: str) -> str:
    """A window and one; 0 for none."""
    place = body.slot("i64", "0")
    with body.only_if(body.let(f"icmp ne ptr {given}, null"), rarely=True):
        body.need(body.is_a(given, "int"), otherwise)
        number = body.call_of("i64", "PyLong_AsLongLongAndOverflow", given, body.slot("i32", "0"))
        body.need(body.let(f"icmp ult i64 {number}, {2**62}"), otherwise)  # it gives -1 for what is too large
        body.do(f"store i64 {body.let(f'add i64 {number}, 1')}, ptr {place}")
    return body.load(place)


def _tensors(body: ObjectBody, given: tuple[str, ...], otherwise: str) -> list[str]:
    """Tensors of objects: dense, on a CPU, of no class of their own; all of one type and number of sizes."""
    classes = [body.load(each, WORD, "i64") for each in given]
    usual = body.load(body.table, WORD * TABLE.index("Tensor"))
    with body.only_if(body.let(f"icmp ne i64 {body.apart(*((each, usual) for each in classes))}, 0"), rarely=True):
        for each in given:
            either = body.all_of("or", body.is_a(each, "Tensor"), body.is_a(each, "Parameter"), kind="i1")
            body.need(either, otherwise)
    layout = body.layout
    tensors = [body.load(each, layout.tensor, "ptr") for each in given]
    keys, *of_others = (body.load(each, layout.keys) for each in tensors)
    first, *types = (body.let(f"zext i16 {body.load(each, layout.type, 'i16')} to i64") for each in tensors)
    count, *counts = (body.load(each, layout.sizes - WORD) for each in tensors)
    most, least = layout.plain_keys
    body.need(body.let(f"icmp eq i64 {body.let(f'or i64 {keys}, {most & ~least}')}, {most}"), otherwise)
    if len(tensors) > 1:
        pairs = [*((keys, each) for each in of_others), *((first, each) for each in types)]
        body.need_zero(body.apart(*pairs, *((count, each) for each in counts)), otherwise)
    return tensors


def _sizes(body: ObjectBody, tensors: list[str], known: tuple[str, str, str], otherwise: str) -> list[str]:
    """Sizes of queries and of keys, two in a word; ``known``: their number, bits of an element, gradient mode."""
    count, size_bits, enabled = known
    there = [body.let(f"icmp ugt i64 {count}, {i}") for i in range(MOST_DIMENSIONS)]
    queries, keys, values = (
        [
            each if i < 2 else body.choice(there[i], each, "0")
            for i in range(MOST_DIMENSIONS)
            for each in [body.load(tensor, body.layout.sizes + WORD * i)]
        ]
        for tensor in tensors
    )
    body.need_zero(body.apart(*zip(keys, values, strict=True)), otherwise)
    body.need_zero(body.let(f"lshr i64 {body.all_of('or', *queries, *keys)}, 32"), otherwise)
    elements = body.all_of("mul", *(body.choice(there[i], each, "1") for i, each in enumerate(keys)))
    # Of what is one less: the longest keys that are short are a power of two.
    less = body.let(f"sub i64 {body.let(f'shl i64 {elements}, {size_bits}')}, 1")
    bits = body.let(f"sub i64 64, {body.let(f'call i64 @llvm.ctlz.i64(i64 {less}, i1 false)')}")
    grows = body.let(f"xor i1 {enabled}, true")
    for i in range(MOST_DIMENSIONS - 1):
        is_number = body.let(f"and i1 {grows}, {body.let(f'icmp eq i64 {count}, {i + 2}')}")
        keys[i] = body.choice(is_number, bits, keys[i])
    every = [*queries, *keys]
    return [
        body.let(f"or i64 {each}, {body.let(f'shl i64 {other}, 32')}")
        for each, other in zip(every[::2], every[1::2], strict=True)
    ]


def _mask(body: ObjectBody, given: str, dtype: str, otherwise: str) -> str:
    """Flags of a mask: whether there is one, whether it is added, and its number of dimensions."""
    place = body.slot("i64", "0")
    with body.only_if(body.let(f"icmp ne ptr {given}, {body.known('None')}"), rarely=True):
        (tensor,) = _tensors(body, (given,), otherwise)
        kind = body.load(tensor, body.layout.type, "i16")
        added = body.let(f"icmp eq i16 {kind}, {dtype}")
        hides = body.let(f"icmp eq i16 {kind}, {TYPE_NUMBERS[torch.bool]}")
        body.need(body.all_of("or", added, hides, kind="i1"), otherwise)
        count = body.load(tensor, body.layout.sizes - WORD)
        flags = body.let(f"or i64 {body.let(f'shl i64 {count}, 40')}, {2**20}")
        body.do(f"store i64 {body.let(f'or i64 {flags}, {body.flag(added, 21)}')}, ptr {place}")
    return body.load(place)


def _first_word(body: ObjectBody, words: list[str]) -> str:
    """The first word of the entry of a form, or of the first free one, by its number."""
    mixed = words[0]
    for i, word in enumerate(words[1:]):
        factor = (0x9E3779B97F4A7C15 * (2 * i + 1)) % 2**31 | 1
        mixed = body.let(f"add i64 {mixed}, {body.let(f'mul i64 {word}, {factor}')}")
    mixed = body.let(f"mul i64 {mixed}, {0xBF58476D1CE4E5B9 - 2**64}")
    mixed = body.let(f"xor i64 {mixed}, {body.let(f'lshr i64 {mixed}, 32')}")
    place = body.slot("i64")
    last = (2**ENTRY_BITS - 1) * ENTRY
    body.do(f"store i64 {body.let(f'and i64 {mixed}, {last}')}, ptr {place}")
    with body.endless() as done:
        first = body.load(place)
        entry = body.at(body.entries, first, kind="i64")
        apart = body.apart(*((word, body.load(entry, WORD * i)) for i, word in enumerate(words)))
        used = body.let(f"icmp ne i64 {body.load(entry, WORD * FORM)}, 0")
        other = body.let(f"and i1 {used}, {body.let(f'icmp ne i64 {apart}, 0')}")
        body.leave_unless(other, done, mostly=True)
        following = body.let(f"and i64 {body.let(f'add i64 {first}, {ENTRY}')}, {last}")
        body.do(f"store i64 {following}, ptr {place}")
    return body.load(place)


def _need_tame(body: ObjectBody, place: str, otherwise: str) -> None:
    """That a mask was looked at, and not written to since."""
    mask = body.load(place, kind="ptr")
    address = body.let(f"ptrtoint ptr {mask} to i64")
    number = body.let(f"and i64 {body.let(f'lshr i64 {address}, 4')}, {2**MASK_BITS - 1}")
    known = body.at(body.masks, body.let(f"shl i64 {number}, 1"), kind="i64")
    body.need_zero(body.apart((address, body.load(known))), otherwise)
    version = body.call_of("ptr", "PyObject_GetAttr", mask, body.known("_version"))
    body.need(body.let(f"icmp ne ptr {version}, null"), "refused")
    count = body.call_of("i64", "PyLong_AsLongLong", version)
    body.call_of("void", "Py_DecRef", version)
    body.need_zero(body.apart((count, body.load(known, WORD))), otherwise)
