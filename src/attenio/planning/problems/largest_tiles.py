"""The largest size of every tile, by its name: a larger one would be cut to it."""

from collections.abc import Callable

from attenio.planning.plan import Tiles
from attenio.planning.problems.problems import Problems
from attenio.quantities import show_count

# What there is a whole number of, what more is to be said of it, and tiles of it.
_OF_ALL: tuple[tuple[str, str, Callable[[Problems], int], tuple[str, ...]], ...] = (
    (
        "query row",
        "",
        lambda problems: problems.counts.most_rows,
        (
            "query_tile",
            "score_rows",
            "output_rows",
            "later_rows",
            "passing_queries",
            "query_rows",
            "gradient_rows",
            "resident_rows",
            "whole_rows",
            "value_rows",
            "rolling_rows",
            "kept_rows",
            "last_rows",
            "ring_rows",
            "waiting_rows",
            "waiting_sums",
            "standing_sums",
            "group_positions",
        ),
    ),
    (
        "key",
        "",
        lambda problems: problems.counts.most_keys,
        (
            "key_tile",
            "score_keys",
            "resident_keys",
            "keys_per_split",
            "stationary_keys",
            "value_keys",
            "key_keys",
            "gradient_keys",
            "whole_keys",
            "summed_keys",
            "rolling_keys",
            "kept_keys",
            "ring_keys",
            "waiting_keys",
            "late_keys",
            "first_keys",
            "last_keys",
            "key_sums",
            "waiting_key_sums",
            "own_key_sums",
            "turn_keys",
            "masked_turn_keys",
            "window",
        ),
    ),
    (
        "query row",
        " in the heads that share keys",
        lambda problems: problems.group * problems.counts.most_rows,
        (
            "stacked_rows",
            "late_rows",
            "row_sums",
            "turn_rows",
            "masked_turn_rows",
            "own_row_sums",
            "standing_rows",
        ),
    ),
    ("query head", " for each KV head", lambda problems: problems.group, ("head_tile",)),
    ("column", " of queries and keys", lambda problems: problems.d, ("key_columns", "query_columns")),
    ("column", " of queries and keys, and of ones", lambda problems: problems.d + 1, ("coordinate_group",)),
    ("column", " of values", lambda problems: problems.value_dim, ("value_columns", "last_columns", "output_columns")),
    ("column", "", lambda problems: max(problems.d, problems.value_dim), ("depth_tile",)),
)
_LARGEST = {name: (what, more, most) for what, more, most, names in _OF_ALL for name in names}


def largest_size(problems: Problems, tiles: Tiles, name: str) -> tuple[int, str] | None:
    """The largest size of a tile beside the others, and what there are so many of; None of a degree, or a state.

    >>> from attenio.workload import Workload
    >>> problems = Problems.separate(Workload(n=24, d=4))
    >>> largest_size(problems, Tiles.of(query_tile=100, key_tile=1), "query_tile")
    (24, 'the problem has 24 query rows')
    """
    special = _beside_others(problems, tiles, name)
    if special is not None:
        return special
    if name not in _LARGEST:
        return None
    what, more, count = _LARGEST[name]
    most = count(problems)
    if name == "value_columns" and "degree" in tiles:
        most, more = most + 1, " of values and of ones"
    return most, f"the problem has {show_count(most, what)}{more}"


def _beside_others(problems: Problems, tiles: Tiles, name: str) -> tuple[int, str] | None:
    """Of tiles that others of the same plan leave fewer to."""
    rows, keys, last = problems.counts.most_rows, problems.counts.most_keys, tiles.get("last_keys", 0)
    match name:
        case "key_tile" if "last_keys" in tiles:
            why = f"last_keys={last:,} leave {max(0, keys - last):,} of the {show_count(keys, 'key')}"
            return max(1, keys - last), why
        case "exchanged_positions" if "last_keys" not in tiles:
            return rows // 2, f"no more than half of the {show_count(rows, 'query row')} may stay at a turn"
        case "exchanged_positions" if keys > rows or last >= keys:
            return 0, "none may stay at a turn where there are more keys than rows, or all are last keys"
        case "exchanged_positions":
            most = min(tiles["key_tile"], rows)
            return (
                most,
                f"no more than {show_count(most, 'query row')} may stay at a turn, as many as key_tile has keys",
            )
        case "exchanged_keys":
            return keys // 2, f"no more than half of the {show_count(keys, 'key')} may stay at a turn"
        case "exchanged_rows":
            return max(1, rows - 1), f"one of the {show_count(rows, 'query row')} is left for the first tile"
        case "exchanges":
            most = max(1, (rows - 1) // tiles["exchanged_rows"])
            tile = tiles["exchanged_rows"]
            return most, f"the problem has {show_count(rows, 'query row')}, of which exchanged_rows={tile:,} take"
        case _:
            return None
