"""The forward pass of a grid on counted memories, all ranks in step.

for each pass over some columns of the row block:
    gather the queries of these columns
    for each row peer of my column, myself first:
        take in its keys and values; update the sums of my rows
    send each row peer its partial outputs; merge those that arrive
    send each head peer its heads' outputs
"""

from contextlib import ExitStack

import numpy as np

from attenio.cluster.counted.device import Device, Seen, Setting, Tokens, Values
from attenio.cluster.counted.network import Network
from attenio.cluster.memory import pass_columns
from attenio.cluster.words import Stage


def scatter_heads(
    devices: list[Device], network: Network, names: dict[str, bool], stage: Stage = Stage.SCATTER_HEADS
) -> None:
    """Give every rank its heads of its head peers' tokens; ``names`` says which arrays, and whether they are rows."""
    grid = devices[0].setting.grid
    if grid.heads == 1:
        return
    for device in devices:
        setting, work = device.setting, device.setting.workload
        for name, is_rows in names.items():
            length, heads = (work.queries, setting.rows_heads) if is_rows else (work.keys, setting.keys_heads)
            tokens = len(setting.placed(device.rank, length))
            sums = name == "D"
            into = device.room(f"place {name}", (heads, tokens, device.arrays[name].shape[3]), sums=sums)
            for peer in grid.head_peers(device.rank):
                part = setting.part_of_peer(device.rank, peer, length)
                chosen = device.row_heads if is_rows else device.key_heads
                values = devices[peer].arrays[name][:, chosen]
                each = work.accumulator_words if sums else 1
                network.send(stage, (peer, device.rank), values, into[:, :, part], words_each=each)


def placed(device: Device, name: str) -> Values:
    """An array after heads were exchanged; with one head group it never left."""
    return device.arrays[f"place {name}" if device.setting.grid.heads > 1 else name]


def row_peers_of_pass(device: Device, columns: slice) -> list[int]:
    """The row peers whose queries a pass takes."""
    return list(device.setting.grid.row_peers(device.rank)[columns])


def row_tokens(setting: Setting, peers: list[int]) -> Tokens:
    """The positions of the queries of some ranks, after heads were exchanged."""
    return np.concatenate([setting.placed(peer, setting.workload.queries) for peer in peers])


def rows_part(setting: Setting, peers: list[int], peer: int) -> slice:
    """Where a rank's queries lie among those of a pass."""
    sizes = [len(setting.placed(each, setting.workload.queries)) for each in peers]
    start = sum(sizes[: peers.index(peer)])
    return slice(start, start + sizes[peers.index(peer)])


def gather_rows(
    devices: list[Device], network: Network, names: tuple[str, ...], columns: slice, stacks: list[ExitStack]
) -> None:
    """Give every rank the rows of some columns of its row block; with one column it has them."""
    if devices[0].setting.grid.keys == 1:
        return
    for device, stack in zip(devices, stacks, strict=True):
        setting = device.setting
        peers = row_peers_of_pass(device, columns)
        tokens = len(row_tokens(setting, peers))
        for name in names:
            sums = name in ("D", "lse")
            source = device.arrays["lse"] if name == "lse" else placed(device, name)
            shape = (setting.rows_heads, tokens, source.shape[3])
            into = device.room(f"rows {name}", shape, sums=sums, stack=stack)
            for peer in peers:
                values = devices[peer].arrays["lse"] if name == "lse" else placed(devices[peer], name)
                each = setting.workload.accumulator_words if sums else 1
                part = rows_part(setting, peers, peer)
                network.send(Stage.GATHER_QUERIES, (peer, device.rank), values, into[:, :, part], words_each=each)


def rows_of(device: Device, name: str) -> Values:
    """The rows of a pass."""
    if device.setting.grid.keys > 1:
        return device.arrays[f"rows {name}"]
    return device.arrays["lse"] if name == "lse" else placed(device, name)


def seen_keys(device: Device, peer: int, rows: Tokens) -> Tokens:
    """Which of a column peer's keys travel to this rank, by their place there: all, or those under a window."""
    setting = device.setting
    at = setting.placed(peer, setting.workload.keys)
    if str(setting.workload.mask).startswith("window") and peer != device.rank:
        band = setting.band
        first, last = (
            (int(rows.min()) + band.shift - band.left, int(rows.max()) + band.shift + band.right)
            if len(rows)
            else (1, 0)
        )
        return np.nonzero((at >= first) & (at <= last))[0].astype(np.int64)
    return np.arange(len(at), dtype=np.int64)


