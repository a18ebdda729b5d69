"""Ours beside FlashAttention-4 and cuDNN: every width that models have, and forty odd forms drawn at random."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from random import Random

import torch
from cases import HIDDEN, OURS, Attend, Case, Inputs, error_of_gradients, error_of_rows, on, pulled, randoms
from others import seen_in_packed, starts_of
from torch import Tensor
from torch.nn.attention import SDPBackend

from attenio import attention
from attenio.measurement.contenders import backend

# Of keys and of values.
WIDTHS = ((64, 64), (96, 96), (128, 128), (192, 192), (192, 128), (256, 256))
LENGTHS = (1024, 4096, 16384, 32768)
TOKENS = 16384
DIRECTIONS = ("forward", "backward")
ODD_FORMS, ODD_SEED = 40, 20
try:
    FLASH_4: str | None = version("flash-attn-4")
except PackageNotFoundError:
    FLASH_4 = None


def flash_attention_4(*, is_causal: bool, window: int | None = None) -> Attend:
    """Causality is that of the last query with the last key; a window is so many keys up to a query's own."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from flash_attn.cute.interface import flash_attn_func

        sides = (None, None) if window is None else (window - 1, 0)
        tokens = (x.transpose(1, 2) for x in (q, k, v))
        found = flash_attn_func(*tokens, causal=is_causal and window is None, window_size=sides)
        output: Tensor = (found[0] if isinstance(found, tuple) else found).transpose(1, 2)
        return output

    return call


