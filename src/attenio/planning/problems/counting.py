"""The exact words that a form moves and holds with given tiles."""

from typing import Protocol, Self, TypeVar, assert_never

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.masks.patterns.whole_rows import whole_rows_read
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.counts import PatternCounts
from attenio.planning.words import all_keys as every_key
from attenio.planning.words import band_turns
from attenio.planning.words import causal_sums as causal
from attenio.planning.words import taking_turns as turns
from attenio.planning.words import turning_tiles as turning
from attenio.planning.words.all_keys import AllKeys
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.causal_sums import CausalSums
from attenio.planning.words.exchanged_keys import ExchangedKeys, exchanged_key_words, held_at_turns
from attenio.planning.words.exchanged_rows import ExchangedRows, ExchangeSizes, exchanged_held, exchanged_words
from attenio.planning.words.form import (
    Form,
    Held,
    KeptTile,
    KeyRing,
    OfBands,
    OfDense,
    Phase,
    Product,
    Rectangle,
    Resident,
    RollingTile,
    RowTile,
    WholeRows,
)
from attenio.planning.words.last_columns import LastColumns, held_by_last, last_column_words
from attenio.planning.words.left_over import LeftOver, left_over_words
from attenio.planning.words.left_over import Sizes as LeftOverSizes
from attenio.planning.words.left_over import held_words as held_left_over
from attenio.planning.words.rolling_sums import keys_in_ring, slots_and_places
from attenio.planning.words.row_ring import RowRing
from attenio.planning.words.row_ring import held_words as held_by_rows
from attenio.planning.words.stacked_rows import StackedRows, passing_words
from attenio.planning.words.staying_sums import StayingSums, tiles_and_slots, words_that_pass
from attenio.planning.words.taking_turns import TakingTurns
from attenio.planning.words.turning_tiles import TurningTiles
from attenio.planning.words.waiting_rows import WaitingRows, held_words, read_again


def moved_words(problems: Problems, form: Form, tiles: Tiles) -> int:
    """Words loaded and stored."""
    passing = sum(_moved(problems, phase, tiles) for phase in form.phases)
    return problems.runs * int(form.fixed.of(problems.counts) + passing)


def peak_words(problems: Problems, form: Form, tiles: Tiles) -> int:
    """Words held at once in the largest phase of the largest problem."""
    return int(max([form.least_held, *[_peak(problems, phase, tiles) for phase in form.phases]]))


# Phases in which keys may stay while rows pass; others that see problems as they are.
_EitherWay = RowTile | KeptTile | RollingTile | WaitingRows | WholeRows
_AsTheyAre = OfDense | OfBands
# Phases of dense problems that see the rows of all heads of a group.
_Stacked = StackedRows | LastColumns | ExchangedKeys | StayingSums | TakingTurns | LeftOver
# Phases with turns between tiles, at which sums, or all gradients, give way to each other.
_AtTurns = CausalSums | TurningTiles | BandTurns | AllKeys


class Turnable(Protocol):
    """Problems, or many cases of one: as they are, transposed, and without their mask."""

    @property
    def transposed(self) -> Self:
        """Rows and keys exchanged."""

    @property
    def unmasked(self) -> Self:
        """Every score required."""


Seen = TypeVar("Seen", bound=Turnable)


def seen_by(problems: Seen, phase: Phase) -> Seen:
    """The problems as a phase sees them: without the mask, or with rows and keys exchanged."""
    if isinstance(phase, _EitherWay):
        return problems.transposed if phase.across else problems
    if isinstance(phase, _AsTheyAre):
        return problems
    seen = problems.unmasked if phase.every else problems
    return seen.transposed if isinstance(phase, Product) and phase.across else seen


class OfGroups(Protocol):
    """Problems, or many cases of one, whose heads come in groups."""

    @property
    def group(self) -> Counts:
        """Query heads that share a KV head."""


def times_of(problems: OfGroups, phase: KeptTile | WholeRows) -> Counts:
    """How often a phase occurs in a group of heads: once for each, unless they are together."""
    together = phase.across if isinstance(phase, WholeRows) else phase.together
    return 1 if together else problems.group


