"""A compiled model of the accelerator: Yosys writes it as C++ (CXXRTL), each large part is compiled by itself.

MACs, EXP modules and lines are compiled once and kept, for many designs share them: their objects lie in the user's
cache, named after what they were made of.
"""

import re
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from attenio.accelerator.rtl.build import TOP, Built, write_rtlil
from attenio.accelerator.rtl.cxxrtl_lazy import lazy
from attenio.accelerator.rtl.tools import compiler, cxxrtl_headers, run_yosys
from attenio.errors import InvalidInput
from attenio.files import cache_folder, write_atomically

# Parts that stay as they are, however often they stand there, each after those that stand in it. They are compiled by
# themselves and optimised; what is left, wires and controllers, is long and runs once a cycle, so that it is not.
_APART = ("fp16_divide", "mac", "word_mac", "exp_module", "mac_line")
# Lines differ from machine to machine: only where there are many are they worth a compilation of their own.
_MANY_LINES = 16
# CXXRTL has every slice of a word written out where it stands, optimised or not. Where nothing is optimised that is
# most of a compilation; a call instead is as fast.
_CALLS = "-D__always_inline__=__unused__"


def compile_model(made: Built, driver: str, folder: Path, *, optimise: int = 0, waves: bool = False) -> Path:
    """The executable of a design and its driver."""
    files = write_rtlil(made, folder)
    script = [f"read_rtlil {path.name}" for path in files]
    script += [f"hierarchy -top {TOP}", "proc"]
    script += [f"setattr -mod -set keep_hierarchy 1 {part}" for part in _APART if part in made.parts]
    script += ["flatten", "opt_expr", "opt_clean", f"write_cxxrtl -noflatten -g{2 if waves else 0} model.cc"]
    run_yosys(script, folder)
    (folder / "driver.cc").write_text(driver)
    # without comments, which have the places of sources in them
    lines = (folder / "model.cc").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("//")) + "\n"
    for part in (*_APART, TOP):
        text = lazy(text, part)
    objects, known = [], ""
    for part in _APART:
        if part == "mac_line" and made.count(part) < _MANY_LINES:
            continue
        text, members, body = _split(text, part)
        if body:
            prelude = text[: text.index("namespace cxxrtl_design {")] + "namespace cxxrtl_design {\n"
            objects.append(_object(prelude + known + members + body + "\n}\n", folder))
            known += members
    (folder / "model.cc").write_text(text)
    _compile([f"-O{optimise}", *([] if optimise else [_CALLS]), "driver.cc", *map(str, objects), "-o", "model"], folder)
    return folder / "model"


def _split(text: str, part: str) -> tuple[str, str, str]:
    """The model without the functions of a part, its structure, and the functions."""
    name = "p_" + part.replace("_", "__")
    opening, closing = f"struct {name} : public module {{", f"}}; // struct {name}\n"
    if opening not in text:
        return text, "", ""
    start, end = text.index(opening), text.index(closing) + len(closing)
    following = text.find("\nstruct ", end)
    body = text[end:following] if following >= 0 else text[end : text.rindex("} // namespace")]
    named = _numbered_anew(text[start:end] + body)
    cut = named.index(closing) + len(closing)
    return text[:start] + named[:cut] + text[end + len(body) :], named[:cut], named[cut:]


def _numbered_anew(text: str) -> str:
    """The same part with the numbers that Yosys gave to names counted from the first: in every design the same text."""
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        return names.setdefault(match.group(), f"{match.group(1)}{len(names)}")

    return re.sub(r"\b(\w*_24_|tmp_|mem_init_)\d+\b", renamed, text)


def _object(text: str, folder: Path) -> Path:
    """The object of a part, compiled unless it is known."""
    flags = ["-O2", "-c"]
    key = sha256("\n".join([*compiler(), *flags, text]).encode()).hexdigest()[:24]
    kept = rtl_folder() / f"{key}.o"
    if kept.is_file():
        return kept
    (folder / f"{key}.cc").write_text(text)
    _compile([*flags, f"{key}.cc", "-o", f"{key}.o"], folder)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, (folder / f"{key}.o").read_bytes())
    except OSError:
        return folder / f"{key}.o"
    return kept


def rtl_folder() -> Path:
    """Where what takes long to make is kept."""
    return cache_folder() / "rtl"


def _compile(arguments: Sequence[str], folder: Path) -> None:
    command = [*compiler(), "-std=c++14", "-w", "-DCXXRTL_NDEBUG", f"-I{cxxrtl_headers()}", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if "error" in line] or ["it said nothing"]
        raise InvalidInput(f"the compiler {command[0]} stopped: {told[0].strip()}; set CXX to another")
