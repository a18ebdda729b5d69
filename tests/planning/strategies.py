"""Small random workloads, and every tile there is for them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product

import numpy as np
from hypothesis import strategies as st

from attenio.masks import BlockSparse, Causal, Dense, Documents, Mask, SharedPrefix, SlidingWindow
from attenio.planning.costs import Cost, cost_of, problems_of, tile_names
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.words.causal_sums import MOST_TILES as MOST_CAUSAL_TILES
from attenio.planning.words.exchanged_keys import MOST_TILES
from attenio.planning.words.exchanged_rows import MOST_EXCHANGES, MOST_LAST
from attenio.planning.words.kept_keys import column_groups, groups_of_stacked, last_columns_form, pairs_of_columns
from attenio.planning.words.last_columns import most_slots
from attenio.planning.words.turning_tiles import MOST_TILES as MOST_TURNING
from attenio.workload import Workload


@st.composite
def masks(draw: st.DrawFn, queries: int, keys: int) -> Mask:
    match draw(st.sampled_from(["dense", "causal", "window", "documents", "prefix", "blocks"])):
        case "causal":
            return Causal()
        case "window":
            return SlidingWindow(width=draw(st.integers(1, keys)), causal=draw(st.booleans()))
        case "documents":
            count = draw(st.integers(1, min(8, queries, keys)))
            lengths, key_lengths = (draw(_parts(total, count)) for total in (queries, keys))
            return Documents(lengths=lengths, key_lengths=key_lengths, causal=draw(st.booleans()))
        case "prefix" if keys > 1:
            length = draw(st.integers(1, keys - 1))
            return SharedPrefix(length=length, causal=queries <= keys - length)
        case "blocks":
            height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
            shape = -(-queries // height), -(-keys // width)
            cells = draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
            return BlockSparse.from_array(np.array(cells).reshape(shape), query_block=height, key_block=width)
    return Dense()


@st.composite
def _parts(draw: st.DrawFn, total: int, count: int) -> tuple[int, ...]:
    inner = (
        draw(st.lists(st.integers(1, total - 1), min_size=count - 1, max_size=count - 1, unique=True))
        if total > 1
        else []
    )
    return tuple(stop - start for start, stop in pairwise([0, *sorted(inner), total]))


@st.composite
def workloads(draw: st.DrawFn, longest: int = 9, widest: int = 4) -> Workload:
    queries = draw(st.integers(1, longest))
    keys = draw(st.just(queries) | st.integers(1, longest))
    kv_heads = draw(st.sampled_from([1, 1, 2]))
    return Workload(
        queries=queries,
        keys=keys,
        d=draw(st.integers(1, widest)),
        value_dim=draw(st.integers(1, widest)),
        heads=kv_heads * draw(st.sampled_from([1, 1, 2, 3])),
        kv_heads=kv_heads,
        batch=draw(st.integers(1, 3)),
        mask=draw(masks(queries, keys)),
        accumulator=draw(st.sampled_from([None, "fp32"])),
    )


@st.composite
def directed(draw: st.DrawFn, longest: int = 9, widest: int = 4) -> Workload:
    """The same, forward or backward."""
    return draw(workloads(longest=longest, widest=widest)).towards(draw(st.sampled_from(["forward", "backward"])))


def _is_for_others(problems, names: tuple[str, ...]) -> bool:
    """Whether a form is not searched for these problems."""
    if names[0] in ("waiting_rows", "waiting_keys", "stacked_rows", "row_sums", "turn_rows", "turn_keys"):
        return not problems.counts.kind.dense
    if not {"exchanged_rows", "exchanged_keys", "last_columns"}.isdisjoint(names) and problems.values_in_keys:
        return True
    if names[0] == "exchanged_rows":
        return not problems.counts.kind.staircase
    if names[0] == "group_positions":
        return not (problems.group > 1 and problems.counts.kind.keys_roll)
    if any(
        name in names and not getattr(problems.counts.kind, kind)
        for name, kind in (("rolling_rows", "rows_roll"), ("rolling_keys", "keys_roll"))
    ):
        return True
    if "waiting_key_sums" in names:
        return not problems.counts.kind.keys_roll
    if {"rolling_rows", "stationary_keys"} <= set(names):  # under a window both roll
        return problems.counts.kind.keys_roll
    if names[0] == "whole_rows":
        return not problems.counts.kind.keys_roll
    if names[0] == "exchanged_positions":
        return not problems.counts.kind.dense
    if names[0] in ("last_keys", "first_keys"):
        return not problems.counts.kind.causal
    if "ring_rows" in names:
        kind = problems.counts.kind
        return not (kind.rows_roll or (kind.dense and "ring_keys" in names))
    if names[0] in ("masked_turn_rows", "masked_turn_keys"):
        return not problems.counts.kind.turns
    return names[0] == "ring_keys" and problems.counts.only_band is None


def _rolling_choices(problems, names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Rows and keys that come and go one by one, so that what they meet is read a whole number of times."""
    found: dict[str, tuple[int, ...]] = {}
    for tile, slots in (("rolling_rows", "kept_keys"), ("rolling_keys", "kept_rows")):
        if tile in names:
            band = problems.counts.only_band.transposed if tile == "rolling_keys" else problems.counts.only_band
            if not band.is_window:  # as many as fit, and one slot
                found |= {tile: tuple(range(1, band.rows + 1)), slots: (1,)}
                continue
            needed = min(band.left + band.right + 1, band.rows)
            found[tile] = tuple(dict.fromkeys(-(-needed // reads) for reads in range(1, needed + 1)))
    return found


def _sums_first(tiles: Tiles) -> bool:
    """Whether slots keep rows, or keys, only where all sums wait, if any do: that is what is searched."""
    for names in (("rolling_keys", "kept_rows", "waiting_sums"), ("rolling_rows", "kept_keys", "waiting_key_sums")):
        if names[-1] in tiles:
            held, slots, sums = (tiles[name] for name in names)
            return slots == 1 or slots >= held or slots + sums == held + 1
    return True


def _exchanges(tiles: Tiles, rows: int) -> bool:
    """Whether as many tiles exchange as there are to be, and few come after them: that is what is searched."""
    left = rows - tiles["exchanges"] * tiles["exchanged_rows"]
    return left >= 1 and (left - 1) // tiles["last_rows"] <= MOST_LAST


def _ends_with_more(problems, tiles: Tiles) -> bool:
    """Whether columns are a pair that is tried, a tile comes before the last, and no more keys stay than are tried."""
    pair = tiles["value_columns"], tiles["last_columns"]
    if (
        pair not in pairs_of_columns(problems.sizes)
        or problems.group * problems.counts.rows <= 2 * tiles["stacked_rows"]
    ):
        return False
    (phase,) = last_columns_form(problems.sizes, *pair).phases
    return tiles["kept_keys"] <= most_slots(phase, problems.counts.keys)


def _turns(tiles: Tiles, rows: int) -> bool:
    """Whether there are several tiles, and few."""
    return 1 < -(-rows // tiles["stacked_rows"]) <= MOST_TILES


def _few_turns(problems, tiles: Tiles) -> bool:
    """Whether there are few tiles, and at least one turn in dense problems: that is what is searched."""
    if "last_keys" not in tiles:
        return problems.counts.most_rows > 1 and 1 < -(-problems.counts.most_keys // tiles["key_tile"]) <= MOST_TURNING
    return -(-(problems.counts.most_keys - tiles["last_keys"]) // tiles["key_tile"]) <= MOST_CAUSAL_TILES


# Sums that take turns.
_TURNS = frozenset(("masked_turn_rows", "masked_turn_keys", "turn_rows", "turn_keys"))


def _take_turns(problems, tiles: Tiles) -> bool:
    """Whether no more sums take turns than there is room for."""
    d, both, rows, keys = (
        problems.d,
        problems.d + problems.value_dim,
        problems.counts.most_rows,
        problems.counts.most_keys,
    )
    if "masked_turn_rows" in tiles:
        slots, tile, own = (tiles[name] for name in ("masked_turn_rows", "key_tile", "own_row_sums"))
        return _all_have_turns(problems, (tile, slots, own, max(1, min(slots, tile * both // d))), across=True)
    if "masked_turn_keys" in tiles:
        slots, tile, own = (tiles[name] for name in ("masked_turn_keys", "query_tile", "own_key_sums"))
        hand = max(1, min(slots, tile * problems.group * d // both))
        return _all_have_turns(problems, (tile, slots, own, hand), across=False)
    if "turn_rows" in tiles:
        tile, slots, waiting = tiles["key_tile"], tiles["turn_rows"], problems.group * rows - tiles["own_row_sums"]
        return waiting <= 2 * max(1, min(tile * both // d, slots))
    tile, slots, waiting = tiles["stacked_rows"], tiles["turn_keys"], keys - tiles["own_key_sums"]
    return waiting <= 2 * max(1, min(tile * d // both, slots))


def _all_have_turns(problems, sizes: tuple[int, int, int, int], *, across: bool) -> bool:
    """Whether every sum without a place of its own has a turn: no two groups the same, and all there over it."""
    (tile, slots, own, hand), band = sizes, problems.counts.only_band
    if across:
        needs = [(int(band.first_key(row)), int(band.end_key(row))) for row in range(band.rows)]
        needs = [keys for keys in needs for _ in range(problems.group)]
    else:
        n, turned = band.rows, band.transposed
        needs = [(n - int(turned.end_key(k)), n - int(turned.first_key(k))) for k in reversed(range(band.keys))]
    met = [(first // tile, (end - 1) // tile) for first, end in needs]
    if own > len(needs) or (needs[-1][0] > 0 and needs[0][1] > tile):
        return False
    waiting, used = list(range(len(needs) - own)), set()
    while waiting:
        turn = met[waiting[0]][1]
        ending = sum(met[c][1] == turn for c in waiting)
        most = min(hand, max(ending, len(waiting) % hand or hand)) if turn else ending
        group = [c for c in waiting[:most] if met[c][0] <= turn]
        waiting = waiting[len(group) :]
        there = [c for c in range(len(needs)) if met[c][1] >= turn][:slots]
        if turn in used or (turn and not {*group} <= {*there}):
            return False
        used.add(turn)
    return True


def costs(workload: Workload, dataflow: Dataflow, every: Iterable[Tiles]) -> list[Cost]:
    """What each of many tiles costs; what none of them changes is counted once."""
    problems = problems_of(workload, dataflow)
    return [cost_of(problems, dataflow, tiles) for tiles in every]


def all_tiles(workload: Workload, dataflow: Dataflow, *, reading: bool = False) -> Iterator[Tiles]:
    """Every tile that differs from a smaller one; ``reading``, those for saved probabilities too."""
    problems = problems_of(workload, dataflow)
    rows, keys = range(1, problems.counts.most_rows + 1), range(1, problems.counts.most_keys + 1)
    columns = range(1, problems.value_dim + 1)
    sizes = {
        "query_tile": rows,
        "score_rows": rows,
        "output_rows": rows,
        "later_rows": rows,
        "key_tile": keys,
        "score_keys": keys,
        "resident_keys": range(problems.counts.most_keys + 1),
        "kept_keys": keys,
        "kept_rows": rows,
        "group_positions": rows,
        "stacked_rows": range(1, problems.group * problems.counts.most_rows + 1),
        "row_sums": range(1, problems.group * problems.counts.most_rows + 1),
        "key_sums": keys,
        "turn_rows": range(1, problems.group * problems.counts.most_rows + 1),
        "own_row_sums": range(problems.group * problems.counts.most_rows + 1),
        "turn_keys": keys,
        "masked_turn_rows": range(1, problems.group * problems.counts.most_rows + 1),
        "masked_turn_keys": keys,
        "last_keys": range(problems.counts.most_keys + 1),
        "first_keys": keys,
        "standing_rows": range(problems.group * problems.counts.most_rows + 1),
        "standing_sums": range(problems.counts.most_rows + 1),
        "exchanged_positions": range(problems.counts.most_rows + 1),
        "own_key_sums": range(problems.counts.most_keys + 1),
        "waiting_rows": range(problems.counts.most_rows + 1),
        "waiting_keys": range(problems.counts.most_keys + 1),
        "late_rows": range(problems.group * problems.counts.most_rows + 1),
        "late_keys": range(problems.counts.most_keys + 1),
        "waiting_sums": range(problems.counts.most_rows + 1),
        "waiting_key_sums": range(problems.counts.most_keys + 1),
        "exchanged_rows": rows,
        "exchanged_keys": range(1, problems.counts.most_keys // 2 + 1),
        "exchanges": range(1, MOST_EXCHANGES + 1),
        "last_rows": rows,
        "keys_per_split": range(1, -(-problems.counts.most_keys // 2) + 1),
        "head_tile": range(1, problems.group + 1),
        "output_columns": columns,
        "depth_tile": columns,
        "stationary_keys": keys,
        "passing_queries": rows,
        "resident_rows": rows,
        "whole_rows": rows,
        "whole_keys": keys,
        "summed_keys": keys,
        "gradient_rows": rows,
        "gradient_keys": keys,
        "value_keys": keys,
        "value_rows": rows,
        "value_columns": columns,
        "last_columns": columns,
        "key_keys": keys,
        "key_columns": range(1, problems.d + 1),
        "query_rows": rows,
        "query_columns": range(1, problems.d + 1),
    }
    for names in tile_names(dataflow):
        if "gradient_keys" in names and not reading:
            continue  # nothing has saved probabilities
        choices = dict(sizes)
        if dataflow is Dataflow.FLAT and "resident_keys" in names:
            choices |= {"query_tile": range(1, 2), "resident_keys": range(problems.counts.most_keys)}
        if _is_for_others(problems, names):
            continue
        if names[0] in ("ring_keys", "ring_rows"):
            counts = problems.counts
            rings = {"ring_keys": max(1, int(counts.only_band.longest_row)), "ring_rows": int(counts.ring_rows.of_two)}
            yield Tiles.of(**{name: rings[name] for name in names})
            continue
        choices |= _rolling_choices(problems, names)
        if dataflow is Dataflow.KEPT_KEYS and names[0] not in ("rolling_rows", "exchanged_rows"):
            groups = (1,) if problems.values_in_keys else column_groups(problems.d, problems.value_dim)
            if names[0] == "stacked_rows":
                groups = (1, *(() if problems.values_in_keys else groups_of_stacked(problems.d, problems.value_dim)))
            choices["value_columns"] = tuple(-(-problems.value_dim // count) for count in groups)
        elif "value_rows" in names:
            groups = [count for count in column_groups(problems.d, problems.value_dim) if count > 1]
            choices["value_columns"] = tuple(-(-problems.value_dim // count) for count in groups)
        searched = _searched(problems, names)
        for chosen in product(*(choices[name] for name in names)):
            tiles = Tiles(tuple(zip(names, chosen, strict=True)))
            if all(each(tiles) for each in searched):
                yield tiles


def _searched(problems, names: Sequence[str]) -> list[Callable[[Tiles], bool]]:
    """What tiles of these names are to keep to."""
    every: list[tuple[bool, Callable[[Tiles], bool]]] = [
        (not {"waiting_sums", "waiting_key_sums"}.isdisjoint(names), _sums_first),
        ("exchanged_rows" in names, lambda tiles: _exchanges(tiles, problems.counts.rows)),
        ("last_columns" in names, lambda tiles: _ends_with_more(problems, tiles)),
        ("exchanged_keys" in names, lambda tiles: _turns(tiles, problems.group * problems.counts.rows)),
        (not _TURNS.isdisjoint(names), lambda tiles: _take_turns(problems, tiles)),
        ("exchanged_positions" in names, lambda tiles: _few_turns(problems, tiles)),
    ]
    return [keeps_to for applies, keeps_to in every if applies]
