"""Messages between the processes of torch.distributed: point to point, on gloo or NCCL, and nothing else."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from attenio.cluster.executor.failures import Watch

# How much of a group's timeout a rank waits for a message on NCCL.
_NCCL_PATIENCE = 0.75
# Tags of messages count from here, apart from those that others use.
_FIRST_TAG, _TAGS = 2**24, 2**20


@dataclass(kw_only=True)
class Processes:
    """One process's end: the global ranks of all, and its own place among these."""

    rank: int
    ranks: tuple[int, ...]
    watch: Watch
    form: str = ""
    sent: Counter[int] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of_mesh(cls, mesh: Any) -> "Processes":
        """The ranks of a DeviceMesh, in the order of its elements."""
        ranks = tuple(int(each) for each in mesh.mesh.flatten().tolist())
        rank = ranks.index(dist.get_rank())
        return cls(rank=rank, ranks=ranks, watch=Watch.of(rank, ranks, _timeout(mesh.device_type)))

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.ranks)

    def agree(self, form: str) -> None:
        """Go on when all ranks come with the same call."""
        self.form = form
        self.watch.agree(form)

    def post(self, sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, int]], like: Tensor) -> "_Posted":
        """Begin to send and to receive; the two ends of a message count the messages between them alike."""
        buffers = [torch.empty(length, dtype=torch.uint8, device=like.device) for _, length in receives]
        messages = [
            *((dist.isend, self.sent, peer, message) for peer, message in sends),
            *((dist.irecv, self.received, peer, into) for (peer, _), into in zip(receives, buffers, strict=True)),
        ]
        works: list[tuple[int, Any]] = []
        try:
            if like.is_cuda:
                operations = [dist.P2POp(way, tensor, self.ranks[peer]) for way, _, peer, tensor in messages]
                works = [(messages[0][2], work) for work in dist.batch_isend_irecv(operations)] if operations else []
            else:
                for way, count, peer, tensor in messages:
                    tag = _FIRST_TAG + count[peer] % _TAGS
                    count[peer] += 1
                    works.append((peer, way(tensor, self.ranks[peer], tag=tag)))
        except RuntimeError as error:
            peer = messages[len(works)][2]
            raise self.watch.blame(peer, self.form, _why(error, self.watch.timeout)) from None
        return _Posted(self, works, buffers, [message for _, message in sends], like.is_cuda)


@dataclass(frozen=True)
class _Posted:
    end: Processes
    works: list[tuple[int, Any]]
    buffers: list[Tensor]
    kept: list[Tensor]
    on_gpu: bool

    def wait(self) -> list[Tensor]:
        """What came; a peer that sends nothing in time, or is gone, ends this rank with a line that names it."""
        watch = self.end.watch
        for peer, work in self.works:
            # NCCL's wait only orders streams, unless it is given a time; then it stops the host, which has launched by
            # now what it computes meanwhile. PyTorch ends a process whose message took longer than its group's timeout.
            patience = _NCCL_PATIENCE * watch.timeout if self.on_gpu else watch.timeout
            try:
                work.wait(patience)
            except RuntimeError as error:
                raise watch.blame(peer, self.end.form, _why(error, patience)) from None
        self.kept.clear()
        return self.buffers


def _timeout(device_type: str) -> timedelta:
    """How long the process group waits, as it was made; PyTorch's default where it does not say."""
    options = getattr(dist.group.WORLD._get_backend(torch.device(device_type)), "options", None)
    found: timedelta = getattr(options, "_timeout", distributed_c10d.default_pg_timeout)
    return found


def _why(error: RuntimeError, timeout: timedelta) -> str:
    said = str(error).lower()
    if "timed out" in said or "timeout" in said:
        return f"sends nothing for {timeout.total_seconds():g} s"
    return "is gone"
