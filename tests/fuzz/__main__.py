"""Keep looking for calls of ``attention()`` that do not agree with the definition.

    PYTHONPATH=src:tests python -m fuzz --seconds 60 --seed 0 --device cpu
    PYTHONPATH=src:tests python -m fuzz --calls 500 --device cuda

The same seed makes the same calls. NumPy and PyTorch are enough. What fails is printed as a program of a few lines.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from attenio.errors import MissingExtra

try:
    import torch
except ImportError:
    print(f"attenio: {MissingExtra('the fuzzer', 'torch')}", file=sys.stderr)
    raise SystemExit(2) from None

from fuzz.drawing import Step, steps
from fuzz.running import wrong_in
from fuzz.shrinking import fails_anew, reproduction, shrunk, simplified


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all calls agreed, 1 if one did not, 2 and one line where something was asked wrongly."""
    asked = _parser().parse_args(arguments)
    if asked.device == "cuda" and not torch.cuda.is_available():
        print("attenio: PyTorch sees no GPU here; use --device cpu", file=sys.stderr)
        return 2
    if not all(x > 0 for x in (asked.calls, asked.seconds, asked.failures) if x is not None):
        print("attenio: nothing would be called; give --calls, --seconds and --failures above 0", file=sys.stderr)
        return 2
    seconds = asked.seconds if asked.seconds is not None or asked.calls is not None else 60.0
    print(f"seed {asked.seed} on {asked.device}, PyTorch {torch.__version__}", flush=True)
    try:
        return _look(asked.seed, asked.device, calls=asked.calls, seconds=seconds, failures=asked.failures)
    except KeyboardInterrupt:
        print("attenio: stopped; the same seed makes the same calls again", file=sys.stderr)
        return 130


def _look(seed: int, device: str, *, calls: int | None, seconds: float | None, failures: int) -> int:
    start, done, failed = time.monotonic(), 0, 0
    history: list[Step] = []
    told = start
    for step in steps(seed, device):
        history.append(step)
        failure = wrong_in(step, device)
        done += sum(case.times for case in step)
        if failure is not None:
            failed += 1
            _tell(history, failure, device)
            if failed >= failures:
                break
        now = time.monotonic()
        if now - told > 10.0:
            told = now
            print(f"{done:,} calls, {failed} failed, {now - start:.0f} s", flush=True)
        if (calls is not None and done >= calls) or (seconds is not None and now - start >= seconds):
            break
    print(f"{done:,} calls in {len(history):,} steps, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if failed else 0


def _tell(history: list[Step], failure: str, device: str) -> None:
    """What failed, and the program that shows it."""
    print(f"step {len(history)}: {failure}", flush=True)
    tail = shrunk(history, device)
    if tail is None:
        print(
            f"# passes alone, and after the calls before it, in a new process\n{reproduction(history[-1:], device)}",
            flush=True,
        )
        return
    if len(tail) == 1:
        step = simplified(tail[0], lambda step: wrong_in(step, device))
        tail = [step] if fails_anew([step], device) else tail
    print(reproduction(tail, device), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same calls")
    parser.add_argument("--seconds", type=float, help="stop after so long; 60 if nothing is said")
    parser.add_argument("--calls", type=int, help="stop after so many calls")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many failing steps")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    return parser


if __name__ == "__main__":
    sys.exit(main())
