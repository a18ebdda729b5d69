"""Best tiles of a form in many cases at once: ``search.forms`` in arrays, with the same words, rooms and answers."""

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.problems.counting import seen_by, times_of
from attenio.planning.search.kept_band import ROUNDED
from attenio.planning.search.room import Room
from attenio.planning.sweeping.bands import band_floors, best_of_band
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, is_zero, take
from attenio.planning.sweeping.floors import RectangleForms, form_floors
from attenio.planning.sweeping.found import Found, searched
from attenio.planning.sweeping.heads import HeadForms, best_head_tiles
from attenio.planning.sweeping.kept_tiles import best_kept_tiles, least_words
from attenio.planning.sweeping.products import best_output_tiles, best_settled_tiles, product_floor
from attenio.planning.sweeping.rectangles import best_score_tiles
from attenio.planning.sweeping.room import key_room, row_room
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.sweeping.stacked_rows import (
    best_of_exchanged,
    best_of_last_columns,
    best_of_left_over,
    best_of_stacked,
    best_of_turning,
    best_of_turns,
    stacked_floors,
)
from attenio.planning.words.exchanged_keys import ExchangedKeys
from attenio.planning.words.form import (
    Form,
    Held,
    KeptTile,
    Phase,
    Product,
    Rectangle,
    Resident,
    RowTile,
)
from attenio.planning.words.last_columns import LastColumns
from attenio.planning.words.left_over import LeftOver
from attenio.planning.words.stacked_rows import StackedRows
from attenio.planning.words.staying_sums import StayingSums
from attenio.planning.words.taking_turns import TakingTurns
from attenio.planning.words.turning_tiles import TurningTiles
from attenio.planning.words.waiting_rows import WaitingRows, best_waiting_rows, held_words

Floats = NDArray[np.float64]
# Floors in floating point are off by less than this factor.
ROUNDING = 1 - 1e-12


class Plans(NamedTuple):
    """Words of one KV head, room and tiles in every case; no words where there is no plan within the limit."""

    words: Ints
    peak: Ints
    sizes: dict[str, Ints]


class _OutputTiles(NamedTuple):
    """Words of one head and tiles of a product."""

    words: Ints
    rows: Ints
    columns: Ints


def floors(cases: Cases, form: Form) -> Floats:
    """Words that no tiles go below; infinite where none fit."""
    words = np.where(form.least_held <= cases.fast_words, form.fixed.of(cases), np.inf)
    for phase in form.phases:
        words = words + _floor(cases, phase, np.inf)
    return words


def promising(cases: Cases, form: Form, limit: Ints) -> tuple[Ints, Cases, Form]:
    """In which cases a form, that of the different widths, may win within the limit, these cases, and it for them."""
    index, few = _not_ruled_out(cases, form, limit)
    return index, few, few.of_every_case(form)


def may_win(cases: Cases, form: Form, limit: Ints) -> Ints:
    """The same cases alone."""
    return _not_ruled_out(cases, form, limit)[0]


def _not_ruled_out(cases: Cases, form: Form, limit: Ints) -> tuple[Ints, Cases]:
    """The cases that a form, that of the different widths, is for, and where no floor is above the limit.

    Floors of phase after phase rule cases out, so that the later ones are of few cases.
    """
    kinds, read = cases.are_for(form), form.products * cases.stored_words  # once or more, whatever the tiles
    index = np.flatnonzero(kinds & (limit >= read))
    if not index.size:
        return index, take(cases, index)
    most = limit / ROUNDING
    if not np.all(kinds) or 2 * len(index) < len(cases):
        cases, most, read = take(cases, index), most[index], take(read, index)
    else:  # leaving out a few costs more than their floors
        most[limit < 0], index = -np.inf, np.arange(len(cases), dtype=np.int64)
    floor = np.asarray(cases.of_every_case(form.fixed).of(cases), dtype=np.float64)
    if not is_zero(form.least_held):
        floor[cases.of_every_case(form.least_held) > cases.fast_words] = np.inf
    for place, phase in enumerate(form.phases):
        left = np.flatnonzero((floor if place else floor + read) <= most)
        if not left.size:
            return index[left], take(cases, left)
        if 4 * len(left) < 3 * len(index):
            index, floor, most, cases = index[left], floor[left], most[left], take(cases, left)
        floor = floor + _floor(cases, cases.of_every_case(phase), most - floor)
    left = np.flatnonzero(floor <= most)
    return (index, cases) if len(left) == len(index) else (index[left], take(cases, left))


