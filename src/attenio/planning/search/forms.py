"""Best tiles of a form: every phase has all of the fast memory, so that its tiles are searched by themselves."""

from bisect import bisect_left
from math import inf
from typing import NamedTuple

from attenio.granularity import largest_size
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.counting import seen_by, times_of
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.for_some import best_for_some, floor_for_some
from attenio.planning.search.kept_tiles import KeptWords, best_kept_tile
from attenio.planning.search.products import best_output_tile, best_settled_tile, product_floor, room_of
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile, even_tile
from attenio.planning.words.cuts import head_tiles
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

# Answers that a pattern of blocks keeps.
_MOST_ANSWERS = 4096


class _PhaseTiles(NamedTuple):
    """Words of one run that the tiles of a phase decide, and these tiles."""

    words: int
    sizes: dict[str, int]


# Heads of a tile, the most positions, and words as a function of the positions.
_Option = tuple[int, int, RowWords]


def best_of_form(problems: Problems, form: Form, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """The tiles that move the fewest words; None if none fits, and perhaps if none stays within ``limit``."""
    if form.least_held > fast_words:
        return None
    words, sizes = form.fixed.of(problems.counts), dict(form.constant)
    find = _best_known if len(form.phases) == 1 else _best_shared
    for phase in form.phases:
        spare = None if limit is None else limit // problems.runs - words
        tiles = find(problems, phase, fast_words, spare)
        if tiles is None:
            return None
        words += tiles.words
        sizes |= tiles.sizes
    return MovingTiles(problems.runs * words, Tiles(tuple((name, sizes[name]) for name in form.names)))


def floor_of_form(
    problems: Problems, form: Form, fast_words: int, limit: float = inf, *, closely: bool = False
) -> float:
    """Words that no tiles which fit go below; infinite if none fits. Beyond the limit, the first phases are enough.

    ``closely``, those of slots that keep keys are as high as they are known to be, which takes longer.
    """
    if form.least_held > fast_words:
        return inf
    words: float = form.fixed.of(problems.counts)
    for phase in form.phases:
        spare = limit / problems.runs - words
        if spare < 0:
            break
        words = words + _floor(problems, phase, fast_words, spare, closely)
    return problems.runs * words


def some_words(problems: Problems, form: Form, fast_words: int) -> int | None:
    """Words of good tiles of a form that has tiles of rows and no others, quickly; None if none fits."""
    total = form.fixed.of(problems.counts)
    for phase in form.phases:
        if isinstance(phase, KeptTile):
            kept, most = _kept_words(problems, phase, fast_words)
            if most < 1:
                return None
            total += times_of(problems, phase) * kept.some_words(most)
            continue
        assert isinstance(phase, RowTile)
        options = _head_options(problems, phase, fast_words)
        if not options:
            return None
        _, most, words = options[0] if len(options) == 1 else min(options, key=_floor_of)
        even = even_tile(words.problems.counts.most_rows, most, words.unit)
        total += words.words(even) if phase.heads else problems.group * words.words(even)
    return int(problems.runs * total)


def most_rows(problems: Problems, phase: RowTile, fast_words: int, heads: int = 1) -> int:
    """The largest tile that stays beside the smallest that passes; less than one if none does."""
    if phase.passing is not None and problems.granularity.is_free:
        per_score, per_row, per_key, beside = phase.held
        most = (fast_words - beside - per_key) // (heads * (per_row + per_score))
        return int(min(most, problems.counts.most_keys if phase.across else problems.counts.most_rows))
    seen, room = problems.transposed if phase.across else problems, _room(phase.held, fast_words, heads)
    if phase.passing is not None:
        return row_room(seen, room, heads)
    most = seen.counts.most_rows
    for rows, keys in seen.counts.shapes:
        fits = room.words // (room.per_row + keys * room.per_score)
        most = most if fits >= rows else min(most, fits)
    return largest_size(most, seen.counts.most_rows, seen.granularity.positions(heads))


def most_resident(problems: Problems, phase: Resident, fast_words: int) -> int:
    """Scores of a row that fit; negative if it does not even work with none."""
    return int(min((fast_words - phase.beside) // problems.intermediate_words, problems.counts.most_keys))


def _room(held: Held, fast_words: int, heads: int = 1) -> Room:
    per_score, per_row, per_key, beside = held
    if heads > 1:
        per_score, per_row = heads * per_score, heads * per_row
    return Room(fast_words - beside, per_score, per_row, per_key)


def _best_known(problems: Problems, phase: Phase, fast_words: int, spare: int | None) -> _PhaseTiles | None:
    """As ``_best``; of blocks, the pattern keeps what was found, since counting them takes long."""
    blocks = problems.counts.only_blocks
    if blocks is None:
        return _best(problems, phase, fast_words, spare)
    asked = problems.intermediate_words, problems.group, problems.granularity, fast_words, type(phase), phase
    tiles = blocks.answers.get(asked)
    if tiles is None:
        tiles = _best(problems, phase, fast_words, spare)
        # unless a limit may have hidden a better one; none does where slots keep keys
        if tiles is not None and (spare is None or tiles.words <= spare or isinstance(phase, KeptTile)):
            if len(blocks.answers) >= _MOST_ANSWERS:
                blocks.answers.clear()
            blocks.answers[asked] = tiles
    return tiles


def _best_shared(problems: Problems, phase: Phase, fast_words: int, spare: int | None) -> _PhaseTiles | None:
    """As ``_best_known``, for a phase that other forms may have too: what was found is kept with it."""
    if spare is not None and spare < 0:
        return None
    question = "tiles", id(phase), fast_words
    known: tuple[Phase, _PhaseTiles] | None = problems.answers.get(question)
    if known is not None:
        return known[1]
    tiles = _best_known(problems, phase, fast_words, spare)
    if tiles is not None and (spare is None or tiles.words <= spare):
        problems.answers[question] = phase, tiles  # with the phase, so that no other has its id
    return tiles


def _best(problems: Problems, phase: Phase, fast_words: int, spare: int | None) -> _PhaseTiles | None:
    match phase:
        case RowTile():
            return _best_rows(problems, phase, fast_words, spare)
        case KeptTile():
            return _best_kept(problems, phase, fast_words, spare)
        case Rectangle():
            rooms = tuple(_room(held, fast_words) for held in phase.held)
            limit = None if spare is None else spare // problems.group
            words = RectangleWords(seen_by(problems, phase), phase.visits, phase.loads, phase.saved, phase.may_pass)
            tile = best_rectangle(words, rooms, limit)
            if tile is None:
                return None
            return _PhaseTiles(problems.group * tile.words, {phase.rows: tile.rows, phase.keys: tile.keys})
        case Product() if phase.later is not None:
            most = inf if spare is None else spare // problems.group
            settled = best_settled_tile(seen_by(problems, phase), phase, fast_words, most)
            if settled is None:
                return None
            tiles = {phase.rows: settled.rows, phase.columns: settled.columns, phase.later: settled.later}
            return _PhaseTiles(problems.group * settled.words, tiles)
        case Product():
            output = best_output_tile(seen_by(problems, phase), room_of(phase, fast_words))
            if output is None:
                return None
            return _PhaseTiles(problems.group * output.words, {phase.rows: output.rows, phase.columns: output.columns})
        case Resident():
            return _best_resident(problems, phase, fast_words)
        case _:
            return _PhaseTiles(*best) if (best := best_for_some(problems, phase, fast_words, spare)) else None


def _best_resident(problems: Problems, phase: Resident, fast_words: int) -> _PhaseTiles | None:
    resident, beyond = most_resident(problems, phase, fast_words), seen_by(problems, phase).counts.scores_beyond
    if resident < 0:
        return None
    if beyond(resident) == 0:
        resident = bisect_left(range(resident), True, key=lambda count: beyond(count) == 0)
    return _PhaseTiles(int(problems.group * phase.per_score * beyond(resident)), {phase.tile: resident})


def _best_rows(problems: Problems, phase: RowTile, fast_words: int, spare: int | None) -> _PhaseTiles | None:
    """Among equals the tile with the fewest rows, then the fewest heads, and the most that fits beside it."""
    seen, times = seen_by(problems, phase), 1 if phase.heads else problems.group
    limit = None if spare is None else spare // times
    split = _split(seen) if phase.split else 1
    if split >= seen.counts.most_keys and phase.split:
        return None
    options = _head_options(problems, phase, fast_words)
    best: tuple[int, int, int, int] | None = None
    for heads, most, form in sorted(options, key=_floor_of) if len(options) > 1 else options:
        if limit is not None and len(options) > 1 and form.floor(most) > limit:
            break
        words, tile = best_row_tile(form, most, limit)
        option = (words, heads * tile, heads, tile)
        best = option if best is None else min(best, option)
        limit = best[0] if limit is None else min(limit, best[0])
    if best is None:
        return None
    words, _, heads, tile = best
    sizes = {phase.tile: tile}
    if phase.heads:
        sizes[phase.heads] = heads
    if phase.split:
        sizes[phase.split] = split
    if phase.passing:
        sizes[phase.passing] = int(key_room(seen, (_room(phase.held, fast_words, heads),), tile))
    return _PhaseTiles(times * words, sizes)


def _best_kept(problems: Problems, phase: KeptTile, fast_words: int, spare: int | None) -> _PhaseTiles | None:
    form, most = _kept_words(problems, phase, fast_words)
    if most < 1:
        return None
    times = times_of(problems, phase)
    words, tile = best_kept_tile(form, most, None if spare is None else spare // times)
    return _PhaseTiles(times * words, {phase.tile: tile, phase.slots: int(form.slots(tile))})


def _kept_words(problems: Problems, phase: KeptTile, fast_words: int) -> tuple[KeptWords, int]:
    """Words as a function of the tile, and the largest tile; less than one if none fits."""
    seen, room = seen_by(problems, phase), Room(fast_words - phase.beside, 0, phase.per_row, phase.per_slot)
    return KeptWords(seen, phase.live, phase.loads, room), row_room(seen, room)


def _split(problems: Problems) -> int:
    """Keys of a run: two runs, as few as there can be."""
    unit = problems.granularity.keys
    return -(-problems.counts.most_keys // (2 * unit)) * unit


def _head_options(problems: Problems, phase: RowTile, fast_words: int) -> list[_Option]:
    """For each number of heads in a tile of which one position fits: heads, most positions, and words.

    Floors and searches ask for the same ones, which are kept with the problems, as the phase is.
    """
    question = id(phase), fast_words
    known: tuple[RowTile, list[_Option]] | None = problems.answers.get(question)
    if known is None:  # with the phase, so that no other has its id
        known = problems.answers[question] = phase, _options(problems, phase, fast_words)
    return known[1]


def _floor_of(option: _Option) -> tuple[int, int]:
    heads, most, words = option
    return words.floor(most), heads


def _options(problems: Problems, phase: RowTile, fast_words: int) -> list[_Option]:
    if not phase.split and (not phase.heads or problems.group == 1):
        most = most_rows(problems, phase, fast_words)
        if most < 1:
            return []
        return [(1, most, RowWords(problems.transposed if phase.across else problems, phase.live, phase.loads))]
    seen, group = seen_by(problems, phase), problems.group
    options = []
    for count, heads in head_tiles(group, seen.granularity.rows):
        most = most_rows(problems, phase, fast_words, heads)
        if most >= 1:
            live, visits, split = group * phase.live, group * phase.visits, _split(seen) if phase.split else 1
            words = RowWords(
                problems=seen, live=live, loads=count * phase.loads, visits=visits, split=split, heads=heads
            )
            options.append((heads, most, words))
    return options


def _floor(problems: Problems, phase: Phase, fast_words: int, spare: float, closely: bool) -> float:
    """Words of one run that no tiles of a phase go below, quickly: it counts required scores, whatever is computed.

    Where a rough floor already exceeds the words to spare, that one.
    """
    match phase:
        case RowTile():
            return _row_floor(problems, phase, fast_words, spare)
        case KeptTile():
            return _kept_floor(problems, phase, fast_words, spare if closely else -inf)
        case Product():
            return product_floor(problems, phase, fast_words)
        case Rectangle():
            rooms = tuple([_room(held, fast_words) for held in phase.held])
            if min([row_room(problems, room) for room in rooms]) < 1:
                return inf
            words = RectangleWords(problems, phase.visits, phase.loads, phase.saved, phase.may_pass)
            return problems.group * words.floor(rooms)
        case Resident():
            return inf if most_resident(problems, phase, fast_words) < 0 else 0
        case _:
            return floor_for_some(problems, phase, fast_words, spare)


def _kept_floor(problems: Problems, phase: KeptTile, fast_words: int, spare: float) -> float:
    counts = problems.counts
    rows, longest = (counts.keys, counts.most_keys) if phase.across else (counts.rows, counts.most_rows)
    room = fast_words - phase.beside
    most = min((room - phase.per_slot) // phase.per_row, longest)
    if most < 1:
        return inf
    touched = counts.touched_rows, counts.touched_keys
    live, loaded = touched[::-1] if phase.across else touched
    times = times_of(problems, phase)
    rough: float = times * (phase.live * live + phase.loads * loaded)
    # as ``Kept.rough_read``, without transposing problems only to ask
    beyond = counts.scores * phase.per_slot - rows * room
    if beyond > 0:
        read = (beyond / most + rows * phase.per_row) / phase.per_slot
        rough = max(rough, times * (phase.live * live + phase.loads * read))
    if rough > spare:
        return rough
    words, most = _kept_words(problems, phase, fast_words)
    close: float = times * words.floor(most)
    return close


def _row_floor(problems: Problems, phase: RowTile, fast_words: int, spare: float) -> float:
    if phase.across:
        most, weight = most_rows(problems, phase, fast_words), int(problems.group * phase.loads)
        if most < 1:
            return inf
        # A key tile visits a row for at most as many scores as it has keys.
        rough = weight * max(problems.counts.touched_rows, -(-problems.counts.scores // most))
        return rough if rough > spare else max(rough, weight * problems.transposed.floors.least_key_loads(most))
    options = _head_options(problems, phase, fast_words)
    if not options:
        return inf
    floors = [words.floor(most) for _, most, words in options]
    return min(floors) if phase.heads else problems.group * floors[0]
