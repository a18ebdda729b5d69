"""The limits that CONTRIBUTING sets on the source, and every exception to them with its reason."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attenio

SOURCE = Path(attenio.__file__).parent
MOST_PARAMETERS = 7
MOST_LINES = 350
# Compiled for a GPU: pointers, strides, sizes and constants are parameters there.
KERNEL_DECORATORS = ("gluon.jit", "triton.jit")
MORE_PARAMETERS = {
    "kernels/attention.py attention": "the signature of PyTorch's scaled_dot_product_attention comes first in it",
    "kernels/transformers.py forward": "the signature that transformers calls",
}
# A band is two numbers. These have both, and every other value holds one of these.
SPELLS_A_BAND = {
    "kernels/call/visibility.py Visibility": "what is visible",
    "kernels/gpu/band.py Band": "the same in 32 bits, as kernels count",
    "kernels/torch_operator/schema.py Arguments": "a registered operator takes tensors and numbers only",
    "kernels/torch_operator/schema.py BackwardArguments": "the same",
}
# Matches on dataflows that a new member need not know: all others end in assert_never, so that mypy lists them.
LEAVES_DATAFLOWS_OUT = {
    "accelerator/controller.py program_of": "few dataflows have a program; the others are refused with their names",
    "report/reproduction.py paper_volume_words": "the paper has formulas for four",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Where a module defines a private name, and where anything but an attribute mentions one.
DEFINED = re.compile(r"^(?:def |class )?(_[a-zA-Z]\w*)(?=[(:,]| =)", re.MULTILINE)
MENTIONED = re.compile(r"(?<![\w.])_[a-zA-Z]\w*")


def modules() -> list[tuple[str, str]]:
    """Every module of the package: its path and its text."""
    return [(path.relative_to(SOURCE).as_posix(), path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]


@cache
def parsed() -> list[tuple[str, ast.Module]]:
    """Every module of the package: its path and what it says."""
    return [(path, ast.parse(text)) for path, text in modules()]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a node, also nested ones; expressions are not looked into."""
    for block in ("body", "orelse", "handlers", "finalbody", "cases"):
        for each in getattr(node, block, ()):
            yield each
            yield from statements(each)


def functions(node: ast.AST) -> Iterator[Function]:
    """The functions in a node, also nested ones."""
    return (each for each in statements(node) if isinstance(each, Function))


def parameters(function: Function) -> int:
    """How many parameters a caller may fill, besides ``self``."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([each for each in given if each.arg not in ("self", "cls")])


def is_kernel(function: Function) -> bool:
    return any(ast.unparse(each).startswith(KERNEL_DECORATORS) for each in function.decorator_list)


def test_a_function_has_at_most_seven_parameters_unless_its_signature_belongs_to_another() -> None:
    every = [(f"{path} {each.name}", each) for path, tree in parsed() for each in functions(tree)]
    assert len(every) > 1000
    more = {name for name, each in every if parameters(each) > MOST_PARAMETERS and not is_kernel(each)}
    assert more == set(MORE_PARAMETERS)


def test_a_module_has_at_most_350_lines() -> None:
    in_cuda = [(path.name, path.read_text()) for path in SOURCE.rglob("*.cu")]
    assert len(in_cuda) > 5
    every = modules() + in_cuda
    assert [(path, lines) for path, text in every if (lines := len(text.splitlines())) > MOST_LINES] == []


def test_a_private_name_is_used_by_its_module_or_by_one_that_imports_it() -> None:
    mentioned = {path: Counter(MENTIONED.findall(text)) for path, text in modules()}
    defined = {path: set(DEFINED.findall(text)) for path, text in modules()}
    assert sum(map(len, defined.values())) > 1000
    taken = {name for path, names in mentioned.items() for name in names.keys() - defined[path]}
    once = {(path, name) for path, names in defined.items() for name in names if mentioned[path][name] == 1}
    assert [f"{path} {name}" for path, name in sorted(once) if name not in taken] == []


def test_only_the_face_of_a_package_lists_what_it_exports() -> None:
    assert [path for path, text in modules() if not path.endswith("__init__.py") and "\n__all__" in text] == []


def test_what_is_visible_is_spelled_once() -> None:
    spelled = {
        f"{path} {node.name}"
        for path, tree in parsed()
        if path.startswith("kernels/")
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and {"below", "above"} <= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    }
    assert spelled == set(SPELLS_A_BAND)


def test_the_kernels_are_at_most_a_dozen_files_and_folders_besides_their_face() -> None:
    entries = {path.name for path in (SOURCE / "kernels").iterdir()} - {"__init__.py", "__pycache__"}
    assert len(entries) <= 12, sorted(entries)


def test_every_match_on_dataflows_is_exhaustive() -> None:
    matches = {
        f"{path} {function.name}": ast.unparse(node.cases[-1].body[-1])
        for path, tree in parsed()
        for function in functions(tree)
        for node in statements(function)
        if isinstance(node, ast.Match) and "Dataflow." in ast.unparse(node.cases[0].pattern)
    }
    assert len(matches) > 10
    assert {name for name, last in matches.items() if "assert_never" not in last} == set(LEAVES_DATAFLOWS_OUT)
