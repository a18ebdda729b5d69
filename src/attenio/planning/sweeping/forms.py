"""Best tiles of a form in many cases at once: ``search.forms`` in arrays, with the same words, rooms and answers."""

from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.choices import HeadForms, best_head_tiles, best_output_tiles
from attenio.planning.sweeping.operators import ScoreTiles, output_fits, output_floor, score_floor, score_tiles
from attenio.planning.sweeping.rooms import Rooms, key_room, row_room
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.words.form import CountSum, Form, Held, Phase, Product, Rectangle, Resident, Rows

Floats = NDArray[np.float64]


class Plans(NamedTuple):
    """Words of one KV head, room and tiles in every case; no words where there is no plan within the limit."""

    words: Ints
    peak: Ints
    sizes: dict[str, Ints]


class _Made(NamedTuple):
    """Words of one head and tiles of a product."""

    words: Ints
    rows: Ints
    columns: Ints


def taken(form: Form, index: Ints) -> Form:
    """The form of some of the cases."""
    found: Form = _taken(form, index)
    return found


def _taken(value: Any, index: Ints) -> Any:
    if isinstance(value, np.ndarray):
        return value[index]
    if isinstance(value, tuple):
        parts = (_taken(part, index) for part in value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, CountSum):
        return CountSum({name: _taken(weight, index) for name, weight in value.weights.items()})
    return value


def floors(cases: Cases, form: Form) -> Floats:
    """Words that no tiles go below; infinite where none fit."""
    words = np.where(form.least_held <= cases.fast_words, form.fixed.of(cases), np.inf)
    for phase in form.phases:
        words = words + _floor(cases, phase)
    return words


def most_rows(cases: Cases, phase: Rows) -> Ints:
    """The largest tile that stays beside the smallest that passes; less than one where none does."""
    return row_room(_seen(cases, phase), _room(cases, phase.held))


