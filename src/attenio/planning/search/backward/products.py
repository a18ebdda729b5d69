"""The products that end the dataflows for small fast memories: dV, dK and dQ from stored scores, each by itself."""

from math import inf

from attenio.planning.problems import Problems
from attenio.planning.search.columns import OutputRoom, OutputTile, best_output_tile, output_floor

__all__ = ["Product", "least_product_words", "product_sizes", "product_tiles"]

# Whose rows a resident tile has, and how wide they are: ("value", dv), ("key", d) or ("query", d).
Product = tuple[str, int]


def product_tiles(problems: Problems, fast_words: int, products: tuple[Product, ...]) -> tuple[OutputTile, ...] | None:
    """The tiles of these products with the fewest words of one head; None if one of them does not fit."""
    found = []
    for name, width in products:
        tile = best_output_tile(_across(problems, name), OutputRoom(words=fast_words - 1, extra=1, width=width))
        if tile is None:
            return None
        found.append(tile)
    return tuple(found)


def product_sizes(products: tuple[Product, ...], tiles: tuple[OutputTile, ...]) -> dict[str, int]:
    """The tiles by the names that dataflows have for them."""
    sizes = {}
    for (name, _), tile in zip(products, tiles, strict=True):
        sizes[f"{name}_rows" if name == "query" else f"{name}_keys"] = tile.rows
        sizes[f"{name}_columns"] = tile.columns
    return sizes


def least_product_words(problems: Problems, fast_words: int, products: tuple[Product, ...]) -> float:
    """Words of one head that no tiles which fit go below; infinite if none fits."""
    if fast_words < 2:
        return inf
    return sum(_floor(_across(problems, name), fast_words, width) for name, width in products)


def _floor(across: Problems, fast_words: int, width: int) -> float:
    question = "floor", fast_words, width
    if question not in across.answers:
        across.answers[question] = output_floor(across, OutputRoom(words=fast_words - 1, extra=1, width=width))
    floor: float = across.answers[question]
    return floor


def _across(problems: Problems, name: str) -> Problems:
    return problems if name == "query" else problems.transposed
