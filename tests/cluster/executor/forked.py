"""Ranks as processes on gloo: one process imports PyTorch, forks, and starts the store as torchrun's agent does.

python forked.py CASE:RANKS:SECONDS ... prints one JSON object: by case what every rank gave, or the line that it failed
with, and its exit code.
"""

import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ["GLOO_SOCKET_IFNAME"] = "lo"
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist

from attenio.errors import AttenioError
from cluster.executor import cases  # before the fork, not after it in every rank


def main(case: Callable[[], Any], ranks: int, seconds: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    ends, ports = ([os.pipe() for _ in range(ranks)] for _ in range(2))
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            (port,) = struct.unpack("i", os.read(ports[rank][0], 4))
            os._exit(_run(case, rank, ranks, port, seconds, ends[rank][1]))
        children.append(child)
    # After the forks: its thread looks up names, and a rank that is forked meanwhile would wait for that lock for ever.
    store = dist.TCPStore("127.0.0.1", 0, None, True, timeout=timedelta(seconds=seconds), wait_for_workers=False)
    for _, writing in ports:
        os.write(writing, struct.pack("i", store.port))
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    said = []
    for reading, writing in ends:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said.append(json.loads(pipe.read() or "null"))
    return {"codes": codes, "said": said}


def _run(case: Callable[[], Any], rank: int, ranks: int, port: int, seconds: float, pipe: int) -> int:
    wait = timedelta(seconds=seconds)
    store = dist.TCPStore("127.0.0.1", port, None, False, timeout=wait)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=wait)
    try:
        found, code = case(), 0
    except AttenioError as error:
        found, code = str(error), 2
    os.write(pipe, json.dumps(found).encode())
    return code


def all_cases(asked: list[str]) -> dict[str, Any]:
    """Cases all at once, each under a process of its own, and what is counted on the wire after those, alone."""
    reading, found = {}, {}
    for text in asked:
        name, ranks, seconds = text.split(":")
        if name == "on_the_wire":
            continue
        reading[name], writing = os.pipe()
        if os.fork() == 0:
            with os.fdopen(writing, "w") as pipe:
                pipe.write(json.dumps(main(getattr(cases, name), int(ranks), float(seconds))))
            os._exit(0)
        os.close(writing)
    for name, end in reading.items():
        with os.fdopen(end) as pipe:
            found[name] = json.loads(pipe.read())
        os.wait()
    for text in asked:
        name, ranks, seconds = text.split(":")
        if name == "on_the_wire":
            found[name] = main(cases.on_the_wire, int(ranks), float(seconds))
    return found


def raise_loopback() -> None:
    """The loopback device of a network namespace of its own is down at first."""
    name, up = struct.pack("16sh", b"lo", 1), 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        fcntl.ioctl(end, up, name)


if __name__ == "__main__":
    if "--in-namespace" in sys.argv:
        sys.argv.remove("--in-namespace")
        raise_loopback()
    print(json.dumps(all_cases(sys.argv[1:])))
