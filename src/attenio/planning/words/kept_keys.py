"""Kept keys: rows stay, keys pass through slots that keep some for the next rows; values in groups of columns.

moved = g (G L(a) d + n dv + (U(a) - K(a, s))(G d + dv))           in G groups of c columns, G = ceil(dv/c)
peak  = a'(d + (c'+2)w) + s'(d + c') + 2w

K(a, s) are the keys that a tile of a rows finds in its s slots, from the tile before. A row has two statistics, its
maximum and its sum, and rows take their turn with the one score in hand. Values that are part of their keys take no
words of their own. Scores are computed once for every group: that pays where values are wider than keys, and about as
many groups as keys fit into a value move the least, (G d + dv)^2 / G, or somewhat fewer where rows come in few tiles.

Under a window or a causal mask rows may come and go one by one (rolling rows), all columns together:

moved = g (R d + n dv + V(a, s)(d + dv))                           peak as above
"""

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, where
from attenio.planning.words.form import Form, KeptTile, RollingTile, Sizes

_NAMES = ("query_tile", "kept_keys", "value_columns")
_ROLLING = ("rolling_rows", "kept_keys")
# Numbers of groups beside dv/d itself, in sixteenths of it.
_SIXTEENTHS = (14, 12, 9)


def column_groups(d: Counts, value_dim: Counts) -> tuple[Counts, ...]:
    """Numbers of groups that are tried: one, and where values are wider than keys some near dv/d.

    From about nd/4 words on fewer than dv/d are best, where that makes rows come in fewer tiles.

    >>> column_groups(64, 64), column_groups(64, 100), column_groups(64, 512)
    ((1,), (1, 2), (1, 8, 9, 7, 6, 5))
    """
    several = (value_dim // d, value_dim // d + 1, *((part * value_dim + 8 * d) // (16 * d) for part in _SIXTEENTHS))
    if type(d) is int and type(value_dim) is int:
        return tuple(dict.fromkeys((1, *several))) if value_dim > d else (1,)
    wider = value_dim > d
    return (1, *(where(wider, count, 1) for count in several)) if wider.any() else (1,)


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself, a form for every number of groups, and one for rolling rows."""
    if (
        type(sizes.d) is int and sizes.key_words == sizes.one_key
    ):  # values that are part of their keys: groups save nothing
        return form_at(sizes, sizes.value_dim), rolling_form(sizes)
    # columns that share a word stay together
    widths = (ceil_div(sizes.one_value, count) * sizes.per_word for count in column_groups(sizes.d, sizes.value_dim))
    return (*(form_at(sizes, columns) for columns in widths), rolling_form(sizes))


def rolling_form(sizes: Sizes) -> Form:
    """Rows that come and go one by one."""
    whole = form_at(sizes, sizes.value_dim)
    (phase,) = whole.phases
    assert isinstance(phase, KeptTile)
    return Form(_ROLLING, (RollingTile(*_ROLLING, *phase[2:]),), whole.fixed)


def form_at(sizes: Sizes, columns: Counts) -> Form:
    """With so many value columns at a time."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    groups, columns = ceil_div(dv, columns), where(columns < dv, columns, dv)
    key, in_keys = sizes.one_key, sizes.key_words == sizes.one_key
    phase = KeptTile(
        "query_tile",
        "kept_keys",
        per_row=d + (columns + 2) * w,
        per_slot=where(in_keys, key, key + ceil_div(columns, sizes.per_word)),
        beside=2 * w,
        live=groups * d,
        loads=where(in_keys, groups * key, groups * key + sizes.one_value),
    )
    fixed = sizes.group * sizes.rows * dv
    return Form(_NAMES, (phase,), fixed, constant=(("value_columns", columns),))
