"""Tiles of queries and the keys that each needs: runs of equal tiles, or of tiles that need more and more."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd

import numpy as np

from attenio.accelerator.growth import Growing, Listed, RoundNumber
from attenio.accelerator.program import Node, Ramp, Repeat, repeat
from attenio.accelerator.step import GrowingStep, Step
from attenio.errors import InvalidInput
from attenio.masks.patterns import Band, Pattern
from attenio.planning.problems import Problems

Nodes = tuple[Node, ...]

# Tiles of a mask without a rule whose keys are listed; and sizes that are written out where steps follow no rule.
_MOST_LISTED = 2**22
_MOST_SIZES = 2**10
# Rounds of a ramp below which its tiles are written out.
_FEW_ROUNDS = 4


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys that a tile needs: a number, or one that depends on the round of a ramp and lies in some range."""

    number: int | RoundNumber
    least: int
    most: int
    step: int = 1  # any two of them differ by a multiple of it

    @classmethod
    def fixed(cls, number: int) -> "Keys":
        """A number that is the same in all rounds."""
        return cls(number=number, least=number, most=number)

    def split(self, keys: int) -> "tuple[Keys, Keys]":
        """As many of them as ``keys``, and those beyond; a number with a rule lies on one side in all rounds."""
        if self.most <= keys:
            return self, Keys.fixed(0)
        if isinstance(self.number, Listed):
            within = replace(self, number=self.number.clipped(0, keys), least=min(self.least, keys), most=keys)
            beyond = (self.number - keys).clipped(0, self.most)
            return within, replace(self, number=beyond, least=max(self.least - keys, 0), most=self.most - keys)
        assert self.least >= keys, "tiles with and without keys beyond in one ramp"
        return Keys.fixed(keys), replace(
            self, number=self.number - keys, least=self.least - keys, most=self.most - keys
        )


@dataclass(frozen=True, kw_only=True)
class TileRun:
    """Tiles of equally many rows, the first of which needs ``keys``, and each other one ``growth`` more.

    Where the keys follow no rule, ``listed`` has those of every tile.
    """

    count: int
    rows: int
    keys: int
    growth: int = 0
    listed: "tuple[int, ...] | None" = None

    def keys_at(self, number: int) -> int:
        """The keys that a tile of the run needs."""
        return self.keys + number * self.growth if self.listed is None else self.listed[number]

    @property
    def is_even(self) -> bool:
        """Whether all of its tiles need equally many keys."""
        return self.count <= 1 or (self.growth == 0 and self.listed is None)

    @property
    def needed(self) -> Keys:
        """The keys of its tiles, tile by tile."""
        if self.is_even:
            return Keys.fixed(self.keys)
        if self.listed is not None:
            number = Listed(np.asarray(self.listed, dtype=np.int64))
            return Keys(number=number, least=min(self.listed), most=max(self.listed))
        ends = sorted((self.keys, self.keys_at(self.count - 1)))
        return Keys(number=Growing(self.keys, self.growth), least=ends[0], most=ends[1], step=abs(self.growth))

    def part(self, start: int, stop: int) -> "TileRun":
        """The run from one of its tiles to another."""
        listed = None if self.listed is None else self.listed[start:stop]
        return replace(self, count=stop - start, keys=self.keys_at(start) if stop > start else 0, listed=listed)

    def split_at_keys(self, *bounds: int) -> "tuple[TileRun, ...]":
        """Its tiles in their order, cut where the needed keys pass one of the bounds; at most so many is one side."""
        if self.is_even:
            return (self,)
        if self.listed is not None:
            sides = np.searchsorted(np.asarray(sorted(bounds)), np.asarray(self.listed), side="left")
            edges = {0, *(np.flatnonzero(np.diff(sides)) + 1).tolist(), self.count}
            if len(edges) > _MOST_SIZES:
                raise _too_many(len(edges), _MOST_SIZES)
        else:
            # the first tile on the other side of each bound
            firsts = (
                (bound - self.keys) // self.growth + 1 if self.growth > 0 else -((bound - self.keys) // -self.growth)
                for bound in bounds
            )
            edges = {0, *(min(max(first, 0), self.count) for first in firsts), self.count}
        return tuple(self.part(start, stop) for start, stop in pairwise(sorted(edges)))


