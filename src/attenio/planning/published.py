"""Tiles by the rule of the paper that introduced a dataflow, as printed there; never shrunk to fit."""

from math import isqrt
from typing import assert_never

from attenio.masks.patterns.sums import ceil_div
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.dataflow import best_tiles
from attenio.planning.search.forms import most_resident, most_rows
from attenio.planning.words.dataflows import known_forms
from attenio.planning.words.form import Resident, RowTile


def has_published_rule(dataflow: Dataflow) -> bool:
    """Whether a paper says how to choose the tiles; the other dataflows are derived here."""
    match dataflow:
        case Dataflow.ATTENIO | Dataflow.FLASH_ATTENTION_2 | Dataflow.FLASH_ATTENTION_1 | Dataflow.KEY_STATIONARY:
            return True
        case Dataflow.FLAT | Dataflow.STANDARD | Dataflow.SQUARE_TILING | Dataflow.SPLIT_KEYS:
            return True
        case Dataflow.RANK_ONE_TILING | Dataflow.SCORE_STATIONARY | Dataflow.STACKED_GROUPS:
            return False
        case Dataflow.KEPT_KEYS | Dataflow.KEPT_ROWS:
            return False
        case Dataflow.QUERY_STATIONARY | Dataflow.TWO_PASS | Dataflow.TILED_PRODUCTS:
            return False
        case Dataflow.FUSED_VALUES | Dataflow.SPILLED_GRADIENTS | Dataflow.FEATURE_GRADIENT:
            return False
        case Dataflow.KEPT_ROW_GRADIENTS:
            return False
        case Dataflow.FEATURE_STATE | Dataflow.VALUE_COLUMNS | Dataflow.FEATURE_BLOCKS | Dataflow.WINDOW_AND_FEATURES:
            return False
        case _:
            assert_never(dataflow)


def published_tiles(problems: Problems, dataflow: Dataflow, fast_words: int, *, units: int = 1) -> Tiles | None:
    """The published tiles, which may not fit; None if the rule gives none at all.

    ``units`` are the parallel units of the machine, which FlashDecoding splits keys for.
    """
    rows, keys = problems.counts.most_rows, problems.counts.most_keys
    memory, fast_words = fast_words, fast_words - problems.held_words
    if fast_words < 1:  # sinks alone fill it
        return None
    match dataflow:
        case Dataflow.ATTENIO:  # [AttenIO eq. 15]; floor((M-d)/(2d+4)) where all words are alike
            return Tiles.of(query_tile=max(1, _most_rows(problems, dataflow, fast_words)), key_tile=1)
        case Dataflow.FLASH_ATTENTION_2 | Dataflow.FLASH_ATTENTION_1 | Dataflow.KEY_STATIONARY:  # [FA alg. 1, 4]
            quarter = int(ceil_div(fast_words, 4 * problems.d))
            return Tiles.of(query_tile=min(quarter, problems.d, rows), key_tile=min(quarter, keys))
        case Dataflow.FLAT:  # [FLAT]; the largest that fits
            complete = _most_rows(problems, dataflow, fast_words)
            if complete >= 1:
                return Tiles.of(query_tile=complete)
            return Tiles.of(query_tile=1, resident_keys=max(0, _most_resident(problems, dataflow, fast_words)))
        case Dataflow.STANDARD:
            return _square_products(problems, fast_words)
        case Dataflow.SQUARE_TILING:  # [SY alg. 1]
            side = isqrt(fast_words // 4)
            return Tiles.of(query_tile=min(side, rows), key_tile=min(side, keys), depth_tile=side) if side else None
        case Dataflow.SPLIT_KEYS:
            return _flash_decoding(problems, memory, units)
        case Dataflow.RANK_ONE_TILING | Dataflow.SCORE_STATIONARY | Dataflow.KEPT_KEYS | Dataflow.KEPT_ROWS:
            return None
        case Dataflow.STACKED_GROUPS | Dataflow.QUERY_STATIONARY | Dataflow.TWO_PASS | Dataflow.TILED_PRODUCTS:
            return None
        case Dataflow.FUSED_VALUES | Dataflow.SPILLED_GRADIENTS | Dataflow.KEPT_ROW_GRADIENTS:
            return None
        case Dataflow.FEATURE_STATE | Dataflow.VALUE_COLUMNS | Dataflow.FEATURE_BLOCKS:
            return None
        case Dataflow.WINDOW_AND_FEATURES | Dataflow.FEATURE_GRADIENT:
            return None
        case _:
            assert_never(dataflow)


def _most_rows(problems: Problems, dataflow: Dataflow, fast_words: int) -> int:
    """Rows that stay in the first form of a dataflow, at most."""
    phase = known_forms(dataflow, problems.sizes)[0].phases[0]
    assert isinstance(phase, RowTile)
    return most_rows(problems, phase, fast_words)


def _most_resident(problems: Problems, dataflow: Dataflow, fast_words: int) -> int:
    """Scores of a row that stay in the last form of a dataflow, at most."""
    phase = known_forms(dataflow, problems.sizes)[-1].phases[0]
    assert isinstance(phase, Resident)
    return most_resident(problems, phase, fast_words)


def _square_products(problems: Problems, fast_words: int) -> Tiles | None:
    """[COSMA] A square tile of results, and as many rows of a narrower product as fit."""
    counts = problems.counts
    side, resident = isqrt(fast_words + 1) - 1, _most_resident(problems, Dataflow.STANDARD, fast_words)
    columns = min(problems.value_dim, side)
    output_rows = (fast_words - 1) // ((columns + 1) * problems.intermediate_words)
    if side < 1 or output_rows < 1 or resident < 0:
        return None
    return Tiles.of(
        score_rows=min(side, counts.most_rows),
        score_keys=min(side, counts.most_keys),
        resident_keys=resident,
        output_rows=min(output_rows, counts.most_rows),
        output_columns=columns,
    )


def _flash_decoding(problems: Problems, fast_words: int, units: int) -> Tiles | None:
    """FlashDecoding: split the keys until there is work for every unit, into two at least."""
    counts = problems.counts
    best = best_tiles(problems, Dataflow.STACKED_GROUPS, fast_words)
    if best is None or counts.most_keys < 2:
        return None
    stacked = best.tiles
    positions = sum(times * -(-p.rows // stacked["query_tile"]) for p, times in counts.patterns)
    independent = problems.runs * positions * -(-problems.group // stacked["head_tile"])
    splits = max(2, -(-units // independent))
    return Tiles.of(
        query_tile=stacked["query_tile"],
        head_tile=stacked["head_tile"],
        keys_per_split=-(-counts.most_keys // splits),
        key_tile=stacked["key_tile"],
    )
