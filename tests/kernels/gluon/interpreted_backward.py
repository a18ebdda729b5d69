"""The backward pass launched by its host as it is, with kernels interpreted."""

import torch
from gluon_interpreter import Box, interpreted, launch

from attenio.kernels.gluon import backward_forms, backward_slopes
from attenio.kernels.gluon.backward_rows import Rows

__all__ = ["interpret"]

_HOME = "attenio.kernels.gluon."
_MODULES = {
    "narrow_gradients_kernel": ("backward_narrow", "backward_service"),
    "wide_gradients_kernel": ("backward_wide", "backward_service"),
    "query_gradients_kernel": ("backward_queries", "loading"),
}
_kernels = {}


class _Sums(Box):
    """A box that can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


def interpret(monkeypatch):
    """Let launches run interpreted, on memory that is not a number where nothing was written; the kernels' names."""
    names = []

    def run(kernel, programs, described, arguments, constants, _registers):
        names.append(kernel.__name__)
        boxes = (_Sums(box.base, box.block_shape) for box in described)
        launch(_kernel(kernel.__name__), (programs,), *boxes, *arguments, *constants)

    for host in (backward_forms, backward_slopes):
        monkeypatch.setattr(host, "launch", run)
    monkeypatch.setattr(Rows, "between", _between)
    monkeypatch.setattr(torch, "empty", lambda *size, **more: torch.full(_shape(size), torch.nan, **more))
    return names


def _kernel(name):
    if name not in _kernels:
        module, needed = _MODULES[name]
        loaded = interpreted(_HOME + module, needing=(_HOME + needed,))
        if needed == "backward_service":  # additions by the copy engine have no word in Gluon, and are said here
            loaded.add_sums.__globals__["_reduce_add"] = lambda box, place, source: box.add(place, source.tensor)
        _kernels[name] = getattr(loaded, name)
    return _kernels[name]


def _shape(size):
    return size if isinstance(size[0], int) else size[0]


def _between(rows, done, following, query_gradient=None, slope=1.0):
    """What Triton's kernel does between launches, which has tests of its own."""
    if rows.sums is not None:
        for place, head in enumerate(done):
            # Tiles of 64 x 64 lie in memory as registers of a product hold them.
            tiles = rows.sums.view(-1, rows.padded, rows.sums.shape[-1])[place].reshape(-1, 8, 4, 8, 4, 2, 2)
            tiles = tiles.permute(0, 2, 5, 3, 1, 4, 6).reshape(rows.padded // 64, -1, 64, 64).transpose(1, 2)
            gradient = query_gradient.flatten(0, 2)[head]
            gradient.copy_(tiles.reshape(rows.padded, -1)[: gradient.shape[0], : gradient.shape[1]] * slope)
        rows.sums[: len(following) * rows.padded] = 0
    lse = torch.where(rows.total == 0, torch.inf, rows.largest + rows.total.log2()).flatten(0, 2)
    delta = (rows.output.float() * rows.gradient.float()).sum(-1).flatten(0, 1)
    for held, given, beyond in ((rows.lse, lse, torch.inf), (rows.delta, delta, 0.0)):
        for head in following:
            row = held.view(len(given), rows.padded)[head].fill_(beyond)
            row[: given.shape[1]] = given[head]
