"""``attenio product``: what one matrix product moves, ordinary and by Strassen's method."""

from dataclasses import asdict
from typing import Annotated

from attenio.cli.options import AsJson, option
from attenio.cli.output import plain_table, print_json, print_tables, prose
from attenio.quantities import parse_bytes, parse_count, show_words


def product(
    rows: Annotated[str, option("--rows", "Rows of the left factor (default 1K).", "COUNT")] = "1K",
    keys: Annotated[str, option("--keys", "Columns of the result (default 1K).", "COUNT")] = "1K",
    d: Annotated[str, option("--d", "Products summed in each entry (default 1K).", "COUNT")] = "1K",
    fast_bytes: Annotated[str, option("--fast-bytes", "Fast memory (default 256).", "SIZE", panel="Machine")] = "256",
    dtype: Annotated[str, option("--dtype", "fp32, fp16, bf16 or fp8 (default fp32).", "TYPE")] = "fp32",
    as_json: AsJson = False,
) -> None:
    """Words of the product QKᵀ: by ordinary products, by steps of Strassen's method, and what each must move.

    Strassen's method pays only where d is many times the root of the fast memory, which it never is in attention.

    \b
    Examples:
      attenio product --rows 1K --keys 1K --d 1K --fast-bytes 256
      attenio product --rows 16K --keys 16K --d 128 --fast-bytes 64KB --json
    """
    from attenio.bounds import product_words
    from attenio.bounds.fast_products import fast_product_words
    from attenio.elements import ElementType
    from attenio.fast_products import Shape, best_tile, classical_words, strassen_words
    from attenio.fast_products.words import fitting_levels, most_levels
    from attenio.quantities import words_in

    shape = Shape(rows=parse_count(rows, "rows"), keys=parse_count(keys, "keys"), depth=parse_count(d, "d"))
    fast_words = words_in(parse_bytes(fast_bytes, "fast-bytes"), element_bytes=ElementType.named(dtype).bytes)
    tile = best_tile(shape, fast_words)
    ways = [("ordinary", classical_words(shape, tile))]
    for levels in range(1, min(most_levels(shape), fitting_levels(shape, fast_words)) + 1):
        ways.append((f"Strassen, {levels} step{'s' if levels > 1 else ''}", strassen_words(shape, fast_words, levels)))
    compulsory = shape.input_words + shape.scores
    any_way = max(compulsory, int(fast_product_words(shape.scores, shape.depth, fast_words)))
    ordinary = max(compulsory, product_words(shape.rows, shape.keys, shape.depth, fast_words=fast_words))
    if as_json:
        print_json(
            {
                "shape": asdict(shape),
                "fast_words": fast_words,
                "tile": {"order": tile.order.value, "rows": tile.rows, "keys": tile.keys},
                "lower_bounds": {"absolute": any_way, "ordinary": ordinary},
                "ways": [{"way": way, "moved_words": words} for way, words in ways],
            }
        )
        return
    table = plain_table("what", ("words", "right"))
    table.add_row("any product must move", f"{any_way:,}")
    table.add_row("an ordinary product must move", f"{ordinary:,}")
    for way, words in ways:
        table.add_row(f"{way} moves", f"{words:,}")
    print_tables(prose(f"product of {shape}, {show_words(fast_words)} of fast memory"), "", table)
