"""What runs for a problem on this CPU: which nest, with which tiles, and over which runs of keys.

Some of it depends on data: where queries and keys are short nothing is subtracted from scores (``online_softmax``), and
the fused kernel computes the same. So the data are looked at once, here.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

from attenio.kernels.call.choice import LIBRARY, READ_ONCE, Choice, Split
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.cpu.compiled_rows import can_compile
from attenio.kernels.cpu.few_rows import MOST_ROWS, TILE
from attenio.kernels.cpu.fused import can_fuse, can_fuse_rows
from attenio.kernels.cpu.host import host_machine, private_boundary
from attenio.kernels.cpu.library import Library, Sizes, library_seconds, library_tiles, tiles_seconds
from attenio.kernels.cpu.online_softmax import are_short
from attenio.kernels.cpu.tiling import FEW_ROWS, PRODUCT_KEYS, Shape, tiling_for
from attenio.planning import Dataflow, Tiles

# Measured: from a few thousand keys on the fused kernel's blocks of keys gain on products of tiles.
FUSED_KEYS = 4096

_WIDE_PRODUCTS = (
    f"a product reaches its rate with {PRODUCT_KEYS} keys at once; these are the most rows that fit beside them"
)
_FUSED = "scores are short, so PyTorch's fused kernel computes the same nest with its own tiles"
_TWO_PASSES = "scores are computed twice, and every sum is taken by one thread: gradients repeat to the bit"


def choose(problem: KernelProblem, *, fuses: bool = True) -> Choice:
    """What runs; without ``fuses`` not the fused kernel on stacked rows, whose log-sum-exp loses large scores."""
    choice = _choose(problem, fuses=fuses)
    if not problem.values_in_keys or choice.name.startswith("fused"):
        return choice
    own = None if choice.own is None else replace(choice.own, values_in_keys=True)
    return replace(choice, own=own, values_in_keys=True)


def _choose(problem: KernelProblem, *, fuses: bool) -> Choice:
    if can_stack(problem):
        return _stacked(problem)
    shape = Shape.of(problem)
    if tiling_for(shape).has_few_rows:
        plain = problem.dropout is None and problem.visible.is_whole(problem.everything)
        fusible = plain and can_fuse_rows(problem) and problem.keys >= FUSED_KEYS
        # One row reads keys as fast by the library's products; from two on they fall behind.
        compiles = plain and can_compile(problem, problem.keys) and not (fusible and shape.group * shape.queries == 1)
        name = "compiled_rows" if compiles else "fused_rows" if fusible and fuses else "split_keys"
        return _few_rows(shape, problem.kv_heads, name, 0)
    subtracts = problem.visible.adds or not _are_short(problem, problem.keys)
    name = "fused" if not subtracts and can_fuse(problem) else "attenio"
    return _many_rows(shape, name, subtracts)


def _are_short(problem: KernelProblem, keys: int, requests: int | None = None) -> bool:
    """Whether nothing has to be subtracted from scores with so many keys; not known of tensors without data."""
    return not problem.query.is_meta and are_short(problem.query, problem.key[:requests, :, :keys], problem.scale)


@lru_cache(maxsize=4096)
def _many_rows(shape: Shape, name: str, subtracts: bool) -> Choice:
    tiling = replace(tiling_for(shape), subtracts=subtracts)
    rows, keys, why = tiling.query_tile, tiling.key_tile, _WIDE_PRODUCTS
    if name == "fused":
        (most_rows, most_keys), why = library_tiles(shape.queries, shape.keys), _FUSED
        rows, keys = min(rows, most_rows), min(keys, most_keys)
    grouped = {"head_tile": shape.group} if shape.group > 1 else {}
    dataflow = Dataflow.STACKED_GROUPS if grouped else Dataflow.ATTENIO
    tiles = Tiles.of(query_tile=rows, **grouped, key_tile=keys)
    return Choice(dataflow=dataflow, tiles=tiles, language="PyTorch", name=name, kernel=tiling, why=why)


@lru_cache(maxsize=4096)
def _few_rows(shape: Shape, kv_heads: int, name: str, skipped: int) -> Choice:
    """All rows of some heads at once, over the keys from ``skipped`` on, split where heads alone leave threads idle."""
    own = replace(shape, keys=max(1, shape.keys - skipped))
    tiling, length = tiling_for(own), shape.keys - skipped
    splits = -(-shape.threads // _head_tasks(shape, kv_heads, tiling.heads_at_once))
    run = max(tiling.key_tile if splits > 1 else 1, -(-length // splits))
    if name == "fused_rows" and shape.batch_heads >= shape.threads:
        run = length
    split = Split(skipped, shape.keys, run, max(1, -(-length // run)))
    held = _held_keys(own, shape.queries, tiling.key_tile)
    sizes: dict[str, Any] = {"query_tile": shape.queries, "head_tile": shape.group}
    sizes["key_tile"] = min(held, TILE) if name == "compiled_rows" else held
    dataflow = Dataflow.STACKED_GROUPS if shape.group > 1 else Dataflow.ATTENIO
    if shape.keys > 1:
        dataflow, sizes["keys_per_split"] = Dataflow.SPLIT_KEYS, max(sizes["key_tile"], run)
    elif shape.group == 1:
        del sizes["head_tile"]
    return Choice(
        dataflow=dataflow, tiles=Tiles.of(**sizes), language="PyTorch", name=name, kernel=tiling, why=READ_ONCE,
        split=split,
    )  # fmt: skip


def _head_tasks(shape: Shape, kv_heads: int, at_once: int) -> int:
    """Tasks of whole heads: ``batch_heads`` in ``tiles`` has them."""
    batch = shape.batch_heads // kv_heads
    return -(-batch // max(1, at_once // kv_heads)) * -(-kv_heads // min(kv_heads, at_once))


def _held_keys(shape: Shape, positions: int, key_tile: int) -> int:
    """Keys that fit beside the rows: the product of few rows passes over more than fit, and holds so many at a time."""
    words = (private_boundary(host_machine()).fast.capacity_bytes or 0) // 4
    rows = positions * shape.group
    return max(1, min(key_tile, (words - rows * (shape.d + shape.width + 3)) // (rows + max(shape.d, shape.width))))


def _stacked(problem: KernelProblem) -> Choice:
    """The prefix once for all requests, by the nest that is quickest for so many rows; then each one's own keys."""
    shape, prefix = Shape.of(problem), problem.prefix
    rows = shape.group * problem.batch * shape.queries
    # More rows than the compiled kernel takes at once the fused one meets as fast, where it can.
    fuses = can_fuse_rows(problem)
    compiles = can_compile(problem, prefix, at_once=rows if fuses else shape.group)
    short = not (compiles or fuses) and _are_short(problem, prefix, requests=1)
    whole = can_compile(problem, problem.keys) and problem.visible.is_whole(problem.everything)
    whole = whole and problem.keys > prefix
    own = _few_rows(shape, problem.kv_heads, "compiled_rows" if whole else "split_keys", prefix)
    name = "compiled_rows" if compiles else "fused_rows" if fuses else "attenio"
    together = replace(shape, batch_heads=problem.kv_heads, queries=problem.batch * shape.queries, keys=prefix)
    return _prefix(together, name, not short, own)


