"""Counters of arrivals: zero between launches, because the last to arrive resets them."""

import torch
from torch import Tensor

_LEAST = 4096
# Counters of a device that captured launches take theirs from, 4 MB: a slice each, never given twice.
_RESERVED = 2**20

_of_streams: dict[tuple[torch.device, int], Tensor] = {}
_reserves: dict[torch.device, Tensor] = {}


def counters(device: torch.device, count: int) -> Tensor:
    """Counters for one launch: launches of one stream share them, those of two streams or two graphs must not."""
    if device.type != "cuda":
        return _of_stream(device, 0, count)
    if torch.cuda.is_current_stream_capturing():
        return _captured(device, count)
    if device not in _reserves:
        _reserves[device] = torch.zeros(_RESERVED, dtype=torch.int32, device=device)
    return _of_stream(device, torch._C._cuda_getCurrentRawStream(device.index), count)


def _of_stream(device: torch.device, stream: int, count: int) -> Tensor:
    held = _of_streams.get((device, stream))
    if held is None or held.numel() < count:
        held = _of_streams[device, stream] = torch.zeros(max(_LEAST, count), dtype=torch.int32, device=device)
    return held


def _captured(device: torch.device, count: int) -> Tensor:
    """A slice of the reserve; once that is used up, counters which the graph itself sets to zero."""
    reserve = _reserves.get(device)
    if reserve is None or reserve.numel() < count:
        return torch.zeros(count, dtype=torch.int32, device=device)
    _reserves[device] = reserve[count:]
    return reserve[:count]
