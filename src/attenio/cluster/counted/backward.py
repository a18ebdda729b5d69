"""The backward pass of a grid on counted memories, all ranks in step.

for each pass over some columns of the row block:
    gather Q, dO, D and the log-sum-exps of these columns
    for each row peer of my column, myself first:
        take in its keys and values; add to dQ of my rows; send it its partial dK and dV
    send each row peer its partial dQ; add up those that arrive
    send each head peer its heads' dQ
send each head peer its heads' dK and dV
"""

from contextlib import ExitStack

import numpy as np

from attenio.cluster.counted.device import Device, Values
from attenio.cluster.counted.forward import (
    columns_in_turn,
    gather_rows,
    is_seen,
    peers_of_row,
    placed,
    return_heads,
    row_peers_of_pass,
    row_tokens,
    rows_of,
    rows_part,
    scatter_heads,
    seen_keys,
    split,
    stream_rooms,
)
from attenio.cluster.counted.network import Network
from attenio.cluster.memory import pass_columns
from attenio.cluster.words import Stage


def run_backward(devices: list[Device], network: Network) -> None:
    """Gradients of all ranks, from their inputs, outputs, dO and log-sum-exps; in a step the forward pass kept some."""
    setting, work = devices[0].setting, devices[0].setting.workload
    if setting.is_step:
        scatter_heads(devices, network, {"dO": True}, Stage.SCATTER_GRADIENTS)
        for device in devices:
            outputs = placed(device, "O")
            products = device.room("place D" if setting.grid.heads > 1 else "D", (*outputs.shape[1:3], 1), sums=True)
            products[..., 0] = (placed(device, "dO") * outputs).sum(axis=-1)
    else:
        for device in devices:
            device.arrays["D"][..., 0] = (device.arrays["dO"] * device.arrays["O"]).sum(axis=-1)
        scatter_heads(devices, network, {"Q": True, "dO": True, "D": True, "KV": False})
    for device in devices:
        keys = len(setting.placed(device.rank, work.keys))
        device.room("sums of dKV", (setting.keys_heads, keys, work.key_words), sums=True)[...] = 0.0
    for columns in pass_columns(setting.grid, setting.passes):
        with ExitStack() as every:
            stacks = [every.enter_context(ExitStack()) for _ in devices]
            gather_rows(devices, network, ("Q", "dO", "D", "lse"), columns, stacks)
            _contribute(devices, network, columns, stacks)
            _merge(devices, network, columns, stacks)
    if setting.grid.heads > 1:
        return_heads(devices, network, None, {"sums of dKV": ("dKV", False)})
    else:
        for device in devices:
            device.arrays["dKV"][...] = device.arrays["sums of dKV"]


def _contribute(devices: list[Device], network: Network, columns: slice, stacks: list[ExitStack]) -> None:
    setting, work = devices[0].setting, devices[0].setting.workload
    with ExitStack() as streaming:
        rooms = {}
        for device, stack in zip(devices, stacks, strict=True):
            rows = row_tokens(setting, row_peers_of_pass(device, columns))
            device.room("sums of dQ", (setting.rows_heads, len(rows), work.d), sums=True, stack=stack)[...] = 0.0
            rooms[device.rank] = stream_rooms(device, streaming, rows)
            if rooms[device.rank]:
                most = rooms[device.rank][0].shape[2]
                shape = (setting.keys_heads, most, work.key_words)
                device.room("partial dKV", shape, sums=True, stack=streaming)
            if setting.grid.queries > 1:
                keys = len(setting.placed(device.rank, work.keys))
                device.room("arriving dKV", (setting.keys_heads, keys, work.key_words), sums=True, stack=streaming)
        for device in devices:
            rows = row_tokens(setting, row_peers_of_pass(device, columns))
            for turn, peer in enumerate(columns_in_turn(device)):
                chosen = seen_keys(device, peer, rows)
                both, there = placed(devices[peer], "KV")[:, :, chosen], devices[peer]
                if peer == device.rank:
                    device.arrays["sums of dKV"] += _gradients(device, both, rows, chosen, peer)
                    continue
                if not len(chosen):
                    continue
                into = rooms[device.rank][turn % 2][:, :, : len(chosen)]
                network.send(Stage.GATHER_KEYS, (peer, device.rank), both, into)
                partial = device.arrays["partial dKV"][:, :, : len(chosen)]
                partial[...] = _gradients(device, into, rows, chosen, peer)
                arriving = there.arrays["arriving dKV"][:, :, : len(chosen)]
                wide = work.accumulator_words
                network.send(Stage.REDUCE_KEYS, (device.rank, peer), partial, arriving, words_each=wide)
                there.arrays["sums of dKV"][:, :, chosen] += arriving


def _gradients(
    device: Device,
    both: Values,
    rows: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]",
    chosen: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]",
    peer: int,
) -> Values:
    """Add to dQ of the rows; the partial dK and dV of these keys."""
    setting, work = device.setting, device.setting.workload
    q, do = rows_of(device, "Q"), rows_of(device, "dO")
    row_sums, lse = rows_of(device, "D"), rows_of(device, "lse")
    k, v = (np.repeat(each, work.group, axis=1) for each in split(device, both))
    seen = is_seen(setting, rows, setting.placed(peer, work.keys)[chosen])
    scale = np.float32(work.softmax_scale)
    scores = np.where(seen, scale * (q @ k.transpose(0, 1, 3, 2)), np.float32(-np.inf))
    p = np.exp(scores - np.where(np.isfinite(lse), lse, np.float32(0.0)))
    ds = p * (do @ v.transpose(0, 1, 3, 2) - row_sums) * scale
    device.arrays["sums of dQ"] += ds @ k
    dk, dv = ds.transpose(0, 1, 3, 2) @ q, p.transpose(0, 1, 3, 2) @ do
    batch, heads, keys, _ = both.shape
    shared = [each.reshape(batch, heads, work.group, keys, each.shape[3]).sum(axis=2) for each in (dk, dv)]
    return np.concatenate(shared, axis=-1).astype(np.float32)


def _merge(devices: list[Device], network: Network, columns: slice, stacks: list[ExitStack]) -> None:
    setting, work = devices[0].setting, devices[0].setting.workload
    if setting.grid.keys > 1:
        for device, stack in zip(devices, stacks, strict=True):
            tokens = len(setting.placed(device.rank, work.queries))
            device.room("merge", (setting.rows_heads, tokens, work.d), sums=True, stack=stack)
    for device in devices:
        peers = row_peers_of_pass(device, columns)
        if device.rank not in peers:
            continue
        mine = device.arrays["sums of dQ"][:, :, rows_part(setting, peers, device.rank)]
        for peer in peers_of_row(device):
            there = devices[peer]
            part = there.arrays["sums of dQ"][:, :, rows_part(setting, row_peers_of_pass(there, columns), device.rank)]
            room, wide = device.arrays["merge"], work.accumulator_words
            network.send(Stage.REDUCE_QUERIES, (peer, device.rank), part, room, words_each=wide)
            mine += room
        device.arrays["dQ of my rows"] = mine
        if setting.grid.heads == 1:
            device.arrays["dQ"][...] = mine
    if setting.grid.heads > 1:
        return_heads(devices, network, columns, {"dQ of my rows": ("dQ", True)})
