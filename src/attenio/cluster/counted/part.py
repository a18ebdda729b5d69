"""The arithmetic of a rank's part, on whole arrays."""

import numpy as np

from attenio.cluster.counted.device import Values
from attenio.workload import Workload


def attend(
    work: Workload, arrays: dict[str, Values], visible: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
) -> None:
    """Sums of outputs, maxima and sums of a part."""
    q, both = arrays["part Q"], arrays["part KV"]
    k, v = (np.repeat(each, work.group, axis=1) for each in (both[..., : work.d], both[..., work.d :]))
    scores = np.where(visible, np.float32(work.softmax_scale) * (q @ k.transpose(0, 1, 3, 2)), np.float32(-np.inf))
    top = scores.max(axis=-1, initial=-np.inf)
    p = np.exp(scores - np.where(np.isfinite(top), top, np.float32(0.0))[..., None])
    state = arrays["state"]
    state[..., :-2], state[..., -1], state[..., -2] = p @ v, p.sum(axis=-1), top


def differentiate(
    work: Workload, arrays: dict[str, Values], visible: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
) -> None:
    """Sums of dQ, dK and dV of a part."""
    q, do, products, lse = (arrays[f"part {name}"] for name in ("Q", "dO", "D", "lse"))
    both = arrays["part KV"]
    k, v = (np.repeat(each, work.group, axis=1) for each in (both[..., : work.d], both[..., work.d :]))
    scale = np.float32(work.softmax_scale)
    scores = np.where(visible, scale * (q @ k.transpose(0, 1, 3, 2)), np.float32(-np.inf))
    p = np.exp(scores - np.where(np.isfinite(lse), lse, np.float32(0.0)))
    ds = p * (do @ v.transpose(0, 1, 3, 2) - products) * scale
    arrays["sums of dQ"][...] = ds @ k
    grads = np.concatenate([ds.transpose(0, 1, 3, 2) @ q, p.transpose(0, 1, 3, 2) @ do], axis=-1)
    batch, heads, keys, width = both.shape
    arrays["sums of dKV"][...] = grads.reshape(batch, heads, work.group, keys, width).sum(axis=2)
