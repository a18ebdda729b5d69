"""Best tiles of stacked groups: how many heads share a tile, and how many positions of each."""

from collections.abc import Callable
from math import inf

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.attenio import row_words, tile_room
from attenio.planning.search.columns import head_tiles
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile, even_tile

__all__ = ["HeadTile", "best_head_tile", "best_tiles", "floor_words", "some_words"]

# words, head tile, query tile
HeadTile = tuple[int, int, int]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words; None if none fits, any tiles if all move more than ``limit``."""
    own = problems.group * problems.rows * problems.value_dim
    spare = None if limit is None else limit // problems.runs - own
    best = best_head_tile(problems, _rooms(problems, fast_words), lambda tiles: _words(problems, tiles), spare)
    if best is None:
        return None
    words, heads, query_tile = best
    keys = key_room(problems, (tile_room(problems, fast_words, heads=heads),), query_tile)
    return MovingTiles(problems.runs * (words + own), Tiles.of(query_tile=query_tile, head_tile=heads, key_tile=keys))


def best_head_tile(
    problems: Problems,
    room_for: Callable[[int], Room],
    words_with: Callable[[int], RowWords],
    limit: int | None = None,
) -> HeadTile | None:
    """The heads and positions with the fewest words, given the room for tiles of so many heads and the words for so
    many tiles of heads; if all have more than ``limit``, any that fit.

    Among equals the tile with the fewest rows, then the fewest heads. For each number of head tiles the least heads
    leave the most positions.
    """
    choices = []
    for count, heads in head_tiles(problems.group, problems.granularity.rows):
        most = row_room(problems, room_for(heads), heads)
        if most >= 1:
            form = words_with(count)
            form = form if problems.granularity.rows == 1 else form._replace(heads=heads)
            choices.append((form.floor(most), heads, most, form))
    best: tuple[int, int, int, int] | None = None
    for floor, heads, most, form in sorted(choices, key=lambda choice: choice[:2]):
        if best is not None and floor > best[0]:
            break
        words, tile = best_row_tile(form, most, limit)
        found = (words, heads * tile, heads, tile)
        best = found if best is None else min(best, found)
        limit = best[0] if limit is None else min(limit, best[0])
    return None if best is None else (best[0], best[2], best[3])


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    floor = min((floor for floor, *_ in _options(problems, fast_words)), default=inf)
    return problems.runs * (problems.group * problems.rows * problems.value_dim + floor)


def some_words(problems: Problems, fast_words: int) -> int | None:
    """Words of one good tile, quickly; None if none fits."""
    options = _options(problems, fast_words)
    if not options:
        return None
    _, count, most, heads = min(options)
    even = even_tile(problems.most_rows, most, problems.granularity.positions(heads))
    words = _words(problems, count).words(even)
    return problems.runs * (words + problems.group * problems.rows * problems.value_dim)


def _options(problems: Problems, fast_words: int) -> list[tuple[int, int, int, int]]:
    """For each number of head tiles for which one position fits: floor, number, most positions, and heads of a tile."""
    live = problems.group * problems.d * problems.touched_rows
    options = []
    for count, heads in head_tiles(problems.group, problems.granularity.rows):
        most = row_room(problems, tile_room(problems, fast_words, heads=heads), heads)
        if most >= 1:
            loads = count * problems.key_words * problems.least_key_loads(most)
            options.append((live + loads, count, most, heads))
    return options


def _rooms(problems: Problems, fast_words: int) -> Callable[[int], Room]:
    return lambda heads: tile_room(problems, fast_words, heads=heads)


def _words(problems: Problems, head_tiles: int) -> RowWords:
    return row_words(problems, heads=problems.group, head_tiles=head_tiles)
