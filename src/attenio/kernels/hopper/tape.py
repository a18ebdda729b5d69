"""Launches of a computation, recorded once and played again with other addresses.

A computation that does nothing but allocate, take views and launch kernels is known by its launches: which kernels,
with which numbers, and of which tensor each address is. Tensors are those given, those returned, memory that came and
went in between, and memory that stays (a schedule, counters). ``recorded`` runs one and finds that out, or that there
was more to it, such as an operator of PyTorch or a launch that is not known here. Playing the launches for other
tensors of the same sizes and steps then takes Python a few microseconds, whatever it took to find out what to launch.
Launches in several lanes are played in these, between a fork and a join where there were ones.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from triton import knobs

from attenio.kernels.hopper.compiled import is_listened_to
from attenio.kernels.hopper.lanes import forked
from attenio.kernels.hopper.launch import Box, Launched, listening

__all__ = ["Tape", "recorded"]

_aten = torch.ops.aten
_EMPTY = frozenset(
    (_aten.empty.memory_format, _aten.empty_like.default, _aten.empty_strided.default, _aten.new_empty.default)
)
Tensors: TypeAlias = tuple[Tensor, ...]
# Memory of one call is cut out of one piece at multiples of this, as PyTorch's allocator does. Large pieces, which that
# keeps by their size, are allocated each by itself: there they are found again.
_GRAIN, _LARGE = 512, 10 * 2**20
# Tensor maps that are kept of a box of a launch, one for each place that it was at.
_MOST_MAPS = 256


class _Address(NamedTuple):
    """What a tensor map is made of."""

    value: int

    def data_ptr(self) -> int:
        return self.value


class _Step:
    """A launch: arguments with gaps, and where their addresses come from; a source is a place and an offset."""

    def __init__(self, launched: Launched, source: Callable[[Tensor], tuple[int, int] | None]) -> None:
        self.ready, self.programs = launched.ready, launched.programs
        self.lane, self.marks = launched.lane, launched.marks
        self.arguments = self.ready.expanded(launched.described)
        self.pointers: list[tuple[int, int, int]] = []
        self.boxes: list[tuple[int, int, int, int, Box, dict[int, Any]]] = []
        self.kept: list[Tensor] = []
        at = place = 0
        for box in launched.described:
            if box is None:
                at += 1
                continue
            found = source(box.base)
            if found is None:
                self.kept.append(box.base)
            else:
                self.boxes.append((at, *found, place, box._replace(base=_Address(0)), {}))
            at, place = at + 1 + 2 * len(box.shape), place + 1
        for argument in launched.rest:
            if not isinstance(argument, Tensor):
                self.arguments.append(argument)
                continue
            found = source(argument)
            if found is None:
                self.kept.append(argument)
            else:
                self.pointers.append((len(self.arguments), *found))
            self.arguments.append(argument.data_ptr())

    def play(self, addresses: list[int], stream: int) -> None:
        """Launch it with the sources of its addresses at these."""
        arguments = self.arguments.copy()
        for at, which, offset in self.pointers:
            arguments[at] = addresses[which] + offset
        for at, which, offset, place, box, maps in self.boxes:
            address = addresses[which] + offset
            made = maps.get(address)
            if made is None:
                if len(maps) >= _MOST_MAPS:
                    maps.clear()
                made = maps[address] = self.ready.map_of(place, box._replace(base=_Address(address)))[0]
            arguments[at] = made
        self.ready.start(self.programs, stream, arguments)


class Tape:
    """The launches of a computation. Sources of addresses are tensors given, then those returned, then memory."""

    def __init__(self, steps: list[_Step], results: Tensors, pieces: list[int]) -> None:
        self._device = results[0].device
        parts = [list(part) for _, part in groupby(steps, lambda step: step.marks)]
        self._parts = [(1 + max(step.lane for step in part), part) for part in parts]
        self._results = [_model(each.shape, each.dtype, each.device) for each in results]
        sizes = [each.untyped_storage().nbytes() for each in results]
        # With so many of the results returned, what the others take of the memory comes first.
        self._cuts = []
        for count in range(len(results) + 1):
            blocks, cuts = _cuts(sizes[count:] + pieces)
            self._cuts.append(([_model((size,), torch.uint8, results[0].device) for size in blocks], cuts))

    def play(self, tensors: Tensors, wanted: int, stream: int) -> Tensors | None:
        """The first ``wanted`` results for these tensors; nothing while somebody listens to launches."""
        if is_listened_to():
            return None
        found = tuple([torch.empty_like(model) for model in self._results[:wanted]])
        addresses = [tensor.data_ptr() for tensor in tensors]
        addresses += [tensor.data_ptr() for tensor in found]
        blocks, pieces = self._cuts[wanted]
        memory = [torch.empty_like(model) for model in blocks]
        addresses += [memory[block].data_ptr() + cut for block, cut in pieces]
        for lanes, steps in self._parts:
            if lanes == 1:  # a fork would take longer than some kernels
                for step in steps:
                    step.play(addresses, stream)
                continue
            with forked(self._device, lanes) as beside:
                streams = [stream, *(each.cuda_stream for each in beside)]
                for step in steps:
                    step.play(addresses, streams[step.lane])
        return found

    @property
    def lanes(self) -> int:
        """The most lanes that launches are in at once."""
        return max(lanes for lanes, _ in self._parts)


def _model(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of one element that others are made like, which takes PyTorch half as long as to make them by shape."""
    return _element(dtype, device).expand(shape)


