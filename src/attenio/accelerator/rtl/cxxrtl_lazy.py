"""Parts of a compiled model that are evaluated only when something has changed: an input, a register, the clock's rise.

A model is evaluated several times a cycle, until nothing changes any more, and most of its parts are at rest then. So
every part remembers what it was given. It is passed over if that is still so, if its last evaluation left nothing
behind, and if no register is to be set.
"""

import re

_INPUT = re.compile(r"/\*input\*/ value<(\d+)> (\w+);")
_EVAL = "bool eval(performer *performer = nullptr) override;"
_COMMIT = "\t\tbool changed = false;\n"
_CELL = re.compile(r"if \((cell_\w+)\.commit\(observer\)\)")


def lazy(text: str, part: str) -> str:
    """The model with a part that is evaluated only when it must be; unchanged if it has no such part."""
    name = "p_" + part.replace("_", "__")
    opening, closing = f"struct {name} : public module {{", f"}}; // struct {name}\n"
    if opening not in text:
        return text
    start, end = text.index(opening), text.index(closing)
    members = text[start:end]
    clocked = "bool posedge_p_clk() const" in members
    inputs = [(bits, port) for bits, port in _INPUT.findall(members) if port != "p_clk"]
    cells = _CELL.findall(members)
    ticks = "prev_p_clk = p_clk;" if clocked else ""
    # those within hear the clock, too, where they are passed over with the whole
    ticks += "".join(f" {cell}.hear(p_clk);" for cell in cells) if clocked else ""
    hear = "p_clk = clock;" if clocked else ""
    same = " && ".join(["!stale", *(["!posedge_p_clk()"] if clocked else []), *(f"seen_{p} == {p}" for _, p in inputs)])
    more = [
        *(f"\tvalue<{bits}> seen_{port};" for bits, port in inputs),
        "\tbool stale = true, evaluated = true;",
        f"\tvoid hear(const value<1> &clock) {{ {hear} {ticks} }}",
        "\tbool eval(performer *performer = nullptr) override {",
        f"\t\tif ({same}) return true;",
        *(f"\t\tseen_{port} = {port};" for _, port in inputs),
        "\t\tevaluated = true;",
        "\t\treturn evaluate(performer);",
        "\t}",
        "\tbool evaluate(performer *performer);",
    ]
    members = members.replace(_EVAL, "\n".join(more)[1:])
    passed = f"\t\tif (!evaluated) {{ {ticks} return false; }}\n\t\tevaluated = false;\n"
    members = members.replace(_COMMIT, _COMMIT + passed)
    members = members.replace("\t\treturn changed;\n", "\t\treturn stale = changed;\n", 1)
    return text[:start] + members + text[end:].replace(f"bool {name}::eval(", f"bool {name}::evaluate(", 1)
