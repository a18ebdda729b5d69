"""The words of every exact dataflow by its name."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import assert_never

from attenio.planning.plan import (
    Dataflow,
    ForwardDataflow,
    GradientDataflow,
    Tiles,
    is_exact_forward,
    is_exact_gradient,
)
from attenio.planning.words import (
    attenio,
    flash_attention_1,
    flash_attention_2,
    flat,
    kept_keys,
    kept_rows,
    rank_one_tiling,
    score_stationary,
    split_keys,
    square_tiling,
    stacked_groups,
    standard,
)
from attenio.planning.words.backward import (
    fused_values,
    kept_row_gradients,
    key_stationary,
    query_stationary,
    spilled_gradients,
    tiled_products,
    two_pass,
)
from attenio.planning.words.form import Form, Sizes

Forms = Callable[[Sizes], tuple[Form, ...]]


@cache  # a match compares one member after the other, and every plan asks about each of them
def forms_of(dataflow: Dataflow) -> Forms:
    """What a dataflow moves and holds, in the forms that a search chooses from."""
    if is_exact_gradient(dataflow):
        return _gradient_forms(dataflow)
    if not is_exact_forward(dataflow):
        raise ValueError(f"{dataflow.value} approximates; its words depend on a degree")
    return _forward_forms(dataflow)


def _forward_forms(dataflow: ForwardDataflow) -> Forms:
    match dataflow:
        case Dataflow.STANDARD:
            return standard.forms
        case Dataflow.FLAT:
            return flat.forms
        case Dataflow.FLASH_ATTENTION_1:
            return flash_attention_1.forms
        case Dataflow.FLASH_ATTENTION_2:
            return flash_attention_2.forms
        case Dataflow.ATTENIO:
            return attenio.forms
        case Dataflow.SQUARE_TILING:
            return square_tiling.forms
        case Dataflow.RANK_ONE_TILING:
            return rank_one_tiling.forms
        case Dataflow.SCORE_STATIONARY:
            return score_stationary.forms
        case Dataflow.SPLIT_KEYS:
            return split_keys.forms
        case Dataflow.STACKED_GROUPS:
            return stacked_groups.forms
        case Dataflow.KEPT_KEYS:
            return kept_keys.forms
        case Dataflow.KEPT_ROWS:
            return kept_rows.forms
        case _:
            assert_never(dataflow)


def _gradient_forms(dataflow: GradientDataflow) -> Forms:
    match dataflow:
        case Dataflow.KEY_STATIONARY:
            return key_stationary.forms
        case Dataflow.QUERY_STATIONARY:
            return query_stationary.forms
        case Dataflow.TWO_PASS:
            return two_pass.forms
        case Dataflow.TILED_PRODUCTS:
            return tiled_products.forms
        case Dataflow.FUSED_VALUES:
            return fused_values.forms
        case Dataflow.SPILLED_GRADIENTS:
            return spilled_gradients.forms
        case Dataflow.KEPT_ROW_GRADIENTS:
            return kept_row_gradients.forms
        case _:
            assert_never(dataflow)


@lru_cache(maxsize=4096)
def known_forms(dataflow: Dataflow, sizes: Sizes) -> tuple[Form, ...]:
    """The forms of a dataflow for widths in numbers: most plans ask for the same few."""
    return forms_of(dataflow)(sizes)


def form_with(sizes: Sizes, dataflow: Dataflow, tiles: Tiles) -> Form:
    """The form that has these tiles; those of tiled products that read probabilities included."""
    if dataflow is Dataflow.SQUARE_TILING:
        return square_tiling.form_at(sizes, tiles["depth_tile"])
    if dataflow is Dataflow.KEPT_KEYS and "exchanged_keys" in tiles:
        return kept_keys.exchanged_keys_form(sizes)
    if dataflow is Dataflow.KEPT_KEYS and "last_columns" in tiles:
        return kept_keys.last_columns_form(sizes, tiles["value_columns"], tiles["last_columns"])
    if dataflow is Dataflow.KEPT_KEYS and "stacked_rows" in tiles:
        return kept_keys.stacked_form(sizes, tiles["value_columns"])
    if dataflow is Dataflow.KEPT_KEYS and "group_positions" in tiles:
        return kept_keys.together_form(sizes)
    if dataflow is Dataflow.KEPT_KEYS and "value_columns" in tiles:
        return kept_keys.form_at(sizes, tiles["value_columns"])
    if dataflow is Dataflow.KEPT_ROW_GRADIENTS and "value_columns" in tiles:
        return kept_row_gradients.form_at(sizes, tiles["value_columns"])
    if dataflow is Dataflow.FUSED_VALUES and "value_columns" in tiles:
        return fused_values.form_at(sizes, tiles["value_columns"])
    known = known_forms(dataflow, sizes)
    if dataflow is Dataflow.TILED_PRODUCTS and "gradient_keys" in tiles:
        known = tiled_products.reading_forms(sizes)
    return next(form for form in known if set(form.names) == set(tiles))


@cache
def tile_names(dataflow: Dataflow) -> tuple[tuple[str, ...], ...]:
    """The tiles an exact dataflow takes, in order, for each of its forms.

    >>> tile_names(Dataflow.FLAT)
    (('query_tile',), ('query_tile', 'resident_keys'))
    """
    one = Sizes(2, 4, 6, 1, 2)  # names do not depend on sizes, but for values wider than keys, and keys that are shared
    names = [form.names for form in forms_of(dataflow)(one)]
    if dataflow is Dataflow.TILED_PRODUCTS:
        names.extend(form.names for form in tiled_products.reading_forms(one))
    return tuple(dict.fromkeys(names))