def _sizes_of(phase: LeftOver, tiles: Tiles) -> LeftOverSizes:
    return LeftOverSizes(tiles[phase.rows], tiles[phase.late_rows], tiles[phase.keys], tiles[phase.late_keys])


def _exchanged(phase: ExchangedRows, tiles: Tiles) -> ExchangeSizes:
    return ExchangeSizes(tiles[phase.tile], tiles[phase.exchanges], tiles[phase.last], tiles[phase.slots])


def _sizes_of_turns(phase: TakingTurns, tiles: Tiles) -> turns.Sizes:
    return turns.Sizes(tiles[phase.tile], tiles[phase.slots], tiles[phase.sums])


def _causal_sizes(phase: CausalSums, tiles: Tiles) -> causal.Sizes:
    return causal.Sizes(*(tiles[name] for name in phase[:4]))


def _turning_sizes(phase: TurningTiles, tiles: Tiles) -> turning.Sizes:
    return turning.Sizes(*(tiles[name] for name in phase[:3]))


def _sizes_of_band(phase: BandTurns, tiles: Tiles) -> band_turns.Sizes:
    return band_turns.Sizes(tiles[phase.tile], tiles[phase.slots], tiles[phase.sums])


def _key_sizes(phase: AllKeys, tiles: Tiles) -> every_key.Sizes:
    return every_key.Sizes(tiles[phase.tile], tiles[phase.rows])


def steps_of(problems: Problems, phase: BandTurns) -> band_turns.Steps:
    """The band as what passes sees it."""
    assert problems.counts.only_band is not None
    return band_turns.seen(problems.counts.only_band, problems.group, across=phase.across)


def _of_one_head(counts: PatternCounts, phase: RollingTile | ExchangedRows, tiles: Tiles) -> Counts:
    """Words of one head whose rows come and go one by one, or exchange values for outputs."""
    if isinstance(phase, ExchangedRows):
        return exchanged_words(phase, (counts.rows, counts.keys), _exchanged(phase, tiles))
    a, slots = tiles[phase.tile], tiles[phase.slots]
    words, ring = phase.live * counts.touched_rows - phase.once * counts.met_at_once(a), 0
    if phase.ring:
        ring = int(keys_in_ring((a, slots, tiles[phase.sums]), phase.per_row, phase.per_slot, phase.per_sum))
    words += phase.loads * counts.rolling_loads(a, slots, ring)
    if phase.sums:
        words += phase.state * counts.rolling_loads(a, int(slots_and_places(a, slots, tiles[phase.sums])))
    return words


def _of_product(counts: PatternCounts, phase: Product, tiles: Tiles, w: int) -> Counts:
    """Words of one head whose outputs are made from stored scores."""
    columns = min(tiles[phase.columns], phase.width)
    reads = ceil_div(phase.width, columns)
    words = reads * counts.scores * w + counts.key_loads(tiles[phase.rows]) * phase.width
    if phase.later is not None and reads > 1:
        fewer = counts.key_loads(tiles[phase.rows]) - counts.key_loads(tiles[phase.later])
        words += (reads + 2) * counts.rows * w - fewer * (phase.width - columns)
    return words


def _held_by_product(phase: Product, tiles: Tiles, most: int) -> int:
    """Outputs and more intermediates of a tile of at most so many rows."""
    columns = min(tiles[phase.columns], phase.width)
    held = min(tiles[phase.rows], most) * (columns + phase.extra)
    if phase.later is not None and columns < phase.width:
        held = max(held, min(tiles[phase.later], most) * (columns + phase.extra - 1))
    return int(held)