@lru_cache(maxsize=1024)
def _prefix(shape: Shape, name: str, subtracts: bool, own: Choice) -> Choice:
    tiling = tiling_for(replace(shape, threads=1))
    most = min(tiling.query_tile, MOST_ROWS // shape.group) if name == "compiled_rows" else tiling.query_tile
    # Tiles of positions of equal size: no thread waits for a larger one.
    count = -(-shape.queries // most)
    turns = -(-count * shape.batch_heads // shape.threads)
    if turns > 1:  # as many tiles as threads take in as many turns
        count = max(count, turns * shape.threads // shape.batch_heads)
    positions = -(-shape.queries // count)
    # Rows are worth more together than keys: threads share the keys of the prefix.
    splits = -(-shape.threads // (shape.batch_heads * -(-shape.queries // positions)))
    run = -(-shape.keys // splits)
    keys = _held_keys(shape, positions, tiling.key_tile) if tiling.has_few_rows else tiling.key_tile
    return Choice(
        dataflow=Dataflow.STACKED_GROUPS,
        tiles=Tiles.of(
            query_tile=positions, head_tile=shape.group, key_tile=min(keys, TILE) if name == "compiled_rows" else keys
        ),
        language="PyTorch", name=name, kernel=replace(tiling, query_tile=positions, subtracts=subtracts),
        why=READ_ONCE if tiling.has_few_rows else _WIDE_PRODUCTS,
        split=Split(0, shape.keys, run, -(-shape.keys // run)), own=own,
    )  # fmt: skip


def choose_backward(problem: KernelProblem, *, subtracts: bool) -> Choice:
    """What computes the gradients, where the forward pass ``subtracts`` from scores or does not."""
    fuses = problem.keys > 1 and not subtracts and can_fuse(problem)
    return _backward(Shape.of(problem, backward=True), fuses)


@lru_cache(maxsize=4096)
def _backward(shape: Shape, fuses: bool) -> Choice:
    tiling, few = tiling_for(shape), shape.group * shape.queries <= FEW_ROWS
    if fuses:  # it keeps rows while keys pass, and adds to the gradients of keys
        rows, keys = library_tiles(shape.queries, shape.keys)
        return Choice(
            dataflow=Dataflow.QUERY_STATIONARY, tiles=Tiles.of(query_tile=rows, key_tile=keys), language="PyTorch",
            name="fused_backward", kernel=replace(tiling, subtracts=False), why=_FUSED,
        )  # fmt: skip
    # As many keys stay as rows did, but no fewer tiles than threads; few rows leave room for their keys.
    most = tiling.key_tile if few else tiling.query_tile * shape.group
    stationary = max(1, min(most, -(-shape.keys // -(-shape.threads // shape.batch_heads))))
    # Where keys are few, still so many rows at once that a product is worth its call.
    passing = max(1, max(tiling.key_tile, PRODUCT_KEYS) // shape.group)
    return Choice(
        dataflow=Dataflow.TWO_PASS,
        tiles=Tiles.of(
            query_tile=tiling.query_tile, head_tile=shape.group, key_tile=tiling.key_tile,
            stationary_keys=stationary, passing_queries=min(passing, shape.queries),
        ),
        language="PyTorch", name="two_pass", kernel=tiling, why=_TWO_PASSES,
    )  # fmt: skip


def choose_library(problem: KernelProblem, sizes: Sizes) -> Choice:
    """PyTorch's own attention, with the tiles of its fused kernel that fit beside each other in the cache."""
    rows, keys = library_tiles(sizes.queries, sizes.keys)
    tiling = tiling_for(Shape.of(problem))
    return Choice(
        dataflow=Dataflow.ATTENIO, language=LIBRARY, name="scaled_dot_product_attention",
        tiles=Tiles.of(query_tile=min(rows, tiling.query_tile), key_tile=min(keys, tiling.key_tile)),
        kernel=Library(is_fused=sizes.fuses),
        why=f"expected to take {library_seconds(sizes) * 1e6:,.0f} us by PyTorch's own attention and"
        f" {tiles_seconds(sizes) * 1e6:,.0f} us by tiles of products called from Python",
    )  # fmt: skip