@lru_cache(maxsize=64)
def _element(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(1, dtype=dtype, device=device)


def _cuts(sizes: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """Bytes of blocks, and for each piece its block and where it begins there."""
    blocks: list[int] = [0] if any(size < _LARGE for size in sizes) else []
    pieces = []
    for size in sizes:
        if size < _LARGE:
            pieces.append((0, blocks[0]))
            blocks[0] += -(-size // _GRAIN) * _GRAIN
        else:
            pieces.append((len(blocks), 0))
            blocks.append(size)
    return blocks, pieces


class _Watch(TorchDispatchMode):
    """Tensors that were made, and whether anything was computed by PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Tensor] = []
        self.computes = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func in _EMPTY:
            self.made.append(found)
        elif not func.is_view:
            self.computes = True
        return found


@contextmanager
def _counted() -> Iterator[list[int]]:
    """How many kernels Triton launches, all in all."""
    count: list[int] = []
    hook = knobs.runtime.launch_enter_hook

    def heard(_metadata: Any) -> None:
        count.append(1)

    hook.add(heard)
    try:
        yield count
    finally:
        hook.remove(heard)


def recorded(compute: Callable[[], Tensors], tensors: Tensors) -> tuple[Tensors, Tape | None]:
    """What a computation of these tensors gives, and its tape unless there is more to it than launches."""
    if not hasattr(knobs.runtime.launch_enter_hook, "add") or is_listened_to():
        return compute(), None
    watch = _Watch()
    with torch.no_grad(), listening() as launches, _counted() as count, watch:
        results = compute()
    known = len(count) == len(launches) and all(each.ready.is_short for each in launches)
    if watch.computes or not known or not launches:
        return results, None
    sources = _Sources(tensors, results, watch.made)
    steps = [_Step(each, sources.of) for each in launches]
    for step in steps:
        _stay(step.kept)
    return results, Tape(steps, results, sources.pieces) if sources.are_clear else None


def _stay(tensors: list[Tensor]) -> None:
    """When a tape is forgotten, what it held is given to others only after the launches of its stream have read it."""
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


class _Sources:
    """Which tensor an address belongs to."""

    def __init__(self, tensors: Tensors, results: Tensors, made: list[Tensor]) -> None:
        self._given = {tensor.data_ptr(): place for place, tensor in enumerate(tensors)}
        self._storages = {_base(tensor) for tensor in tensors}
        memory = {_base(tensor): tensor.untyped_storage().nbytes() for tensor in made if tensor.numel()}
        returned = [_base(tensor) for tensor in results]
        whole = all(
            tensor.is_contiguous() and prod(tensor.shape) * tensor.element_size() == memory.get(_base(tensor))
            for tensor in results
        )
        self.are_clear = whole and len(set(returned)) == len(returned)
        self._memory = {base: len(tensors) + place for place, base in enumerate(returned)}
        self.pieces = []
        for base, size in memory.items():
            if base not in self._memory:
                self._memory[base] = len(tensors) + len(self._memory)
                self.pieces.append(size)

    def of(self, tensor: Tensor) -> tuple[int, int] | None:
        """The place of a tensor's source and how far behind its start it begins; None for memory that stays."""
        address, base = tensor.data_ptr(), _base(tensor)
        if address in self._given:
            return self._given[address], 0
        if base in self._memory:
            return self._memory[base], address - base
        if base in self._storages:  # a part of what was given: only where it begins is known
            self.are_clear = False
        return None


def _base(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
