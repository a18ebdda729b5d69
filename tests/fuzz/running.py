"""Run cases, alone or several at the same time, and compare every result with the definition."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from attenio.errors import AttenioError
from attenio.kernels.attention import attention
from fuzz.case import Case, Layout, Mode
from fuzz.inputs import Inputs, Numbers, laid_out, numbers_of, options_of
from fuzz.untiled import Scoring, allowed

_NAMES = ("output", "query", "key", "value", "bias")
_Outcome: TypeAlias = tuple[Numbers, list[Tensor | None]]
_DIFFERENTIATED = (Mode.GRADIENTS, Mode.AUTOCAST)


class WrongResult(AttenioError, AssertionError):
    """A call that does not agree with the definition, or that raises."""


def check(*step: Case, device: str = "cpu") -> None:
    """Raise if a case is wrong; several cases run at the same time, a thread each."""
    failure = wrong_in(step, device)
    if failure is not None:
        raise WrongResult(failure)


def wrong_in(step: tuple[Case, ...], device: str) -> str | None:
    """What is wrong with the cases of a step; None if nothing is."""
    results: list[list[_Outcome] | str] = [""] * len(step)

    def run(number: int, ready: threading.Barrier | None) -> None:
        try:
            if ready is not None:
                ready.wait()
            results[number] = _outcomes(step[number], device)
        except Exception as problem:  # whatever a call raises is what is looked for
            results[number] = f"raises {_root_of(problem)}"

    if len(step) == 1:
        with _threads(step[0].threads):
            run(0, None)
    else:
        ready = threading.Barrier(len(step))
        threads = [threading.Thread(target=run, args=(number, ready)) for number in range(len(step))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with _threads(1):  # the definition does not wait for threads of other programs
        said = [
            f"call {number + 1} of {len(step)} {what}"
            for number, made in enumerate(results)
            if (what := made if isinstance(made, str) else _first_wrong(step[number], made)) is not None
        ]
    return "; ".join(said) or None


def _root_of(problem: BaseException) -> str:
    """The first line of the first error: one during a capture is followed by another when the capture ends."""
    while problem.__context__ is not None:
        problem = problem.__context__
    first = str(problem).strip().splitlines() or [""]
    return f"{type(problem).__name__}: {first[0]}"


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Call(NamedTuple):
    """The tensors of a call as they lie in memory: Q, K, V, dO, and the mask."""

    tensors: tuple[Inputs, ...]
    mask: Tensor | None

    def write(self, numbers: Numbers, case: Case) -> None:
        """Other numbers in the same places, for what has been captured."""
        for letter, mine, theirs, layout in zip("qkvg", self.tensors, numbers[:4], case.layouts, strict=True):
            if case.same and letter == "v":  # the keys, written already
                continue
            if layout is Layout.EXPANDED:
                mine.leaf.detach().copy_(theirs[:1])
            else:
                mine.given.detach().copy_(theirs)


def _outcomes(case: Case, device: str) -> list[_Outcome]:
    """Numbers and results of every time of a case."""
    if device == "cpu":
        return _one_by_one(case, device)
    # A gradient goes back in the stream of the view that it is of, so what is captured is made in no default stream.
    stream = torch.cuda.Stream() if case.stream or case.graph else torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        results = _captured(case, device) if case.graph else _one_by_one(case, device)
        stream.synchronize()
    return results


def _one_by_one(case: Case, device: str) -> list[_Outcome]:
    """All results are kept, so that it shows if one is written over by a later one."""
    results = []
    for again in range(case.times):
        numbers = numbers_of(case, again, device)
        results.append((numbers, _results(case, _placed(case, numbers), options_of(case, numbers))))
    return results


def _captured(case: Case, device: str) -> list[_Outcome]:
    """The call captured as a CUDA graph, and replayed with other numbers in the same tensors."""
    numbers = numbers_of(case, 0, device)
    call, options = _placed(case, numbers), options_of(case, numbers)
    _results(case, call, options)  # what is compiled, measured or allocated once
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        results = _results(case, call, options)
    replays = []
    for again in range(case.times + 1):
        numbers = numbers_of(case, again, device)
        call.write(numbers, case)
        graph.replay()
        replays.append((numbers, [None if x is None else x.clone() for x in results]))
    torch.cuda.synchronize()
    return replays


def _first_wrong(case: Case, results_of_times: list[_Outcome]) -> str | None:
    for again, (numbers, results) in enumerate(results_of_times):
        difference = _difference(case, numbers, results)
        if difference is not None:
            return f"{difference} (time {again + 1} of {len(results_of_times)})"
    return None


def _placed(case: Case, numbers: Numbers) -> _Call:
    """Tensors in their layouts, in inference mode or outside of it."""
    inside = case.mode in (Mode.INFERENCE, Mode.AUTOCAST_INFERENCE) and case.made_inside
    with torch.inference_mode(inside):
        tensors = [
            laid_out(x, layout, wants_gradient=case.mode in _DIFFERENTIATED and letter in case.wanted)
            for x, layout, letter in zip(numbers[:4], case.layouts, "qkvg", strict=True)
        ]
        if case.same:
            tensors[2] = tensors[1]
        mask = None if numbers.bias is None else numbers.bias.clone()
    if mask is not None and mask.is_floating_point():
        mask.requires_grad_(case.mode in _DIFFERENTIATED and "m" in case.wanted)
    return _Call(tuple(tensors), mask)


def _in_dims(case: Case, tensor: Tensor) -> Tensor:
    """Four dimensions as the case wants to give them."""
    match case.dims:
        case 2:
            return tensor[0, 0]
        case 3:
            return tensor[0]
        case 5:
            return tensor[:, None]
        case _:
            return tensor


def _results(case: Case, call: _Call, options: dict[str, Any]) -> list[Tensor | None]:
    """Output and gradients of queries, keys, values and mask, None where they are not asked for."""
    with _surrounded(case, call.tensors[0].given.device.type):
        q, k, v, gradient = (x.given for x in call.tensors)
        if case.same:
            v = k
        mask = None if call.mask is None else _in_dims(case, call.mask)
        heads = [_in_dims(case, x) for x in (q, k, v)]
        if case.same:
            heads[2] = heads[1]
        output = attention(heads[0], heads[1], heads[2], mask, **options)
    results: list[Tensor | None] = [output, None, None, None, None]
    if case.mode in _DIFFERENTIATED:
        wanted = {at: x for at, x in ((1, q), (2, k), (3, v), (4, call.mask)) if x is not None and x.requires_grad}
        if wanted and output.requires_grad:
            given = _in_dims(case, gradient).to(output.dtype)
            for at, each in zip(wanted, torch.autograd.grad(output, list(wanted.values()), given), strict=True):
                results[at] = each
        elif wanted:
            raise WrongResult("output has no gradient although an input asks for one")
    return results


@contextmanager
def _surrounded(case: Case, device: str) -> Iterator[None]:
    before = torch.get_default_dtype()
    with ExitStack() as stack:
        if case.mode in (Mode.AUTOCAST, Mode.AUTOCAST_INFERENCE):
            stack.enter_context(torch.autocast(device, dtype=torch.bfloat16))
        if case.mode in (Mode.INFERENCE, Mode.AUTOCAST_INFERENCE):
            stack.enter_context(torch.inference_mode())
        if case.mode is Mode.NO_GRAD:
            stack.enter_context(torch.no_grad())
        if case.meta:
            stack.enter_context(torch.device("meta"))
        if case.default_dtype != "float32":
            stack.callback(torch.set_default_dtype, before)
            torch.set_default_dtype(getattr(torch, case.default_dtype))
        yield


def _difference(case: Case, numbers: Numbers, results: list[Tensor | None]) -> str | None:
    """The first result that is further from the exact one than allowed."""
    autocast = case.mode in (Mode.AUTOCAST, Mode.AUTOCAST_INFERENCE)
    rounded = torch.bfloat16 if autocast else numbers.query.dtype
    bias = numbers.query.new_zeros(1, 1, 1, 1) if numbers.bias is None else numbers.bias
    tensors = tuple(
        x.to(rounded) if autocast and x.is_floating_point() and x.dtype != torch.float64 else x
        for x in (*numbers[:4], bias)
    )
    exact, limits = allowed(tensors, numbers.seen, Scoring(case.scale, case.softcap, numbers.sinks), rounded)
    if case.same:
        both, far = exact.key + exact.value, limits.key + limits.value
        exact, limits = exact._replace(key=both, value=both), limits._replace(key=far, value=far)
    for name, result, right, limit in zip(_NAMES, results, exact, limits, strict=True):
        if result is None:
            continue
        if result.numel() != right.numel():
            return f"{name} has shape {tuple(result.shape)} instead of {tuple(right.shape)}"
        off = (result.detach().double().reshape(right.shape) - right).abs()
        if not bool((off <= limit).all()):
            worst = float((off / limit).nan_to_num(float("inf")).max())
            return f"{name} is off by {float(off.max()):.3g}, {worst:.3g} times what is allowed"
    return None
