"""``bench`` and ``profile`` where the command line's libraries are not: NumPy and PyTorch are enough, JSON comes out.

python -m attenio.measurement bench --n 8K --heads 16 --d 128 --dtype bf16 --device cuda --out bench.json
python -m attenio.measurement profile --n 64K --heads 4 --d 128 --dtype bf16
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from attenio.errors import AttenioError, MissingExtra

try:
    import torch
except ImportError:
    print(f"attenio: {MissingExtra('attenio.measurement', 'torch')}", file=sys.stderr)
    raise SystemExit(2) from None

from attenio.measurement.bench import bench
from attenio.measurement.profile import CONTENDERS, profile
from attenio.measurement.provenance import provenance
from attenio.measurement.record import Record
from attenio.measurement.software import software_of
from attenio.quantities import parse_count
from attenio.workload import Workload

_COUNTS = ("n", "queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch")
_TEXTS = ("mask", "dtype", "direction")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one JSON value; 2 and one line where something was asked wrongly."""
    asked = _parser().parse_args(arguments)
    try:
        print(json.dumps(_answer(asked), indent=1))
    except AttenioError as problem:
        print(f"attenio: {problem}", file=sys.stderr)
        return 2
    return 0


def _answer(asked: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {
        name: parse_count(text, name) if name in _COUNTS else text
        for name in (*_COUNTS, *_TEXTS)
        if (text := getattr(asked, name)) is not None
    }
    workload = Workload(**given)
    provenance_fields = asdict(provenance())
    torch.manual_seed(0)
    if asked.what == "profile":
        profiled = profile(workload, names=asked.contender or CONTENDERS)
        return {**profiled.to_json(), **software_of("cuda"), "provenance": provenance_fields}
    record = None if asked.out is None else Record(asked.out, provenance_fields)
    timed = bench(workload, asked.device, repeats=asked.repeats, flex=asked.flex, record=record)
    return {**timed.to_json(), "provenance": provenance_fields}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attenio.measurement", description="Times or DRAM bytes, as JSON.")
    parser.add_argument("what", choices=("bench", "profile"))
    for name in (*_COUNTS, *_TEXTS):
        parser.add_argument(f"--{name.replace('_', '-')}", required=name == "d")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--flex", action="store_true", help="FlexAttention too: it has to be compiled first")
    parser.add_argument("--out", help="keep every sample in this file; what it holds is not timed again")
    parser.add_argument("--contender", action="append", help="count this one; may be repeated")
    return parser


if __name__ == "__main__":
    sys.exit(main())
