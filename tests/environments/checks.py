"""What must work in an environment, called with the file of expected option names and the extras installed.

In place of the file ``-`` asks no command for its help. Needs nothing but attenio: the environment has no pytest.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

ATTENTION = (
    "import torch, attenio; q, k, v = (torch.randn(1, 2, 64, 16, requires_grad=True) for _ in range(3));"
    " out = attenio.attention(q, k, v, is_causal=True); out.sum().backward();"
    " ours = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True);"
    " assert (out - ours).abs().max() < 1e-5 and q.grad is not None; q.grad = None;"
    " out = attenio.attention(q, k, v, softcap=2.0); out.sum().backward(); (ours,) = torch.autograd.grad("
    "((2 * torch.tanh(q @ k.mT / 8)).softmax(-1) @ v).sum(), [q]); assert (q.grad - ours).abs().max() < 1e-4"
)
WITHOUT_TORCH = (
    "import attenio, pydoc; assert hasattr(attenio, 'attention'); pydoc.render_doc(attenio);"
    " exec('from attenio import *');"
    " attenio.best_plan(attenio.Workload(n=512, d=64), 'h100')"
)
SAFETENSORS = (
    "import numpy, safetensors.numpy; a = numpy.random.default_rng(0).normal(size=(3, 64, 8)).astype('float32') / 8;"
    " safetensors.numpy.save_file({'q': a[0], 'k': a[1].copy(), 'v': a[2].copy()}, 'heads.safetensors')"
)
LLAMA = (
    "import torch, transformers; from attenio.kernels.transformers import register; register();"
    " sizes = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4);"
    " tokens, found = torch.randint(1, 97, (2, 19)), []\n"
    "for name in ('attenio', 'eager'):\n"
    "    torch.manual_seed(0); config = transformers.LlamaConfig(**sizes, attn_implementation=name)\n"
    "    found.append(transformers.LlamaForCausalLM(config)(tokens).logits)\n"
    "torch.testing.assert_close(*found, atol=2e-5, rtol=1e-4)"
)
ONE_RANK = (
    "import os, torch; from attenio.cluster import attention;"
    " from torch.distributed.device_mesh import init_device_mesh;"
    " from torch.distributed.tensor import Shard, distribute_tensor;"
    " os.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0');"
    " mesh = init_device_mesh('cpu', (1,)); q = torch.randn(1, 2, 64, 16);"
    " out = attention(*[distribute_tensor(q, mesh, [Shard(2)])] * 3, mesh=mesh, is_causal=True).to_local();"
    " ours = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True);"
    " assert (out - ours).abs().max() < 1e-5; torch.distributed.destroy_process_group()"
)
TABLE = "from attenio import *; assert len(lower_bounds(Workload(n=64, d=8), 'h100').to_pandas()) > 3"
OF_EXTRA = {
    "report": [["attenio", "report", "--n", "1K", "--out", "report.html"]],
    "parquet": [["attenio", "sweep", "--n", "1K:4K:x2", "--d", "64,128", "--out", "sweep.parquet"]],
    "pandas": [["-c", TABLE]],
    "dask": [["attenio", "sweep", "--n", "1K:4K:x2", "--d", "64", "--cluster", "local:1", "--out", "sweep.csv"]],
    "approximation": [["-c", SAFETENSORS], ["attenio", "certify", "heads.safetensors", "--tolerance", "0.1", "--json"]],
    "pebble": [
        ["attenio", "pebble", "solve", "--graph", "attention", "--n", "2", "--d", "1", "--red", "5", "--json"],
        ["attenio", "pebble", "solve", "--graph", "pyramid", "--height", "3", "--red", "4", "--engine", "cp-sat"],
        ["attenio", "pebble", "bound", "--graph", "fft", "--points", "8", "--red", "4"],
        ["attenio", "pebble", "graph", "--graph", "fft", "--points", "8", "--out", "fft.graphml"],
        ["attenio", "pebble", "graph", "--graph", "fft.graphml"],
        ["attenio", "reorder", "--n", "2K", "--mask", "strided:256"],
    ],
    "rtl": [["attenio", "rtl", "build", "--machine", "attenio-64k", "--n", "32", "--d", "8", "--out", "rtl"]],
    "cpu": [["-c", ATTENTION], ["-c", "import llvmlite"]],
    "triton": [["-c", ATTENTION], ["-c", "import sys; sys.platform == 'linux' and __import__('triton')"]],
    "transformers": [["-c", LLAMA]],
    "cluster": [["-c", ONE_RANK], ["attenio", "plan", "--n", "8K", "--heads", "8", "--devices", "4", "--json"]],
    "docs": [["-c", "import sphinx, myst_parser, furo, latex2mathml"]],
    "dev": [["-c", "import pytest, xdist, hypothesis, importlinter, nbformat"], ["-m", "ruff", "--version"]],
    "torch": [["-c", ATTENTION], ["attenio", "bench", "--n", "64", "--dtype", "fp32", "--repeats", "1", "--no-flex"]],
}  # fmt: skip
OF_ALL = [
    ["attenio", "--version"],
    ["attenio", "plan", "--n", "1K", "--mask", "causal", "--value-dim", "32", "--json"],
    ["attenio", "run", "--n", "64", "--fast-bytes", "16KB"],
    ["attenio", "simulate", "--n", "1K", "--trace", "timeline.json"],
    ["-c", WITHOUT_TORCH],
]  # fmt: skip


def called(arguments: list[str]) -> tuple[bool, str]:
    """Whether Python, with these arguments, ended well, and what it said."""
    start = ["-m", *arguments] if arguments[0] == "attenio" else arguments
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:attenio", *start], capture_output=True, text=True
    )
    return done.returncode == 0, done.stdout + done.stderr


def help_is_right(command: str, expected: list[str]) -> tuple[bool, str]:
    """Whether the help of a command names every option it should."""
    well, said = called(["attenio", *command.split(), "--help"])
    shown = said.replace("│", " ").replace(",", " ").split()
    missing = [name for name in expected if name not in shown]
    return well and not missing, said + f"\nmissing: {missing}"


def main() -> int:
    """Every check; what failed is printed whole."""
    file, *extras = sys.argv[1:]
    names: dict[str, list[str]] = {} if file == "-" else json.loads(Path(file).read_text(encoding="utf-8"))
    helps = [(f"{command} --help", partial(help_is_right, command, expected)) for command, expected in names.items()]
    calls = [*OF_ALL, *(call for extra in extras for call in OF_EXTRA[extra])]
    checks = [*helps, *((" ".join(call)[:90], partial(called, call)) for call in calls)]
    failed = 0
    for what, check in checks:
        well, said = check()
        failed += not well
        print(f"  {'ok    ' if well else 'FAILED'} {what}", flush=True)
        if not well:
            print(said, flush=True)
    print(f"  {len(checks) - failed} of {len(checks)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
