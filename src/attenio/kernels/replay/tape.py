"""Launches of a computation, recorded once and replayed with other addresses.

A computation that does nothing but allocate, take views and launch kernels is known by its launches: which kernels,
with which numbers, and which tensor each address belongs to. Tensors are the inputs, the results, memory that is
allocated and freed in between, and memory that stays (a schedule, counters). ``recorded`` runs a computation and finds
that out, or that there was more to it, such as an operator of PyTorch or a launch that is not known here. Replaying the
launches for other tensors of the same sizes and strides then takes Python a few microseconds, whatever it took to find
out what to launch. Launches on several streams are replayed on these, between a fork and a join where there were ones.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import groupby
from math import prod
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from triton import knobs

from attenio.kernels.replay import replay_enabled
from attenio.kernels.replay.launcher import has_launch_hooks
from attenio.kernels.replay.launches import LaunchRecord, recording_launches
from attenio.kernels.replay.native import loaded
from attenio.kernels.replay.streams import forked

_aten = torch.ops.aten
_EMPTY = frozenset(
    (_aten.empty.memory_format, _aten.empty_like.default, _aten.empty_strided.default, _aten.new_empty.default)
)
Tensors: TypeAlias = tuple[Tensor, ...]
# Memory of one call is cut out of one block at multiples of this, as PyTorch's allocator does. Large pieces, which that
# caches by their size, are allocated each by itself: there they are found again.
_ALIGNMENT, _LARGE = 512, 10 * 2**20
# Tensor maps that are cached for a descriptor of a launch, one for each address that it had.
_MOST_MAPS = 256


# A tensor of a call by its place among inputs, results and memory in between, and bytes from where it begins.
_Part: TypeAlias = tuple[int, int]
_NO_TENSOR = -1


class _Address(NamedTuple):
    """Stands for a tensor whose tensor map is encoded."""

    value: int

    def data_ptr(self) -> int:
        return self.value


class _Map(NamedTuple):
    """The tensor map of descriptor number ``which`` of a launch, at the address of a source plus an offset."""

    source: int
    offset: int
    which: int
    descriptor: Any
    encoded: dict[int, Any]


class _Step:
    """A launch: its arguments, and which of them are addresses of sources."""

    def __init__(self, record: LaunchRecord, source: Callable[[Tensor], tuple[int, int] | None]) -> None:
        self.stream, self.marks, self.may_leave_out = record.stream, record.marks, record.launcher.may_leave_out
        self._launcher, arguments = record.launcher, record.launcher.expanded(record.descriptors)
        self._pointers: list[tuple[int, int]] = []  # sources and offsets
        self._maps: list[_Map] = []
        self.constant_tensors: list[Tensor] = []
        at = index = 0
        of_maps, of_pointers = [], []  # where they are among the arguments
        for descriptor in record.descriptors:
            if descriptor is None:
                at += 1
                continue
            known = source(descriptor.base)
            if known is None:
                self.constant_tensors.append(descriptor.base)
            else:
                self._maps.append(_Map(*known, index, descriptor._replace(base=_Address(0)), {}))
                of_maps.append(at)
            at, index = at + 1 + 2 * len(descriptor.shape), index + 1
        for argument in record.arguments:
            if not isinstance(argument, Tensor):
                arguments.append(argument)
                continue
            known = source(argument)
            if known is None:
                self.constant_tensors.append(argument)
            else:
                self._pointers.append(known)
                of_pointers.append(len(arguments))
            arguments.append(argument.data_ptr())
        self._programs, self._arguments, self._places = record.programs, arguments, (*of_pointers, *of_maps)
        self._launch = record.launcher.repeated(record.programs, arguments, self._places)

    def written(self, parts: list[_Part]) -> tuple[Any, ...] | None:
        """As the compiled module takes it, given the part of a tensor that each source is; None if it does not."""
        written = self._launcher.written(self._arguments, self._places)
        if written is None:
            return None
        *launch, places = written
        count = len(self._pointers)
        pointers = [(at, *_moved(parts[each[0]], each[1])) for at, each in zip(places, self._pointers, strict=False)]
        maps = [
            (at, *_moved(parts[each.source], each.offset), partial(self._encoded, each))
            for at, each in zip(places[count:], self._maps, strict=True)
        ]
        function, *rest = launch
        return function, self._programs, *rest, tuple(pointers), tuple(maps)

    def _encoded(self, of: _Map, address: int) -> Any:
        """The tensor map of an address, encoded when it is met first."""
        encoded = of.encoded.get(address)
        if encoded is None:
            if len(of.encoded) >= _MOST_MAPS:
                of.encoded.clear()
            moved = of.descriptor._replace(base=_Address(address))
            encoded = of.encoded[address] = self._launcher.tensor_map(of.which, moved)[0]
        return encoded

    def play(self, addresses: list[int], stream: int) -> None:
        """Launch it with its sources at these addresses."""
        changed: list[Any] = [addresses[source] + offset for source, offset in self._pointers]
        changed += [self._encoded(each, addresses[each.source] + each.offset) for each in self._maps]
        self._launch(stream, changed)


class Tape:
    """The launches of a computation. Sources of addresses are inputs, then results, then memory in between."""

    def __init__(self, steps: list[_Step], results: Tensors, pieces: list[int]) -> None:
        self._device = results[0].device
        phases = [list(phase) for _, phase in groupby(steps, lambda step: step.marks)]
        self._phases = [(1 + max(step.stream for step in phase), phase) for phase in phases]
        self._results = [_model(each.shape, each.dtype, each.device) for each in results]
        sizes = [each.untyped_storage().nbytes() for each in results]
        self._leaves_out = all(step.may_leave_out for step in steps)
        # With so many of the results returned, the others are the first pieces of the memory in between, or left out.
        self._cuts = []
        for count in range(len(results) + 1):
            blocks, cuts = _cuts(pieces if self._leaves_out else sizes[count:] + pieces)
            self._cuts.append(([_model((size,), torch.uint8, results[0].device) for size in blocks], cuts))
        self._compiled: dict[int, Any] = {}

    def play(self, tensors: Tensors, wanted: int, stream: int) -> Tensors | None:
        """The first ``wanted`` results for these tensors; None while replay is off or a hook listens to launches."""
        if not replay_enabled() or has_launch_hooks():
            return None
        results = tuple([torch.empty_like(model) for model in self._results[:wanted]])
        blocks, pieces = self._cuts[wanted]
        memory = [torch.empty_like(model) for model in blocks]
        compiled = self._compiled.get(wanted)
        if compiled is not None:
            status = compiled((*tensors, *results, *memory), stream)
            if status:
                torch.cuda.check_error(status)
            return results
        if wanted not in self._compiled and (module := loaded()) is not None:
            self._compiled[wanted] = self._compiled_by(module, len(tensors), wanted)
        addresses = [tensor.data_ptr() for tensor in tensors]
        addresses += [tensor.data_ptr() for tensor in results]
        if self._leaves_out:
            addresses += [0] * (len(self._results) - wanted)
        addresses += [memory[block].data_ptr() + cut for block, cut in pieces]
        for streams, steps in self._phases:
            if streams == 1:  # a fork would take longer than some kernels
                for step in steps:
                    step.play(addresses, stream)
                continue
            with forked(self._device, streams) as side_streams:
                raw = [stream, *(each.cuda_stream for each in side_streams)]
                for step in steps:
                    step.play(addresses, raw[step.stream])
        return results

    def _compiled_by(self, module: Any, inputs: int, wanted: int) -> Any:
        """The same launches for so many results, by the compiled module; None where Python has to fork or launch."""
        parts: list[_Part] = [(place, 0) for place in range(inputs + wanted)]
        if self._leaves_out:
            parts += [(_NO_TENSOR, 0)] * (len(self._results) - wanted)
        parts += [(inputs + wanted + block, cut) for block, cut in self._cuts[wanted][1]]
        steps = [step.written(parts) for _, phase in self._phases for step in phase]
        if self.streams > 1 or None in steps:
            return None
        try:
            return module.Launches(tuple(steps))
        except ValueError:  # more launches than fit in its memory
            return None

    @property
    def streams(self) -> int:
        """The most streams that launches are on at once."""
        return max(streams for streams, _ in self._phases)


def _moved(part: _Part, offset: int) -> _Part:
    return part[0], part[1] + offset


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
            blocks[0] += -(-size // _ALIGNMENT) * _ALIGNMENT
        else:
            pieces.append((len(blocks), 0))
            blocks.append(size)
    return blocks, pieces


class _Watch(TorchDispatchMode):
    """Tensors that were allocated, and whether PyTorch computed anything."""

    def __init__(self) -> None:
        super().__init__()
        self.allocated: list[Tensor] = []
        self.computes = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would import its compiler for this mode, for seconds; nothing is compiled within it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _EMPTY:
            self.allocated.append(result)
        elif not func.is_view:
            self.computes = True
        return result


@contextmanager
def _counted() -> Iterator[list[int]]:
    """How many kernels Triton launches, all in all."""
    count: list[int] = []
    hook = knobs.runtime.launch_enter_hook

    def count_one(_metadata: Any) -> None:
        count.append(1)

    hook.add(count_one)
    try:
        yield count
    finally:
        hook.remove(count_one)


def recorded(compute: Callable[[], Tensors], tensors: Tensors) -> tuple[Tensors, Tape | None]:
    """What a computation of these tensors gives, and its tape unless there is more to it than launches."""
    if not hasattr(knobs.runtime.launch_enter_hook, "add") or not replay_enabled() or has_launch_hooks():
        return compute(), None
    watch = _Watch()
    with torch.no_grad(), recording_launches() as launches, _counted() as count, watch:
        results = compute()
    counted = sum(each.launcher.is_counted for each in launches)
    known = len(count) == counted and all(each.launcher.is_direct for each in launches)
    if watch.computes or not known or not launches:
        return results, None
    sources = _Sources(tensors, results, watch.allocated)
    steps = [_Step(each, sources.of) for each in launches]
    for step in steps:
        _keep_until_read(step.constant_tensors)
    return results, Tape(steps, results, sources.pieces) if sources.are_clear else None


def _keep_until_read(tensors: list[Tensor]) -> None:
    """When a tape is forgotten, what it held is given to others only after the launches of its stream have read it."""
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


class _Sources:
    """Which tensor an address belongs to."""

    def __init__(self, tensors: Tensors, results: Tensors, allocated: list[Tensor]) -> None:
        self._inputs = {tensor.data_ptr(): place for place, tensor in enumerate(tensors)}
        self._storages = {_base(tensor) for tensor in tensors}
        memory = {_base(tensor): tensor.untyped_storage().nbytes() for tensor in allocated if tensor.numel()}
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
        """The index of a tensor's source and its offset there; None for memory that stays."""
        address, base = tensor.data_ptr(), _base(tensor)
        if address in self._inputs:
            return self._inputs[address], 0
        if base in self._memory:
            return self._memory[base], address - base
        if base in self._storages:  # a part of an input: only where it begins is known
            self.are_clear = False
        return None


def _base(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
