"""Kept keys: rows stay, keys pass through slots that keep some for the next rows; values in groups of columns.

moved = g (G L(a) d + n dv + (U(a) - K(a, s))(G d + dv))           in G groups of c columns, G = ceil(dv/c)
peak  = a'(d + (c'+2)w) + s'(d + c') + 2w

K(a, s) are the keys that a tile of a rows finds in its s slots, from the tile before. A row has two statistics, its
maximum and its sum, and rows take their turn with the one score in hand. Values that are part of their keys take no
words of their own. Scores are computed once for every group: that pays where values are wider than keys, and about as
many groups as keys fit into a value move the least, (G d + dv)^2 / G, or somewhat fewer where rows come in few tiles.

Under a window or a causal mask rows may come and go one by one (rolling rows), all columns together:

moved = g (R d + n dv + V(a, s)(d + dv))                           peak as above

Under a causal mask j tiles of b rows may meet s keys that were kept, whose values give way to outputs, between a first
tile of f rows and p tiles of a rows (exchanged rows):

moved = g (n (d + dv) + (sum of the keys that tiles need - min(s, f + m-n) - (j-1) min(s, b)) (d + dv))
peak  = the largest of (f + m-n)(d + dv) + d + (dv+2)w,  s(d + dv) + b(d + 3w),  s(d + 1) + b(d + (dv+2)w) and
        max(a, b)(d + (dv+2)w) + d + dv;  and 2w

Heads that share keys may stay together, those of a position in the place of a row, all columns together:

moved = g (L(a) d + n dv) + (U(a) - K(a, s))(d + dv)               peak = a' g (d + (dv+2)w) + s'(d + dv) + 2w

Dense problems have a form in which the rows of all heads that share keys are cut into P tiles of a. With one group:

moved = g n (d + dv) + (P m - (P-1)s)(d + dv)                      peak as above

With more, groups pass inside a tile, rows stay for all of them, slots are for keys alone, and one value is there:

moved = g n (d + dv) + (P G m - (P-1)s - P(G-1)(s-1))d + P m dv    the key part m d once s = m
peak  = a'(d + (c'+2)w) + s'd + c' + 2w

Of P such tiles the last may have more rows than the others, b, and more groups, H of c columns; slots are its own:

moved = g n (d + dv) + ((P-1) G m - (P-2))d + (P-1) m dv + (H m - (H-1)(s-1))d + m dv
peak  = the larger of a'(d + (c'+2)w) + d + c' and b(d + (c+2)w) + s'd + c, and 2w; P-2 keys come with values if G = 1

If the others have more groups than the last, they have a slot for every key, and these come once for all of them:

moved = g n (d + dv) + m d + (P-1) m dv + (H m - (H-1)(s-1))d + m dv
peak  = the larger of a'(d + (c'+2)w) + m d + c' and b(d + (c+2)w) + s'd + c, and 2w

Or outputs give way to the values of keys that stay at a turn, and these to the next outputs (exchanged keys):

moved = g n (d + dv) + (P m - (P-1)s)(d + dv)                      s up to m/2
peak  = 2w and the larger of a'(d + (dv+2)w) + d + dv and, at turns, 2w and the larger of
        a'(d + (dv+2)w) + s(d + 1) and a'(d + 3w) + s(d + dv)
"""

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, larger, where
from attenio.planning.words.exchanged_keys import ExchangedKeys
from attenio.planning.words.exchanged_rows import ExchangedRows
from attenio.planning.words.form import Form, KeptTile, RollingTile, Sizes
from attenio.planning.words.last_columns import LastColumns
from attenio.planning.words.stacked_rows import StackedRows

_NAMES = ("query_tile", "kept_keys", "value_columns")
_ROLLING = ("rolling_rows", "kept_keys")
_EXCHANGED = ("exchanged_rows", "exchanges", "last_rows", "kept_keys")
_POSITIONS = ("group_positions", "kept_keys")
_AT_TURNS = ("stacked_rows", "exchanged_keys")
_STACKED = ("stacked_rows", "kept_keys", "value_columns")
_LAST = (*_STACKED, "last_columns")
# Numbers of groups beside dv/d itself, in sixteenths of it.
_SIXTEENTHS = (14, 12, 9)
# Of stacked rows, which read values for every tile, somewhat more too, and fewer where keys pass many rows at once.
_OF_STACKED = (20, *_SIXTEENTHS, 6, 4)
# Of tiles before a last one of more groups, beside dv/d itself and one more.
_OF_FIRST = (12, 9)
# Of a last tile after others beside all keys, and dv/d itself.
_AFTER_ALL = (12, 9, 6)
# More than any memory has.
_NEVER = 2**62


