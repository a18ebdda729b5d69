"""In which order programs of a kernel walk, so that they find in L2 what others have just read.

The plan (``attenio.planning.shared_cache``) says whether every other wave of programs walks backwards. These kernels
stay together by themselves: a launch for every wave was measured to move no fewer bytes, and to cost time.
"""

from dataclasses import replace

import torch

from attenio.planning.shared_cache import Grid

# A thread of these kernels takes between 128 and 255 registers: an SM has room for so many warps.
_WARPS = 8
# No grid has as many programs: a turn after this many is none.
_NEVER = 2**30


def ordered(grid: Grid, device: torch.device, *, warps: int, shared_bytes: int) -> Grid:
    """The grid with the number of programs that run at once, and turns where they save bytes.

    ``warps`` and ``shared_bytes`` are those of one program. Away from a GPU one program runs at a time.
    """
    if device.type != "cuda":
        return grid
    properties = torch.cuda.get_device_properties(device)
    blocks = max(1, min(_WARPS // warps, properties.shared_memory_per_multiprocessor // max(1, shared_bytes)))
    return replace(grid, resident=blocks * properties.multi_processor_count).turned(properties.L2_cache_size)


def turn_of(grid: Grid) -> int:
    """After how many programs the walk turns."""
    return grid.resident if grid.turns else _NEVER