def query_tiles(pattern: Pattern, query_tile: int) -> Iterator[TileRun]:
    """The tiles of a pattern, run by run; a run needs keys in all of its tiles or in none."""
    whole, rest = divmod(pattern.rows, query_tile)
    runs = _band_runs(pattern, query_tile, whole) if isinstance(pattern, Band) else _runs(pattern, query_tile, whole)
    for run in runs:
        yield from run.split_at_keys(0)
    if rest:
        start = pattern.rows - rest
        yield TileRun(count=1, rows=rest, keys=int(pattern.widths(start, pattern.rows)))


def _band_runs(band: Band, query_tile: int, whole: int) -> Iterator[TileRun]:
    """The ends of a tile's keys move with it, except where they are cut off at the first or the last key."""
    ends = (band.shift - band.left, band.shift + band.right + query_tile)
    turns = {(cut - end) // query_tile + more for end in ends for cut in (0, band.keys) for more in (0, 1)}
    edges = [0, *sorted(turn for turn in turns if 0 < turn < whole), whole]
    for start, stop in pairwise(edges):
        if stop > start:
            keys, after = (int(band.widths(tile * query_tile, (tile + 1) * query_tile)) for tile in (start, start + 1))
            growth = after - keys if stop > start + 1 else 0
            yield TileRun(count=stop - start, rows=query_tile, keys=keys, growth=growth)


def _runs(pattern: Pattern, query_tile: int, whole: int) -> Iterator[TileRun]:
    """Tiles whose keys are known only one by one: equal ones together, and the others in one list."""
    if whole > _MOST_LISTED:
        raise _too_many(whole, _MOST_LISTED)
    starts = np.arange(0, whole * query_tile, query_tile, dtype=np.int64)
    keys = np.asarray(pattern.widths(starts, starts + query_tile), dtype=np.int64).reshape(-1)
    edges = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), whole]
    if len(edges) > _FEW_ROUNDS + whole // _FEW_ROUNDS:
        yield TileRun(count=whole, rows=query_tile, keys=int(keys[0]), listed=tuple(keys.tolist()))
        return
    for start, stop in pairwise(edges):
        if stop > start:
            yield TileRun(count=stop - start, rows=query_tile, keys=int(keys[start]))


def tiles_of_run(run: TileRun, bounds: Iterable[int], tile: Callable[[Keys], Nodes]) -> Nodes:
    """The nodes of all tiles of a run, given those of a tile by its keys.

    Tiles that grow in one ramp lie on one side of all bounds; tiles that are listed may lie on both.
    """
    nodes: Nodes = ()
    for part in run.split_at_keys(*bounds) if run.listed is None else (run,):
        if part.is_even:
            nodes += repeat(part.count, *tile(part.needed))
        elif part.count < _FEW_ROUNDS:
            for number in range(part.count):
                nodes += tile(Keys.fixed(part.keys_at(number)))
        else:
            nodes += (Ramp(times=part.count, body=tile(part.needed)),)
    return nodes


def stream(keys: Keys, each: int, body: Callable[[int, bool], Nodes], *, jump: bool = False) -> Nodes:
    """Keys passing by, so many each time: given by their number, and whether they begin where no row is open.

    Only the first do. Where keys grow, all rounds must have fewer keys than ``each``, or none.
    """
    number = keys.number
    if isinstance(number, int):
        whole, rest = divmod(number, each)
        nodes = (*body(each, jump), *repeat(whole - 1, *body(each, False))) if whole else ()
        return (*nodes, *body(rest, jump and not whole)) if rest else nodes
    if isinstance(number, Listed):
        return _listed_stream(number, each, body, jump=jump)
    sizes = range(1 + (keys.least - 1) % keys.step, each, keys.step)
    if keys.most < each:
        return _sized(number, sizes, number, each, lambda size: body(size, jump))
    assert keys.least >= each, "tiles of keys with and without a whole one in one ramp"
    many, over = number.divided(each)
    nodes = (*body(each, jump), Repeat(count=many - 1, body=body(each, False)))
    common = gcd(keys.step, each)
    sizes = range(1 + (keys.least - 1) % common, each, common)
    if not sizes:
        return nodes
    any_over = (number + (each - 1)).divided(each)[0]
    left = _sized(over, sizes, number, each, lambda size: body(size, False))
    return (*nodes, Repeat(count=any_over - many, body=left))