def column_groups(d: Counts, value_dim: Counts) -> tuple[Counts, ...]:
    """Numbers of groups that are tried: one, and where values are wider than keys some near dv/d.

    From about nd/4 words on fewer than dv/d are best, where that makes rows come in fewer tiles.

    >>> column_groups(64, 64), column_groups(64, 100), column_groups(64, 512)
    ((1,), (1, 2), (1, 8, 9, 7, 6, 5))
    """
    several = _near(d, value_dim, _SIXTEENTHS)
    if type(d) is int and type(value_dim) is int:
        return tuple(dict.fromkeys((1, *several))) if value_dim > d else (1,)
    wider = value_dim > d
    return (1, *(where(wider, count, 1) for count in several)) if wider.any() else (1,)


def groups_of_stacked(d: Counts, value_dim: Counts) -> tuple[Counts, ...]:
    """Numbers of groups that are tried with stacked rows: two; where values are wider than keys some up to dv/d, too.

    And there as many as columns, where every key has a slot: then keys come once, whatever the groups.

    >>> groups_of_stacked(64, 64), groups_of_stacked(64, 512), groups_of_stacked(64, 1)
    ((2,), (8, 9, 10, 7, 6, 5, 3, 2, 512), (1,))
    """
    several = *_near(d, value_dim, _OF_STACKED), 2 + 0 * value_dim, value_dim
    if type(d) is int and type(value_dim) is int:
        return tuple(dict.fromkeys(max(count, 2) for count in several)) if value_dim > d else (min(2, value_dim),)
    wider = value_dim > d
    two = where(value_dim > 1, 2, 1)
    return tuple(where(wider & (count > 2), count, two) for count in several) if wider.any() else (two,)


def _near(d: Counts, value_dim: Counts, parts: tuple[int, ...]) -> tuple[Counts, ...]:
    """Numbers of groups of about as many columns as keys have."""
    return value_dim // d, value_dim // d + 1, *((part * value_dim + 8 * d) // (16 * d) for part in parts)


def forms(sizes: Sizes) -> tuple[Form, ...]:
    """Every head by itself, a form for every number of groups, rows that roll or exchange, and stacked rows."""
    if (
        type(sizes.d) is int and sizes.key_words == sizes.one_key
    ):  # values that are part of their keys: groups save nothing
        return form_at(sizes, sizes.value_dim), rolling_form(sizes), *_forms_of_groups(sizes, ())
    # columns that share a word stay together
    widths = (ceil_div(sizes.one_value, count) * sizes.per_word for count in column_groups(sizes.d, sizes.value_dim))
    several = _forms_of_groups(sizes, groups_of_stacked(sizes.d, sizes.value_dim))
    of_bands, at_turns = (rolling_form(sizes), exchanged_form(sizes)), (exchanged_keys_form(sizes), *_last_forms(sizes))
    return (*(form_at(sizes, columns) for columns in widths), *of_bands, *several, *at_turns)


def _forms_of_groups(sizes: Sizes, several: tuple[Counts, ...]) -> tuple[Form, ...]:
    """Those of stacked rows and of heads together, if any share keys."""
    shared, stacked = sizes.group > 1, _stacked_forms(sizes, several)
    if type(shared) is bool:
        return (*stacked, together_form(sizes)) if shared else stacked
    if not shared.any():
        return stacked
    return *stacked, together_form(sizes)._replace(least_held=where(shared, 0, _NEVER))


def _stacked_forms(sizes: Sizes, several: tuple[Counts, ...]) -> tuple[Form, ...]:
    """All columns together, which differs from rows of one head where heads share keys, and in several groups."""
    widths = (sizes.value_dim, *(ceil_div(sizes.one_value, count) * sizes.per_word for count in several))
    forms = []
    for columns in dict.fromkeys(widths) if type(sizes.d) is int else widths:
        form, differs = stacked_form(sizes, columns), (sizes.group > 1) | (columns < sizes.value_dim)
        if type(differs) is not bool:
            forms.append(form._replace(least_held=where(differs, 0, _NEVER)))
        elif differs:
            forms.append(form)
    return tuple(forms)


