"""Best tiles of split keys: two runs, as few as the name allows, over the heads and positions that suit them."""

from attenio.planning.costs.split_keys import partial_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.attenio import tile_room
from attenio.planning.search.room import key_room
from attenio.planning.search.row_tiles import RowWords
from attenio.planning.search.stacked_groups import best_head_tile

__all__ = ["best_tiles"]


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits or there are too few keys to split."""
    merge = (2 * problems.value_dim + 4) * problems.intermediate_words
    split, unit = -(-problems.most_keys // 2), problems.granularity.keys
    split = -(-split // unit) * unit
    if split >= problems.most_keys or merge > fast_words:
        return None

    def words_with(head_tiles: int) -> RowWords:
        keys = head_tiles * problems.key_words
        rows = problems.group * partial_words(problems)
        return RowWords(problems=problems, live=0, loads=keys, met=rows, split=split)

    best = best_head_tile(problems, lambda heads: tile_room(problems, fast_words, heads=heads), words_with)
    if best is None:
        return None
    words, heads, query_tile = best
    keys = key_room(problems, (tile_room(problems, fast_words, heads=heads),), query_tile)
    tiles = Tiles.of(query_tile=query_tile, head_tile=heads, keys_per_split=split, key_tile=keys)
    return MovingTiles(problems.runs * (words + problems.group * problems.rows * problems.value_dim), tiles)
