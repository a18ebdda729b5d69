"""PTX text as instructions: names of scopes are made unique, and labels are places."""

import re
from typing import NamedTuple

__all__ = ["Address", "Instruction", "Text", "parsed"]


class Address(NamedTuple):
    """``[base + offset]``; of a tensor load also its coordinates."""

    base: str
    offset: int
    coordinates: tuple[str, ...]


class Instruction(NamedTuple):
    """``guard`` is the predicate that lanes need, with whether it is negated."""

    opcode: str
    guard: tuple[str, bool] | None
    operands: tuple["str | Address | tuple[str, ...]", ...]
    said: str


class Text(NamedTuple):
    """A kernel: instructions, where labels are, types of registers by prefix or name, parameters, constants."""

    instructions: list[Instruction]
    labels: dict[str, int]
    registers: dict[str, str]
    parameters: tuple[str, ...]
    constants: dict[str, int]


_STATEMENT = re.compile(r"\s*(?:([{}])|([$\w]+):(?!:)|([^;{}]*(?:\{[^}]*\}[^;{}]*)*);)")


def parsed(text: str) -> Text:
    """The only kernel of a text."""
    text = re.sub(r"//[^\n]*", "", text)
    constants = {name: int(value) for name, value in re.findall(r"\.global [^;]*?(\w+) = (\d+);", text)}
    _, _, rest = text.partition(".visible .entry")
    parameters, _, body = rest.partition("{")
    found = Text([], {}, {}, tuple(re.findall(r"\.param [^,)]*?(\w+)\[?\d*\]?\s*[,)]", parameters)), constants)
    scopes: list[tuple[int, dict[str, str]]] = [(0, {})]
    count = at = 0
    while match := _STATEMENT.match(body, at):
        at = match.end()
        brace, label, said = match.groups()
        if brace == "{":
            count += 1
            scopes.append((count, {}))
        elif brace == "}":
            scopes.pop()
            if not scopes:
                break
        elif label:
            found.labels[_scoped(label, scopes)] = len(found.instructions)
        elif said.startswith(".reg"):
            _declare(said, scopes, found.registers)
        else:
            found.instructions.append(_instruction(said.strip(), scopes))
    return found


def _scoped(label, scopes):
    return label if label.startswith("$") else f"{label}@{scopes[-1][0]}"


def _declare(said, scopes, registers):
    _, kind, names = said.split(None, 2)
    for name in names.split(","):
        name = name.strip()
        if "<" in name:
            registers[name.partition("<")[0]] = kind[1:]
            continue
        number, known = scopes[-1]
        known[name] = f"{name}@{number}"
        registers[known[name]] = kind[1:]


def _instruction(said, scopes):
    guard = None
    rest = said
    if said.startswith("@"):
        name, rest = said[1:].split(None, 1)
        guard = _named(name.lstrip("!"), scopes), name.startswith("!")
    opcode, _, operands = rest.partition(" ") if " " in rest else rest.partition("\t")
    opcode, _, more = opcode.partition("\t")
    operands = f"{more} {operands}".strip()
    if opcode.startswith("bra"):
        return Instruction(opcode, guard, (_scoped(operands, scopes),), said)
    return Instruction(opcode, guard, tuple(_operand(each, scopes) for each in _parts(operands)), said)


def _parts(operands):
    """Cut at commas that no brackets are around."""
    depth, part = 0, ""
    for letter in operands:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += letter
    if part.strip():
        yield part.strip()


def _operand(said, scopes):
    if said.startswith("["):
        first, *rest = _parts(said[1:-1])
        base, _, offset = first.partition("+")
        coordinates = tuple(each.strip() for each in rest[0][1:-1].split(",")) if rest else ()
        return Address(_named(base.strip(), scopes), int(offset or 0), coordinates)
    if said.startswith("{"):
        return tuple(_named(each.strip(), scopes) for each in said[1:-1].split(","))
    return _named(said, scopes)


def _named(name, scopes):
    return next((known[name] for _, known in reversed(scopes) if name in known), name)