def is_seen(setting: Setting, rows: Tokens, keys: Tokens) -> Seen:
    """Which pairs the mask requires."""
    band = setting.band
    apart = keys[None, :] - rows[:, None] - band.shift
    return np.asarray((apart >= -band.left) & (apart <= band.right))


def columns_in_turn(device: Device) -> list[int]:
    """The column peers by turn: the rank itself, then the next one."""
    peers, row = device.setting.grid.column_peers(device.rank), device.place.row
    return [peers[(row + turn) % len(peers)] for turn in range(len(peers))]


def stream_rooms(device: Device, stack: ExitStack, rows: Tokens) -> list[Values]:
    """Two buffers for the keys of a peer."""
    work = device.setting.workload
    most = max((len(seen_keys(device, peer, rows)) for peer in columns_in_turn(device)[1:]), default=0)
    shape = (device.setting.keys_heads, most, work.key_words)
    return [device.room(f"stream {index}", shape, stack=stack) for index in range(2)] if most else []


def split(device: Device, both: Values) -> tuple[Values, Values]:
    """Keys and values of what travels together."""
    work = device.setting.workload
    values = both[..., : work.value_dim] if work.values_in_keys else both[..., work.d :]
    return both[..., : work.d], values


def run_forward(devices: list[Device], network: Network) -> None:
    """Outputs of all ranks, from their queries and keys."""
    setting = devices[0].setting
    scatter_heads(devices, network, {"Q": True, "KV": False})
    if setting.is_step:
        _keep(devices)
    for columns in pass_columns(setting.grid, setting.passes):
        with ExitStack() as every:
            stacks = [every.enter_context(ExitStack()) for _ in devices]
            gather_rows(devices, network, ("Q",), columns, stacks)
            for device, stack in zip(devices, stacks, strict=True):
                _attend(devices, device, network, columns, stack)
            _merge(devices, network, columns, stacks)


def _keep(devices: list[Device]) -> None:
    """Room for what stays until the backward pass: log-sum-exps, and outputs of the own heads."""
    setting, work = devices[0].setting, devices[0].setting.workload
    for device in devices:
        tokens = len(setting.placed(device.rank, work.queries))
        device.room("lse", (setting.rows_heads, tokens, 1), sums=True)
        if setting.grid.heads > 1:
            device.room("place O", (setting.rows_heads, tokens, work.value_dim))


def _attend(devices: list[Device], device: Device, network: Network, columns: slice, stack: ExitStack) -> None:
    setting, work = device.setting, device.setting.workload
    rows = row_tokens(setting, row_peers_of_pass(device, columns))
    state = device.room("state", (setting.rows_heads, len(rows), work.value_dim + 2), sums=True, stack=stack)
    state[...] = 0.0
    state[..., -2] = -np.inf
    with ExitStack() as streaming:
        rooms = stream_rooms(device, streaming, rows)
        for turn, peer in enumerate(columns_in_turn(device)):
            chosen = seen_keys(device, peer, rows)
            at = setting.placed(peer, work.keys)[chosen]
            both = placed(devices[peer], "KV")[:, :, chosen]
            if peer != device.rank:
                into = rooms[turn % 2][:, :, : len(chosen)] if rooms else both.copy()
                network.send(Stage.GATHER_KEYS, (peer, device.rank), both, into)
                both = into
            _update(device, rows_of(device, "Q"), split(device, both), is_seen(setting, rows, at), state)


def _update(
    device: Device,
    q: Values,
    kv: tuple[Values, Values],
    seen: Seen,
    state: Values,
) -> None:
    """Online softmax with some keys."""
    work = device.setting.workload
    k, v = (np.repeat(each, work.group, axis=1) for each in kv)
    if not seen.size:
        return
    scores = np.where(seen, np.float32(work.softmax_scale) * (q @ k.transpose(0, 1, 3, 2)), np.float32(-np.inf))
    top = np.maximum(state[..., -2], scores.max(axis=-1))
    safe = np.where(np.isfinite(top), top, np.float32(0.0))
    shrink = np.exp(state[..., -2] - safe)
    p = np.exp(scores - safe[..., None])
    state[..., :-2] = state[..., :-2] * shrink[..., None] + p @ v
    state[..., -1] = state[..., -1] * shrink + p.sum(axis=-1)
    state[..., -2] = top