def flash_attention_4_packed(lengths: tuple[int, ...], *, is_causal: bool) -> Attend:
    """Of sequences one behind the other."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from flash_attn.cute.interface import flash_attn_varlen_func

        starts, longest = starts_of(lengths, q.device), max(lengths)
        tokens = (x[0].transpose(0, 1) for x in (q, k, v))
        found = flash_attn_varlen_func(
            *tokens, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest,
            causal=is_causal,
        )  # fmt: skip
        output: Tensor = (found[0] if isinstance(found, tuple) else found).transpose(0, 1)[None]
        return output

    return call


def front_runner() -> Iterator[Case]:
    for direction in DIRECTIONS:
        for d, width in WIDTHS:
            for is_causal in (False, True):
                for n in LENGTHS:
                    heads = round(HIDDEN / width)
                    shape = (max(1, TOKENS // n), heads, heads, n, n)
                    yield case_of("front runner", direction, shape, (d, width), is_causal, None)


def odd_forms() -> Iterator[Case]:
    """Lengths that nothing divides, groups of 3, 5, 7, one to 64 sequences, other lengths of keys, windows, packed."""
    draw = Random(ODD_SEED)
    for index in range(ODD_FORMS):
        d = draw.choice((64, 64, 80, 96, 128, 128, 128, 192, 256))
        group, kv_heads = draw.choice((1, 3, 5, 7)), draw.choice((1, 2, 3, 5))
        batch = draw.choice((1, 1, 2, 5, 13, 64))
        n = draw.randrange(300, max(400, 40000 // batch // (group * kv_heads) * 4)) | 1
        kind = draw.choice(("full", "causal", "causal", "cross", "window", "packed"))
        keys = n + draw.randrange(1, n) if kind == "cross" else n
        window = draw.randrange(n // 8, n // 2) if kind == "window" else None
        direction = DIRECTIONS[index % 2]
        if kind == "packed":
            lengths = tuple(draw.randrange(1, 2 * n) for _ in range(max(2, batch)))
            yield packed_case(direction, lengths, (group * kv_heads, kv_heads), d, is_causal=draw.random() < 0.75)
            continue
        shape = (batch, group * kv_heads, kv_heads, n, keys)
        yield case_of("odd forms", direction, shape, (d, d), kind in ("causal", "cross"), window)


def packed_case(
    direction: str, lengths: tuple[int, ...], all_heads: tuple[int, int], d: int, *, is_causal: bool
) -> Case:
    """Sequences of these lengths one behind the other, heads between tokens, as kernels for them have it."""
    total, (heads, kv_heads) = sum(lengths), all_heads
    case = case_of("odd forms", direction, (1, heads, kv_heads, total, total), (d, d), is_causal, None)
    attends: dict[str, Attend] = {
        OURS: lambda q, k, v: attention(
            q, k, v, is_causal=is_causal, cu_seqlens=starts_of(lengths, q.device), enable_gqa=heads != kv_heads
        ),
        "flash-4": flash_attention_4_packed(lengths, is_causal=is_causal),
    }

    def inputs() -> Inputs:
        q, k, v = randoms(*((1, total, each, d) for each in (heads, kv_heads, kv_heads)))
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    is_forward, mask = direction == "forward", "causal" if is_causal else "full"
    scores = sum(_scores(length, length, is_causal, None) for length in lengths)
    return replace(
        case, name=f"odd forms: {direction} {len(lengths)} packed, {heads}/{kv_heads} x {total} x {d} {mask}",
        flops=2.0 * heads * scores * (2 * d if is_forward else 5 * d), inputs=inputs,
        contenders={name: (on if is_forward else pulled)(attend) for name, attend in attends.items()},
        error=(error_of_rows if is_forward else error_of_gradients)(seen_in_packed(lengths, is_causal=is_causal)),
    )  # fmt: skip


def case_of(
    part: str, direction: str, shape: tuple[int, ...], widths: tuple[int, int], is_causal: bool, window: int | None
) -> Case:
    (batch, heads, kv_heads, n, keys), (d, width) = shape, widths
    seen = None if not is_causal and window is None else _seen(keys - n, window)
    causality = "bottom-right" if is_causal and keys != n else is_causal
    attends: dict[str, Attend] = {
        OURS: lambda q, k, v: attention(q, k, v, is_causal=causality, window=window, enable_gqa=heads != kv_heads),
        "flash-4": flash_attention_4(is_causal=is_causal, window=window),
    }
    if window is None and (keys == n or not is_causal):  # PyTorch has no other causality and no windows
        options = {"is_causal": is_causal, **({"enable_gqa": True} if heads != kv_heads else {})}
        attends["cudnn"] = backend(SDPBackend.CUDNN_ATTENTION, **options)
    is_forward = direction == "forward"
    columns = d + width if is_forward else 3 * d + 2 * width
    lengths, named = f"{n}" if n == keys else f"{n}/{keys}", f"{d}" if d == width else f"{d}/{width}"
    mask = f"window {window}" if window else "causal" if is_causal else "full"
    sizes = ((heads, n, d), (kv_heads, keys, d), (kv_heads, keys, width))
    known: Callable[..., Callable[..., float]] | None = None
    if is_forward or (n == keys and n <= 4096):
        known = (error_of_rows if is_forward else error_of_gradients)(seen)
    return Case(
        name=f"{part}: {direction} {batch} x {heads}/{kv_heads} x {lengths} x {named} {mask}", part=part,
        flops=2.0 * batch * heads * _scores(n, keys, is_causal, window) * columns,
        about={
            "d": d, "width": width, "n": n, "keys": keys, "batch": batch, "heads": heads, "kv_heads": kv_heads,
            "mask": mask, "direction": direction,
        },
        inputs=lambda: randoms(*((batch, *size) for size in sizes)),
        contenders={name: (on if is_forward else pulled)(attend) for name, attend in attends.items()}, error=known,
    )  # fmt: skip


def _seen(ahead: int, window: int | None) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda i, j: (j <= i + ahead) & (j > i + ahead - (window or 2**40))


def _scores(n: int, keys: int, is_causal: bool, window: int | None) -> float:
    """Scores that rows see."""
    rows = torch.arange(n, dtype=torch.float64) + (keys - n + 1)
    if window is not None:
        return float(rows.clamp(max=window).sum())
    return float(rows.sum()) if is_causal else float(n) * keys
