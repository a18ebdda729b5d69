"""The source of a kernel's module as the Gluon interpreter runs it, compiled once for all tests."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

__all__ = ["without_layouts"]


class _WithoutLayouts(ast.NodeTransformer):
    """Layouts that a kernel asks a tensor for are none here."""

    def visit_Attribute(self, node):
        is_layout = node.attr == "layout" and isinstance(node.value, ast.Attribute) and node.value.attr == "type"
        return ast.Constant(None) if is_layout else self.generic_visit(node)


@cache
def without_layouts(module_name):
    """What a module compiles to where layouts are none."""
    origin = importlib.util.find_spec(module_name).origin
    tree = ast.fix_missing_locations(_WithoutLayouts().visit(ast.parse(Path(origin).read_text())))
    return compile(tree, origin, "exec")
