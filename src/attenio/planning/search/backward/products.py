"""The products that end the dataflows for small fast memories: dV, dK and dQ from stored scores, each by itself."""

from math import inf

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.columns import OutputRoom, OutputTile, best_output_tile, output_floor

__all__ = ["Product", "least_product_words", "product_tiles"]

# Whose rows a resident tile has, and how wide they are: ("value", dv), ("key", d) or ("query", d).
Product = tuple[str, int]


def product_tiles(problems: Problems, fast_words: int, products: tuple[Product, ...]) -> tuple[int, Tiles] | None:
    """Words of one head and the tiles of these products, with the fewest words; None if one of them does not fit."""
    found: dict[tuple[bool, int], OutputTile | None] = {}
    sizes: dict[str, int] = {}
    words = 0
    for name, width in products:
        case = name == "query", width
        if case not in found:
            room = OutputRoom(words=fast_words - 1, extra=1, width=width)
            found[case] = best_output_tile(_across(problems, name), room)
        tile = found[case]
        if tile is None:
            return None
        words += tile.words
        rows = "rows" if name == "query" else "keys"
        sizes |= {f"{name}_{rows}": tile.rows, f"{name}_columns": tile.columns}
    return words, Tiles.of(**sizes)


def least_product_words(problems: Problems, fast_words: int, products: tuple[Product, ...]) -> float:
    """Words of one head that no tiles which fit go below; infinite if none fits."""
    if fast_words < 2:
        return inf
    rooms = [(name, OutputRoom(words=fast_words - 1, extra=1, width=width)) for name, width in products]
    return sum(output_floor(_across(problems, name), room) for name, room in rooms)


def _across(problems: Problems, name: str) -> Problems:
    return problems if name == "query" else problems.transposed