def plans(cases: Cases, form: Form, limit: Ints, within: tuple[Cases, Form, Ints] | None = None) -> Plans:
    """The best tiles, in cases in which some fit.

    ``within`` are more cases, the form for them, and which of them these are: products are made for all of them, once.
    """
    words, sizes = form.fixed.of(cases), dict[str, Ints]()
    peak = form.least_held + 0 * cases.rows
    for place, phase in enumerate(form.phases):
        spare = limit - words
        match phase:
            case Rows():
                more, held, tiles = _rows(cases, phase)
            case Rectangle():
                more, held, tiles = _rectangle(cases, phase, spare)
            case Product():
                made = _made(cases, phase) if within is None else _made_within(*within, place)
                more, tiles = cases.group * made.words, {phase.rows: made.rows, phase.columns: made.columns}
                held = made.rows * (made.columns + phase.extra) * cases.intermediate_words + 1
            case Resident():
                resident = np.minimum((cases.fast_words - phase.beside) // cases.intermediate_words, cases.keys)
                assert phase.every  # rows of equal length
                more = cases.group * phase.per_score * cases.rows * (cases.keys - resident)
                held, tiles = resident * cases.intermediate_words + phase.beside, {phase.tile: resident}
            case _:
                assert_never(phase)
        words, peak = np.where(more < NOTHING, words + more, NOTHING), np.maximum(peak, held)
        sizes |= tiles
    return Plans(words, peak, sizes)


def _made_within(cases: Cases, form: Form, index: Ints, place: int) -> _Made:
    phase = form.phases[place]
    assert isinstance(phase, Product)
    words, rows, columns = _made(cases, phase)
    return _Made(words[index], rows[index], columns[index])


def _seen(cases: Cases, phase: Phase) -> Cases:
    """The cases as a phase sees them: without the mask, or with rows and keys exchanged."""
    if isinstance(phase, Rows):
        return cases.transposed if phase.across else cases
    seen = cases.unmasked if phase.every else cases
    return seen.transposed if isinstance(phase, Product) and phase.across else seen


def _room(cases: Cases, held: Held) -> Rooms:
    none = 0 * cases.d
    words, per_key = cases.fast_words - held.beside, none + held.per_key
    return Rooms(words=words, per_score=none + held.per_score, per_row=none + held.per_row, per_key=per_key)


def _rows(cases: Cases, phase: Rows) -> tuple[Ints, Ints, dict[str, Ints]]:
    seen, room, none = _seen(cases, phase), _room(cases, phase.held), 0 * cases.d
    assert phase.passing is not None and not phase.split
    live, loads = none + phase.live, none + phase.loads
    if phase.heads:
        together = HeadForms(cases=seen, live=cases.group * live, loads=loads, room=room)
        words, heads, tile = best_head_tiles(together)
        sizes = {phase.tile: tile, phase.heads: heads}
    else:
        alone = RowForms(band=seen.band, live=live, loads=loads, unit=seen.row_unit)
        words, tile = best_row_tiles(alone, row_room(seen, room))
        words, heads, sizes = cases.group * words, none + 1, {phase.tile: tile}
    passing = key_room(seen, room, heads * tile)
    sizes[phase.passing] = passing
    return words, room.taken(heads * tile, passing) + phase.held.beside, sizes


def _score_tiles(cases: Cases, phase: Rectangle) -> ScoreTiles:
    (held,), none = phase.held, 0 * cases.d
    room = _room(cases, held)
    met, loads, kept = none + phase.met, none + phase.loads, none + phase.kept
    return ScoreTiles(met=met, loads=loads, kept=kept, words=room.words, per_score=room.per_score, per_row=room.per_row)


def _rectangle(cases: Cases, phase: Rectangle, spare: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    tiles, seen = _score_tiles(cases, phase), _seen(cases, phase)
    words, rows, keys = score_tiles(seen, tiles, spare // cases.group)
    found = words < NOTHING
    held = rows * (keys * tiles.per_score + tiles.per_row) + phase.held[0].beside
    return np.where(found, cases.group * np.where(found, words, 0), NOTHING), held, {phase.rows: rows, phase.keys: keys}


def _made(cases: Cases, phase: Product) -> _Made:
    """The best tiles of a product, made once for the same scores and width."""
    question = phase.across, phase.every, phase.extra
    known: list[tuple[Ints, _Made]] = cases.answers.setdefault(question, [])
    width = 0 * cases.d + phase.width
    for other, made in known:
        if np.array_equal(other, width):
            return made
    found = _Made(*(np.full(len(cases), NOTHING) for _ in range(3)))
    left = np.ones(len(cases), dtype=np.bool_)
    for other, made in known:
        same = left & (other == width)
        for mine, theirs in zip(found, made, strict=True):
            mine[same] = theirs[same]
        left &= ~same
    index = np.flatnonzero(left)
    if index.size:
        seen = _seen(cases, phase).with_values(width)
        for mine, new in zip(found, best_output_tiles(seen.take(index), phase.extra), strict=True):
            mine[index] = new
    known.append((width, found))
    return found


def _floor(cases: Cases, phase: Phase) -> Floats:
    seen = _seen(cases, phase)
    match phase:
        case Rows():
            most = row_room(seen, _room(cases, phase.held))
            none = 0 * cases.d
            count = none + 1 if phase.heads else cases.group
            forms = RowForms(band=seen.band, live=cases.group * phase.live, loads=count * phase.loads, unit=none + 1)
            return np.where(most >= 1, forms.floor(np.maximum(most, 1)), np.inf)
        case Rectangle():
            tiles = _score_tiles(cases, phase)
            return np.where(tiles.fits(seen), cases.group * score_floor(seen, tiles), np.inf)
        case Product():
            words = output_floor(seen.with_values(0 * cases.d + phase.width), phase.extra)
            return np.where(output_fits(seen, phase.extra), cases.group * words, np.inf)
        case Resident():
            return np.where(cases.fast_words >= phase.beside, 0.0, np.inf)
        case _:
            assert_never(phase)