def _moved_by_dense(phase: _Stacked, sizes: tuple[int, int, int], tiles: Tiles) -> int:
    group, rows, keys = sizes
    match phase:
        case StackedRows():
            return int(passing_words(phase, group * rows, keys, tiles[phase.tile], tiles[phase.slots]))
        case LastColumns():
            return int(last_column_words(phase, (group * rows, keys), tiles[phase.tile], tiles[phase.slots]))
        case ExchangedKeys():
            return int(exchanged_key_words(phase, (group * rows, keys), tiles[phase.tile], tiles[phase.slots]))
        case StayingSums():
            words = tiles_and_slots(phase, sizes, 0)
            return int(words_that_pass(phase, ceil_div(words.rows, tiles[phase.tile]), words.keys, tiles[phase.slots]))
        case TakingTurns():
            shape = turns.shape_of(phase, *sizes)
            return int(turns.words_of_turns(phase, shape, _sizes_of_turns(phase, tiles)))
        case LeftOver():
            return int(left_over_words(phase, (group * rows, keys), _sizes_of(phase, tiles)))
        case _:
            assert_never(phase)


def _moved_at_turns(problems: Problems, phase: _AtTurns, tiles: Tiles) -> int:
    shape = problems.counts.rows, problems.counts.keys
    match phase:
        case CausalSums():
            return int(causal.words_of_turns(phase, shape, _causal_sizes(phase, tiles)))
        case TurningTiles():
            return int(turning.words_of_turns(phase, shape, _turning_sizes(phase, tiles)))
        case BandTurns():
            return int(band_turns.words_of_turns(phase, steps_of(problems, phase), _sizes_of_band(phase, tiles)))
        case AllKeys():
            return int(every_key.words_of_tiles(phase, shape, _key_sizes(phase, tiles)))
        case _:
            assert_never(phase)


def _moved(problems: Problems, phase: Phase, tiles: Tiles) -> int:
    counts, group = seen_by(problems, phase).counts, problems.group
    match phase:
        case RowTile():
            a = tiles[phase.tile]
            count = ceil_div(group, tiles[phase.heads]) if phase.heads else group
            words = count * phase.loads * counts.key_loads(a)
            if phase.split:
                words += group * phase.visits * counts.tile_rows(a, tiles[phase.split])
            return int(words + group * phase.live * counts.live_rows(a) if phase.live else words)
        case KeptTile():
            a = tiles[phase.tile]
            read = counts.key_loads(a) - counts.kept_loads(a, min(tiles[phase.slots], counts.most_keys))
            return int(times_of(problems, phase) * (phase.loads * read + phase.live * counts.live_rows(a)))
        case RollingTile() | ExchangedRows():
            return int(group * _of_one_head(counts, phase, tiles))
        case WaitingRows():
            return int(read_again(phase, (counts.rows, counts.keys), tiles[phase.tile], tiles[phase.slots]))
        case StackedRows() | LastColumns() | ExchangedKeys() | StayingSums() | TakingTurns() | LeftOver():
            return _moved_by_dense(phase, (group, counts.rows, counts.keys), tiles)
        case KeyRing() | RowRing():
            return 0
        case CausalSums() | TurningTiles() | BandTurns() | AllKeys():
            return _moved_at_turns(problems, phase, tiles)
        case WholeRows():
            assert counts.only_band is not None
            read, live = whole_rows_read(counts.only_band, tiles[phase.tile], phase.per_score, phase.per_row)
            return int(times_of(problems, phase) * (phase.loads * read + phase.live * live))
        case Rectangle():
            a, b = tiles[phase.rows], tiles[phase.keys]
            words = phase.visits * counts.tile_rows(a, b) + phase.loads * counts.key_loads(a)
            return int(group * (words - phase.saved * counts.live_rows(a) if phase.saved else words))
        case Product():
            return int(group * _of_product(counts, phase, tiles, problems.intermediate_words))
        case Resident():
            return int(group * phase.per_score * counts.scores_beyond(tiles[phase.tile]))
        case _:
            assert_never(phase)