def most_rows(cases: Cases, phase: RowTile) -> Ints:
    """The largest tile that stays beside the smallest that passes; less than one where none does."""
    return row_room(seen_by(cases, phase), _room(cases, phase.held))


def plans(cases: Cases, form: Form, limit: Ints, within: tuple[Cases, Form, Ints] | None = None) -> Plans:
    """The best tiles, in cases in which some fit.

    ``within`` are more cases, the form of their widths, and which of them these are: products are made for all of them,
    once, and other tiles are looked for once.
    """
    words = form.fixed.of(cases)
    sizes = {name: size + 0 * cases.rows for name, size in form.constant}
    peak = form.least_held + 0 * cases.rows
    for place, phase in enumerate(form.phases):
        spare, found = limit - words, None if within is None else Found.of(*within, place)
        match phase:
            case RowTile():
                more, held, tiles = _rows(cases, phase, spare, found)
            case KeptTile():
                more, held, tiles = _kept(cases, phase, spare, found)
            case WaitingRows():
                more, held, tiles = _waiting(cases, phase)
            case StackedRows() | StayingSums():
                more, held, tiles = best_of_stacked(cases, phase, spare)
            case LastColumns():
                more, held, tiles = best_of_last_columns(cases, phase)
            case ExchangedKeys():
                more, held, tiles = best_of_exchanged(cases, phase)
            case LeftOver():
                more, held, tiles = best_of_left_over(cases, phase)
            case TakingTurns():
                more, held, tiles = best_of_turns(cases, phase)
            case TurningTiles():
                more, held, tiles = best_of_turning(cases, phase)
            case Rectangle():
                more, held, tiles = _rectangle(cases, phase, spare, found)
            case Product():
                more, held, tiles = _products(cases, phase, spare, within, place)
            case Resident():
                seen = seen_by(cases, phase).band
                resident = (cases.fast_words - phase.beside) // cases.intermediate_words
                resident = np.minimum(resident, seen.longest_row)
                more = cases.group * phase.per_score * seen.scores_beyond(resident)
                held, tiles = resident * cases.intermediate_words + phase.beside, {phase.tile: resident}
            case _:
                more, held, tiles = best_of_band(cases, phase, spare)
        words, peak = np.where(more < NOTHING, words + more, NOTHING), np.maximum(peak, held)
        sizes |= tiles
    return Plans(words, peak, sizes)


def _products(
    cases: Cases, phase: Product, spare: Ints, within: tuple[Cases, Form, Ints] | None, place: int
) -> tuple[Ints, Ints, dict[str, Ints]]:
    if phase.later is not None:  # of these cases alone, as products that read scores as often have left few
        return best_settled_tiles(cases, phase, phase.later, spare)
    if within is None:
        best = _output_tiles(cases, phase)
    else:
        every, form, index = within
        best = take(_output_tiles(every, cast(Product, every.of_every_case(form.phases[place]))), index)
    held = best.rows * (best.columns + phase.extra) * cases.intermediate_words + 1
    return cases.group * best.words, held, {phase.rows: best.rows, phase.columns: best.columns}


def _room(cases: Cases, held: Held) -> Room:
    return Room(cases.fast_words - held.beside, held.per_score, held.per_row, held.per_key)


def _rows(cases: Cases, phase: RowTile, spare: Ints, found: Found | None) -> tuple[Ints, Ints, dict[str, Ints]]:
    seen, room = seen_by(cases, phase), _room(cases, phase.held)
    assert phase.passing is not None and not phase.split
    words, heads, tile = searched(_best_rows, (cases, phase, spare), found)
    together = heads * tile
    passing = key_room(seen, room, together)
    held = together * (passing * room.per_score + room.per_row) + passing * room.per_key + phase.held.beside
    return words, held, {phase.tile: tile, phase.passing: passing} | ({phase.heads: heads} if phase.heads else {})