def _merge(devices: list[Device], network: Network, columns: slice, stacks: list[ExitStack]) -> None:
    """Partial outputs to their owners, who add them up; then heads back to the tokens' homes."""
    grid, work = devices[0].setting.grid, devices[0].setting.workload
    for device, stack in zip(devices, stacks, strict=True):
        tokens = len(device.setting.placed(device.rank, work.queries))
        if grid.keys > 1:
            device.room("merge", (device.setting.rows_heads, tokens, work.value_dim + 1), sums=True, stack=stack)
        if grid.heads > 1 and not device.setting.is_step:
            device.room("place O", (device.setting.rows_heads, tokens, work.value_dim), stack=stack)
    for device in devices:
        setting, peers = device.setting, row_peers_of_pass(device, columns)
        if device.rank not in peers:
            continue
        out, lse = normalised(device.arrays["state"][:, :, rows_part(setting, peers, device.rank)])
        for peer in peers_of_row(device):
            there = devices[peer]
            part = there.arrays["state"][:, :, rows_part(setting, row_peers_of_pass(there, columns), device.rank)]
            partial = np.concatenate(
                [each if each.ndim == 4 else each[..., None] for each in normalised(part)], axis=-1
            )
            room, each = device.arrays["merge"], work.accumulator_words
            network.send(Stage.REDUCE_OUTPUTS, (peer, device.rank), partial, room, words_each=each)
            out, lse = added(out, lse, room[..., :-1], room[..., -1])
        home = device.arrays["place O"] if grid.heads > 1 else device.arrays["O"]
        home[...] = out
        if setting.is_step:
            device.arrays["lse"][..., 0] = lse
    if grid.heads > 1:
        return_heads(devices, network, columns, {"place O": ("O", True)})


def return_heads(
    devices: list[Device], network: Network, columns: slice | None, names: dict[str, tuple[str, bool]]
) -> None:
    """Send every head peer its tokens' results of my heads; ``names`` has their homes, and whether they are rows."""
    grid, work = devices[0].setting.grid, devices[0].setting.workload
    for device in devices:
        if columns is not None and device.rank not in row_peers_of_pass(device, columns):
            continue
        for name, (home, is_rows) in names.items():
            chosen = device.row_heads if is_rows else device.key_heads
            for peer in grid.head_peers(device.rank):
                part = device.setting.part_of_peer(device.rank, peer, work.queries if is_rows else work.keys)
                into = devices[peer].arrays[home][:, chosen]
                network.send(Stage.RETURN_HEADS, (device.rank, peer), device.arrays[name][:, :, part], into)


def peers_of_row(device: Device) -> list[int]:
    """The other ranks of its row and head group."""
    return [peer for peer in device.setting.grid.row_peers(device.rank) if peer != device.rank]


def normalised(state: Values) -> tuple[Values, Values]:
    """Outputs and log-sum-exps of sums."""
    total, top = state[..., -1], state[..., -2]
    some = total > 0
    divisor = np.where(some, total, np.float32(1.0))
    lse = np.where(some, np.where(some, top, 0.0) + np.log(divisor), -np.inf).astype(np.float32)
    return (state[..., :-2] / divisor[..., None]).astype(np.float32), lse


def added(out: Values, lse: Values, other: Values, other_lse: Values) -> tuple[Values, Values]:
    """Outputs over some keys and over others, together."""
    top = np.maximum(lse, other_lse)
    safe = np.where(np.isfinite(top), top, np.float32(0.0))
    mine, theirs = np.exp(lse - safe), np.exp(other_lse - safe)
    total = mine + theirs
    divisor = np.where(total > 0, total, np.float32(1.0))
    merged = (out * mine[..., None] + other * theirs[..., None]) / divisor[..., None]
    return merged.astype(np.float32), np.where(total > 0, safe + np.log(divisor), -np.inf).astype(np.float32)