def _peak(problems: Problems, phase: Phase, tiles: Tiles) -> int:
    counts = problems.counts
    w = problems.intermediate_words
    match phase:
        case RowTile():
            heads = min(tiles[phase.heads], problems.group) if phase.heads else 1
            a, b = tiles[phase.tile], tiles[phase.passing] if phase.passing else counts.keys
            shapes = seen_by(problems, phase).counts.shapes if phase.across else counts.shapes
            return max([_held(phase.held, heads * min(a, n), min(b, m)) for n, m in shapes])
        case KeptTile() | RollingTile():
            a, slots = tiles[phase.tile], tiles[phase.slots]
            shapes = seen_by(problems, phase).counts.shapes
            held = max(min(a, n) * phase.per_row + min(slots, m) * phase.per_slot for n, m in shapes)
            if isinstance(phase, RollingTile) and phase.sums:
                held += tiles[phase.sums] * phase.per_sum
            return int(held + phase.beside)
        case ExchangedRows():
            return int(exchanged_held(phase, (counts.rows, counts.keys), _exchanged(phase, tiles)))
        case WaitingRows():
            seen = seen_by(problems, phase)
            waiting, slots = min(tiles[phase.tile], seen.counts.rows), min(tiles[phase.slots], seen.counts.keys)
            return int(held_words(phase, seen.counts.rows, waiting, slots))
        case KeyRing():
            return int(min(tiles[phase.slots], counts.keys) * phase.per_slot + phase.beside)
        case CausalSums() | TurningTiles() | BandTurns() | AllKeys():
            return _held_at_turns(problems, phase, tiles)
        case RowRing():
            return int(held_by_rows(phase, counts.ring_rows, min(tiles[phase.slots], counts.rows)))
        case WholeRows():
            counts = seen_by(problems, phase).counts
            each = counts.longest_row * phase.per_score + phase.per_row
            return int(min(tiles[phase.tile], counts.rows) * each + phase.spare * counts.longest_row + phase.beside)
        case Rectangle():
            a, b = tiles[phase.rows], tiles[phase.keys]
            return max(_held(held, min(a, n), min(b, m)) for held in phase.held for n, m in counts.shapes)
        case Product():
            most = counts.most_keys if phase.across else counts.most_rows
            return int(_held_by_product(phase, tiles, most) * w + 1)
        case Resident():
            return int(min(tiles[phase.tile], counts.most_keys) * w + phase.beside)
        case _:
            return _held_by_dense(phase, (problems.group, counts.rows, counts.keys), tiles)


def _held_at_turns(problems: Problems, phase: _AtTurns, tiles: Tiles) -> int:
    shape = problems.counts.rows, problems.counts.keys
    match phase:
        case CausalSums():
            return int(causal.held_words(phase, shape, _causal_sizes(phase, tiles)))
        case TurningTiles():
            return int(turning.held_words(phase, shape, _turning_sizes(phase, tiles)))
        case BandTurns():
            return int(band_turns.held_words(phase, steps_of(problems, phase), _sizes_of_band(phase, tiles)))
        case AllKeys():
            return int(every_key.held_words(phase, shape, _key_sizes(phase, tiles)))
        case _:
            assert_never(phase)


def _held_by_dense(phase: _Stacked, sizes: tuple[int, int, int], tiles: Tiles) -> int:
    group, rows, keys = sizes
    match phase:
        case StackedRows() | StayingSums():
            words = tiles_and_slots(phase, sizes, 0)
            a, slots = min(tiles[phase.tile], words.rows), min(tiles[phase.slots], words.keys)
            return int(a * phase.per_row + slots * phase.per_slot + phase.beside)
        case LastColumns():
            return int(held_by_last(phase, (group * rows, keys), tiles[phase.tile], tiles[phase.slots]))
        case ExchangedKeys():
            return int(held_at_turns(phase, (group * rows, keys), tiles[phase.tile], tiles[phase.slots]))
        case TakingTurns():
            return int(turns.held_words(phase, turns.shape_of(phase, *sizes), _sizes_of_turns(phase, tiles)))
        case LeftOver():
            return int(held_left_over(phase, (group * rows, keys), _sizes_of(phase, tiles)))
        case _:
            assert_never(phase)


def _held(held: Held, rows: int, keys: int) -> int:
    return int(rows * keys * held.per_score + rows * held.per_row + keys * held.per_key + held.beside)
