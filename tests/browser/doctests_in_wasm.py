"""Runs in Pyodide: every doctest of the package that needs nothing a browser does not have, and a sweep's sum."""

import doctest
import importlib
import pkgutil

import attenio
from attenio.explorer import accept_wide_counts

# What is asked from outside: PyTorch, ml_dtypes, SciPy, networkx, numba, OR-Tools, plotly, a terminal, a thread pool.
MISSING = ("torch", "ml_dtypes", "scipy", "networkx", "numba", "ortools", "plotly", "typer", "rich", "safetensors",
           "pyarrow", "pandas", "llvmlite", "amaranth", "z3", "dask", "concurrent", "_multiprocessing", "ssl",
           "attenio.cli", "attenio.kernels")  # fmt: skip
accept_wide_counts()
attempted = failed = left_out = 0
for found in pkgutil.walk_packages(attenio.__path__, "attenio.", onerror=lambda _: None):
    if found.name.endswith("__main__"):
        continue
    try:
        module = importlib.import_module(found.name)
    except ImportError as problem:
        assert any(name in str(problem) for name in (*MISSING, "extra")), f"{found.name}: {problem}"
        left_out += 1
        continue
    finder, runner = (
        doctest.DocTestFinder(exclude_empty=True),
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS),
    )
    for test in finder.find(module, module.__name__):
        if not test.examples:
            continue
        said = []
        result = runner.run(test, out=said.append)
        text = "".join(said)
        if result.failed and any(
            f"No module named '{name}" in text or f"needs the '{name}" in text
            for name in (*MISSING, "pebble", "report", "torch")
        ):
            left_out += 1
            continue
        attempted += result.attempted
        failed += result.failed
        if result.failed:
            print(text[:1500])
print(f"{attempted} examples, {failed} failed, {left_out} modules and docstrings left out")
assert failed == 0 and attempted > 300