def _best_rows(cases: Cases, phase: RowTile, spare: Ints) -> tuple[Ints, Ints, Ints]:
    """Words of all heads, heads of a tile, and its rows."""
    seen, room = seen_by(cases, phase), _room(cases, phase.held)
    if phase.heads and (cases.group > 1).any():
        live = phase.live if is_zero(phase.live) else cases.group * phase.live
        return best_head_tiles(HeadForms(seen, live, phase.loads, room, spare))
    alone = RowForms(band=seen.band, live=phase.live, loads=phase.loads, unit=seen.row_unit)
    words, tile = best_row_tiles(alone, row_room(seen, room))
    return cases.group * words, np.ones_like(tile), tile


def _kept(cases: Cases, phase: KeptTile, spare: Ints, found: Found | None) -> tuple[Ints, Ints, dict[str, Ints]]:
    times = times_of(cases, phase)
    words, tile, slots = searched(_best_kept, (cases, phase, spare // times), found)
    held = tile * phase.per_row + slots * phase.per_slot + phase.beside
    return times * words, held, {phase.tile: tile, phase.slots: slots}


def _best_kept(cases: Cases, phase: KeptTile, limit: Ints) -> tuple[Ints, Ints, Ints]:
    return best_kept_tiles(seen_by(cases, phase), phase, limit)


def _waiting(cases: Cases, phase: WaitingRows) -> tuple[Ints, Ints, dict[str, Ints]]:
    best = best_waiting_rows(phase, cases.rows, cases.keys, cases.fast_words)
    words, waiting, slots = (np.asarray(each) for each in best)
    held = np.asarray(held_words(phase, seen_by(cases, phase).rows, waiting, slots))
    return words, held, {phase.tile: waiting, phase.slots: slots}


def _rectangle_forms(cases: Cases, phase: Rectangle, limit: Ints) -> RectangleForms:
    (held,), seen = phase.held, seen_by(cases, phase)
    return RectangleForms(
        band=seen.band, visits=phase.visits, loads=phase.loads, saved=phase.saved, words=cases.fast_words - held.beside,
        per_score=held.per_score, per_row=held.per_row, row_unit=seen.row_unit, key_unit=seen.key_unit, limit=limit,
        may_pass=phase.may_pass,
    )  # fmt: skip


def _rectangle(cases: Cases, phase: Rectangle, spare: Ints, found: Found | None) -> tuple[Ints, Ints, dict[str, Ints]]:
    words, rows, keys = searched(_best_rectangles, (cases, phase, spare // cases.group), found)
    (held,), fits = phase.held, words < NOTHING
    room = rows * (keys * held.per_score + held.per_row) + held.beside
    return np.where(fits, cases.group * np.where(fits, words, 0), NOTHING), room, {phase.rows: rows, phase.keys: keys}


def _best_rectangles(cases: Cases, phase: Rectangle, limit: Ints) -> tuple[Ints, Ints, Ints]:
    forms = _rectangle_forms(cases, phase, limit)
    words, rows, keys = np.full(len(cases), NOTHING, dtype=np.int64), 0 * cases.rows, 0 * cases.rows
    within = np.flatnonzero(form_floors(forms) * ROUNDING <= forms.limit)
    if within.size:
        some = forms if len(within) == len(cases) else take(forms, within)
        words[within], rows[within], keys[within] = best_score_tiles(some)
    return words, rows, keys


def _output_tiles(cases: Cases, phase: Product) -> _OutputTiles:
    """The best tiles of a product, found once for the same scores and width."""
    question = phase.across, phase.every, phase.extra
    known: list[tuple[Ints, _OutputTiles]] = cases.answers.setdefault(question, [])
    width = np.broadcast_to(phase.width, len(cases))
    for other, tiles in known:
        if np.array_equal(other, width):
            return tiles
    best = _OutputTiles(*(np.full(len(cases), NOTHING, dtype=np.int64) for _ in range(3)))
    left = np.ones(len(cases), dtype=np.bool_)
    for other, tiles in known:
        same = left & (other == width)
        for mine, theirs in zip(best, tiles, strict=True):
            mine[same] = theirs[same]
        left &= ~same
    index = np.flatnonzero(left)
    if index.size:
        seen = take(seen_by(cases, phase), index)
        for mine, new in zip(best, best_output_tiles(seen, width[index], phase.extra), strict=True):
            mine[index] = new
    known.append((width, best))
    return best


def _floor(cases: Cases, phase: Phase, spare: Counts) -> Floats:
    """Words that no tiles of a phase go below; a rough number where that is more than most have to spare."""
    seen = seen_by(cases, phase)
    match phase:
        case RowTile():
            most = row_room(seen, _room(cases, phase.held))
            if phase.across:  # a key tile visits a row for at most as many scores as it has keys
                visits = np.maximum(cases.touched_rows, ceil_div(cases.scores, np.maximum(most, 1)))
                rough = np.where(most >= 1, cases.group * phase.loads * visits, np.inf)
                if 2 * np.count_nonzero(rough < spare) < len(rough):
                    return rough
            if np.min(spare) >= NOTHING / 2:
                return np.where(most >= 1, 0.0, np.inf)
            forms = RowForms(band=seen.band, live=phase.live, loads=phase.loads, unit=1)
            if phase.heads:
                forms = replace(forms, live=phase.live if is_zero(phase.live) else cases.group * phase.live)
            words = forms.floor(np.maximum(most, 1))
            return np.where(most >= 1, words if phase.heads else cases.group * words, np.inf)
        case KeptTile():
            return _kept_floor(cases, phase, spare)
        case WaitingRows():
            words, _, tiles = _waiting(cases, phase)
            return np.where(tiles[phase.slots] >= 1, words, np.inf)
        case (
            StackedRows()
            | LastColumns()
            | StayingSums()
            | TakingTurns()
            | LeftOver()
            | ExchangedKeys()
            | TurningTiles()
        ):
            return stacked_floors(cases, phase)
        case Rectangle():
            return cases.group * form_floors(_rectangle_forms(cases, phase, cases.fast_words))
        case Product():
            return _product_floor(cases, phase)
        case Resident():
            return np.where(cases.fast_words >= phase.beside, 0.0, np.inf)
        case _:
            return band_floors(cases, phase)


def _product_floor(cases: Cases, phase: Product) -> Floats:
    """Several dataflows make the same products: a floor is kept with the cases."""
    question = "floor", phase.across, phase.every, phase.extra, phase.later, np.asarray(phase.width).tobytes()
    known: Floats | None = cases.answers.get(question)
    if known is None:
        seen = seen_by(cases, phase)
        known = cases.answers[question] = cases.group * product_floor(seen, phase)
    return known


def _kept_floor(cases: Cases, phase: KeptTile, spare: Counts) -> Floats:
    """As in ``search.forms``: a rough number first, without exchanging rows and keys only to ask."""
    times, touched = times_of(cases, phase), (cases.touched_rows, cases.touched_keys)
    rows, (live, loaded) = (cases.keys, touched[::-1]) if phase.across else (cases.rows, touched)
    room = cases.fast_words - phase.beside
    most = np.minimum((room - phase.per_slot) // phase.per_row, rows)
    beyond = cases.scores * phase.per_slot - rows * room
    read = (beyond / np.maximum(most, 1) + rows * phase.per_row) / phase.per_slot * (beyond > 0) * ROUNDED
    floors = np.where(most >= 1, times * (phase.live * live + phase.loads * np.maximum(loaded, read)), np.inf)
    close = np.flatnonzero((floors <= spare) & (spare < NOTHING / 2) & (live == rows))
    if close.size:
        few, some = take(cases, close), take(phase, close)
        least = times_of(few, some) * least_words(seen_by(few, some), some, most[close])
        floors[close] = np.maximum(floors[close], least)
    return floors
