"""How long does a first call of attention() take on a GPU: nothing compiled, a warm disk cache, new sizes?

    PYTHONPATH=src python studies/first-calls/run.py [--into FOLDER] [--commit NAME] [--only TEXT] [--at-once 4]

Every form runs in two processes of its own. The first has empty caches, also of Python's bytecode, the second those
that the first left. Each makes a call, then steps of training where the form has gradients, then the same at another
length, batch and number of heads, and writes down what each took until the GPU was done. Where a kernel stood in for
the best one, the call is then repeated until the best one runs: how long that was after the first call, and what the
call took that it first ran in. Importing PyTorch, starting
the GPU, one product on it and its gradient come before: PyTorch imports SymPy, which takes 1.7 s, for the first
gradient of a process. results.json is written after each form, and says at which commit it was measured, and with
how many processes at the same time; a form measured at the same commit is not measured again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.measurement.software import expect_gpu, software_of

# Batch, heads, KV heads, queries, keys, width; whether it trains; options of attention().
FORMS: dict[str, tuple[tuple[int, ...], bool, dict[str, Any]]] = {
    "causal d=64": ((2, 16, 16, 2048, 2048, 64), True, {"is_causal": True}),
    "full d=128": ((2, 16, 16, 2048, 2048, 128), True, {}),
    "causal d=128": ((2, 16, 16, 2048, 2048, 128), True, {"is_causal": True}),
    "causal d=72": ((2, 16, 16, 2048, 2048, 72), True, {"is_causal": True}),
    "causal d=192": ((2, 8, 8, 2048, 2048, 192), True, {"is_causal": True}),
    "causal d=256": ((2, 8, 8, 2048, 2048, 256), True, {"is_causal": True}),
    "window d=128": ((2, 16, 16, 2048, 2048, 128), True, {"window": 512}),
    "repeats to the bit d=128": ((2, 16, 16, 2048, 2048, 128), True, {"is_causal": True, "deterministic": True}),
    "soft cap d=128": ((2, 16, 16, 2048, 2048, 128), True, {"is_causal": True, "softcap": 50.0}),
    "causal d=320": ((2, 4, 4, 2048, 2048, 320), True, {"is_causal": True}),
    "causal fp32 d=64": ((2, 16, 16, 2048, 2048, 64), True, {"is_causal": True, "dtype": "float32"}),
    "decode d=128": ((8, 32, 8, 1, 8192, 128), False, {}),
    "short d=64": ((256, 12, 12, 197, 197, 64), True, {}),
}
# Seconds between calls that wait for the best kernel, and how long they do at most.
_PAUSE, _MOST = 0.01, 120.0


def measured(form: str) -> Iterator[tuple[str, float]]:
    """What calls of a form took in this process, in seconds, as they are made."""
    import torch

    from attenio import attention
    from attenio.kernels.replay import set_stand_ins
    from attenio.kernels.replay.standing_in import stand_ins_of_all_threads
    from attenio.measurement.ending import finish_gradients_at_exit

    finish_gradients_at_exit()
    set_stand_ins(True)  # as for a user
    (batch, heads, kv_heads, queries, keys, d), trains, options = FORMS[form]
    options = dict(options)
    dtype = getattr(torch, options.pop("dtype", "bfloat16"))
    square = torch.randn(256, 256, device="cuda", requires_grad=True)
    torch.autograd.grad(square @ square, square, torch.ones_like(square))

    def call(sizes: tuple[int, ...], *, trained: bool) -> Callable[[], object]:
        batch, heads, kv_heads, queries, keys, d = sizes
        shapes = (batch, heads, queries, d), (batch, kv_heads, keys, d), (batch, kv_heads, keys, d)
        q, k, v = (torch.randn(shape, device="cuda").to(dtype).requires_grad_(trained) for shape in shapes)
        gradient = torch.randn(shapes[0], device="cuda").to(dtype)

        def run() -> object:
            output = attention(q, k, v, enable_gqa=heads != kv_heads, **options)
            return torch.autograd.grad(output, (q, k, v), gradient) if trained else output

        torch.cuda.synchronize()
        return run

    first = (batch, heads, kv_heads, queries, keys, d)
    # Another length divides by nothing; of a step for one query only the keys grow.
    length = (batch, heads, kv_heads, queries if queries == 1 else queries + 333, keys + 333, d)
    others = {
        "another length": length, "another batch": (batch + 1, *first[1:]),
        "other heads": (batch, heads // 2, kv_heads // 2, *first[3:]),
    }  # fmt: skip
    for trained in (False, True) if trains else (False,):
        kind = "a step of training" if trained else "a call"
        stood_in: dict[str, tuple[float, Callable[[], object]]] = {}
        for name, sizes in {"first": first, "again": first, **others}.items():
            run, before = call(sizes, trained=trained), stand_ins_of_all_threads()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            yield f"{kind}, {name}", time.perf_counter() - start
            if stand_ins_of_all_threads() > before and name != "again":
                stood_in[name] = start, run
        for name, (start, run) in stood_in.items():
            before = -1
            while stand_ins_of_all_threads() > before:
                time.sleep(_PAUSE)
                before, last = stand_ins_of_all_threads(), time.perf_counter()
                run()
                torch.cuda.synchronize()
                if time.perf_counter() - start > _MOST:
                    raise RuntimeError(f"{form}: the best kernel for {name} is not there after {_MOST} s")
            yield f"{kind}, {name}, best kernel after", last - start
            yield f"{kind}, {name}, first on the best kernel", time.perf_counter() - last


def in_a_process(form: str, caches: str) -> dict[str, float]:
    environment = {
        **os.environ, "XDG_CACHE_HOME": caches, "TRITON_CACHE_DIR": f"{caches}/triton",
        "CUDA_CACHE_PATH": f"{caches}/cuda", "PYTHONPYCACHEPREFIX": f"{caches}/bytecode",
    }  # fmt: skip
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(
        [sys.executable, __file__, "--form", form], env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"{form}: {ran.stderr.strip().splitlines()[-1]}")
    seconds: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return seconds


def both(form: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="attenio-first-calls-") as caches:
        return {"form": form, "nothing compiled": in_a_process(form, caches), "warm disk": in_a_process(form, caches)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="folder of results.json")
    parser.add_argument("--commit", help="name of the commit, where there is no checkout")
    parser.add_argument("--only", help="measure forms that have this in their names only")
    parser.add_argument("--at-once", type=int, default=4, help="processes at the same time")
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    expect_gpu()
    if given.form:
        print(json.dumps(dict(measured(given.form))))
        return
    file = given.into / "results.json"
    made = {**asdict(provenance()), **software_of("cuda"), "at_once": given.at_once}
    made["commit"] = given.commit or made["commit"]
    before = json.loads(file.read_text()) if file.exists() else {}
    found = {row["form"]: row for row in before.get("forms", [])}
    done = {form for form, row in found.items() if row["commit"] == made["commit"]}
    wanted = [form for form in FORMS if (given.only or "") in form and form not in done]
    failed: list[str] = []
    with ThreadPoolExecutor(given.at_once) as pool:
        for row in as_completed([pool.submit(both, form) for form in wanted]):
            if row.exception():
                failed.append(str(row.exception()))
                print(failed[-1], flush=True)
                continue
            form = row.result()["form"]
            found[form] = {**row.result(), "commit": made["commit"], "at_once": given.at_once}
            for kind in ("nothing compiled", "warm disk"):
                times = ", ".join(f"{name} {seconds:.3f}" for name, seconds in found[form][kind].items())
                print(f"{form:26} {kind:16} seconds: {times}", flush=True)
            rows = [found[each] for each in FORMS if each in found]
            write_atomically(file, json.dumps({"provenance": made, "forms": rows}, indent=1) + "\n")
    if failed:
        sys.exit(f"{len(failed)} of {len(wanted)} forms did not run; the others are in {file}")


if __name__ == "__main__":
    main()