def _listed_stream(number: Listed, each: int, body: Callable[[int, bool], Nodes], *, jump: bool) -> Nodes:
    """The same where rounds have any number of keys: first tiles and what is left over are loops of one or none."""
    many, over = number.divided(each)
    whole, left = many.clipped(0, 1), over.clipped(0, 1)
    sizes = sorted({size for size in over.numbers.tolist() if size})
    nodes = (Repeat(count=whole, body=body(each, jump)), Repeat(count=many - whole, body=body(each, False)))
    if not sizes:
        return nodes
    first = (left - whole).clipped(0, 1)
    after = _sized(over, sizes, number, each, lambda size: body(size, False))
    alone = _sized(over, sizes, number, each, lambda size: body(size, jump))
    return (*nodes, Repeat(count=first, body=alone), Repeat(count=left - first, body=after))


def of_size(keys: Keys, make: Callable[[int], Nodes]) -> Nodes:
    """Nodes that take all keys of a tile at once, and grow evenly with them."""
    if isinstance(keys.number, int):
        return make(keys.number)
    growing = _between(keys.number, make(1), make(2))
    assert growing is not None and _of_size(growing, keys.most) == make(keys.most), "steps that do not grow evenly"
    return growing


def _sized(
    size: RoundNumber, sizes: Sequence[int], number: RoundNumber, each: int, make: Callable[[int], Nodes]
) -> Nodes:
    """Nodes of a size that depends on the round: as they grow with it, or written out for each of few sizes."""
    growing = _between(size, make(1), make(2))
    if growing is not None and all(_of_size(growing, some) == make(some) for some in {1, 3, sizes[0], sizes[-1]}):
        return growing
    if len(sizes) > _MOST_SIZES:
        raise _too_many(len(sizes), _MOST_SIZES)
    # one if the number leaves this rest, else none
    return tuple(
        Repeat(
            count=_difference((number + (each - some)).divided(each)[0], (number + (each - some - 1)).divided(each)[0]),
            body=make(some),
        )
        for some in sizes
    )


def _difference(one: RoundNumber, other: RoundNumber) -> RoundNumber:
    if isinstance(one, Growing):
        assert isinstance(other, Growing)
        return one - other
    assert isinstance(other, Listed)
    return one - other


def _of_size(body: Nodes, size: int) -> Nodes:
    def sized(node: Node) -> Node:
        if isinstance(node, Repeat):
            return replace(node, body=_of_size(node.body, size))
        return node.sized(size) if isinstance(node, GrowingStep) else node

    return tuple(map(sized, body))


def _between(size: RoundNumber, one: Nodes, two: Nodes) -> Nodes | None:
    """Nodes of any size from those of sizes 1 and 2, if they are made of the same steps and loops."""
    if len(one) != len(two):
        return None
    nodes: list[Node] = []
    for first, second in zip(one, two, strict=True):
        if first is second or first == second:
            nodes.append(first)
        elif isinstance(first, Step) and isinstance(second, Step) and first.name == second.name:
            nodes.append(GrowingStep.of(size, first, second))
        elif isinstance(first, Repeat) and isinstance(second, Repeat) and first.count == second.count:
            body = _between(size, first.body, second.body)
            if body is None:
                return None
            nodes.append(replace(first, body=body))
        else:
            return None
    return tuple(nodes)


def _too_many(tiles: int, most: int) -> InvalidInput:
    return InvalidInput(
        f"{tiles:,} tiles under this mask are more than the {most:,} that a program may list;"
        " use a smaller n, a larger cache or a dense mask"
    )


def every_head(problems: Problems, head: Callable[[Pattern], Nodes], *, heads: int) -> Nodes:
    """The program of one head on one pattern, for every pattern, ``heads`` times a run."""
    body = tuple(node for pattern, times in problems.counts.patterns for node in repeat(times, *head(pattern)))
    return repeat(heads * problems.runs, *body)