def pairs_of_columns(sizes: Sizes) -> tuple[tuple[Counts, Counts], ...]:
    """Columns of a group in all tiles but the last, and in the last: those of one group and two.

    Where values are wider than keys, of about as many groups as keys fit into a value, and one or two more; and of
    three quarters of these, or little more than half, and one more. And of as many groups as columns, beside all keys.

    >>> [pairs_of_columns(Sizes(64, width, 64 + width, 1, 1)) for width in (64, 256, 1)]
    [((64, 32),), ((64, 52), (64, 43), (52, 43), (86, 64), (128, 86), (1, 64), (1, 86), (1, 128)), ()]
    """
    count, one = larger(sizes.value_dim // sizes.d, 1), sizes.one_value
    fewer = [larger(each, 1) for each in _near(sizes.d, sizes.value_dim, _OF_FIRST)[2:]]
    groups = ((count, count + 1), (count, count + 2), (count + 1, count + 2), *((few, few + 1) for few in fewer))
    pairs = [(ceil_div(one, few) * sizes.per_word, ceil_div(one, more) * sizes.per_word) for few, more in groups]
    about, _, *near = _near(sizes.d, sizes.value_dim, _AFTER_ALL)
    after_all = [ceil_div(one, larger(few, 2)) * sizes.per_word for few in (about, *near)]
    pairs += [(sizes.per_word + 0 * one, last) for last in after_all]
    if type(sizes.d) is int and type(sizes.value_dim) is int:
        tried = pairs if sizes.value_dim > sizes.d else pairs[:1]
        numbers = {pair: (ceil_div(sizes.value_dim, pair[0]), ceil_div(sizes.value_dim, pair[1])) for pair in tried}
        return tuple(pair for pair in dict.fromkeys(tried) if _differ(*numbers[pair]))
    return tuple(pairs)


def _differ(first: Counts, last: Counts) -> Counts:
    """Whether a last tile has more groups than others, or fewer but several."""
    return (first < last) | ((first > last) & (last > 1))


def _last_forms(sizes: Sizes) -> tuple[Form, ...]:
    """Those with a last tile of more rows and another number of groups."""
    forms = []
    for place, (columns, last) in enumerate(pairs_of_columns(sizes)):
        form = last_columns_form(sizes, columns, last)
        (phase,) = form.phases
        assert isinstance(phase, LastColumns)
        differ = _differ(phase.first.groups, phase.last.groups) & (sizes.key_words != sizes.one_key)
        if place:
            differ = differ & (sizes.value_dim > sizes.d)
        if type(differ) is not bool:
            forms.append(form._replace(least_held=where(differ, 0, _NEVER)))
        elif differ:
            forms.append(form)
    return tuple(forms)


def last_columns_form(sizes: Sizes, columns: Counts, last: Counts) -> Form:
    """Rows of all heads stacked, and fewer columns at a time in the last tile."""
    first, final = stacked_form(sizes, columns), stacked_form(sizes, last)
    (of_first,), (of_last,) = first.phases, final.phases
    assert isinstance(of_first, StackedRows) and isinstance(of_last, StackedRows)
    constant = (*first.constant, ("last_columns", final.constant[0][1]))
    return Form(_LAST, (LastColumns("stacked_rows", "kept_keys", of_first, of_last),), first.fixed, constant=constant)


def rolling_form(sizes: Sizes) -> Form:
    """Rows that come and go one by one."""
    whole = form_at(sizes, sizes.value_dim)
    (phase,) = whole.phases
    assert isinstance(phase, KeptTile)
    return Form(_ROLLING, (RollingTile(*_ROLLING, *phase[2:-1]),), whole.fixed)


def exchanged_form(sizes: Sizes) -> Form:
    """Causal rows that meet kept keys whose values give way to outputs."""
    d, w, shared = sizes.d, sizes.intermediate_words, sizes.per_word
    phase = ExchangedRows(
        *_EXCHANGED,
        per_row=d + (sizes.value_dim + 2) * w,
        per_query=d + (shared + 2) * w,
        per_slot=sizes.one_key + sizes.one_value,
        per_key=sizes.one_key + 1,
        beside=2 * w,
        loads=sizes.one_key + sizes.one_value,
        live=d,
    )
    return Form(_EXCHANGED, (phase,), sizes.group * sizes.rows * sizes.value_dim)


def exchanged_keys_form(sizes: Sizes) -> Form:
    """Rows of all heads stacked, with keys kept at turns at which values and outputs give way to each other."""
    phase = exchanged_form(sizes).phases[0]
    assert isinstance(phase, ExchangedRows)
    room = phase.per_row, phase.per_query, phase.per_slot, phase.per_key
    at_turns = ExchangedKeys(*_AT_TURNS, *room, phase.beside, 2 * sizes.intermediate_words, phase.loads)
    return Form(_AT_TURNS, (at_turns,), sizes.rows * (sizes.group * (sizes.d + sizes.value_dim)))


def together_form(sizes: Sizes) -> Form:
    """The heads of a group together."""
    whole = form_at(sizes, sizes.value_dim)
    (phase,) = whole.phases
    assert isinstance(phase, KeptTile)
    of_group = {"per_row": sizes.group * phase.per_row, "live": sizes.group * phase.live, "together": True}
    return Form(_POSITIONS, (phase._replace(tile=_POSITIONS[0], **of_group),), whole.fixed)


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


def stacked_form(sizes: Sizes, columns: Counts) -> Form:
    """Rows of all heads stacked, with so many value columns at a time."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    groups, columns = ceil_div(dv, columns), where(columns < dv, columns, dv)
    in_keys, one = sizes.key_words == sizes.one_key, groups == 1
    value = where(in_keys, 0, ceil_div(columns, sizes.per_word))
    phase = StackedRows(
        "stacked_rows",
        "kept_keys",
        per_row=d + (columns + 2) * w,
        per_slot=where(one, sizes.one_key + value, sizes.one_key),
        beside=2 * w + where(one, 0, value),
        key=where(one, sizes.key_words, sizes.one_key),
        value=where(one | in_keys, 0, sizes.one_value),
        groups=groups,
    )
    fixed = sizes.rows * (sizes.group * (d + dv))
    return Form(_STACKED, (phase,), fixed, constant=(("value_columns", columns),))
