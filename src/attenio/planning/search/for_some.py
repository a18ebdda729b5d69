"""Phases for some problems alone: rows that wait or are stacked, sums that stay, what is left over, for dense ones.

Outputs and values that give way to each other at turns, and sums that take turns, are for dense ones too. For bands,
rows, or keys, that come and go one by one, rows that meet kept keys whose values give way to outputs, rings of keys and
of rows, causal rows that stay as soon as they fit, sums that take turns, and all scores of rows.
"""

from math import inf
from typing import assert_never

from attenio.planning.problems import Problems
from attenio.planning.problems.counting import seen_by, steps_of, times_of
from attenio.planning.search.rolling_tiles import Rolling, best_rolling_tile
from attenio.planning.search.row_tiles import RowWords
from attenio.planning.search.whole_tiles import best_whole_tile, least_read
from attenio.planning.words import band_turns
from attenio.planning.words.all_keys import AllKeys, all_keys_floor, best_all_keys
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.causal_sums import CausalSums, best_causal_sums, sums_floor
from attenio.planning.words.exchanged_keys import ExchangedKeys, best_exchanged_keys, may_turn
from attenio.planning.words.exchanged_rows import ExchangedRows, best_exchanged_rows, may_exchange
from attenio.planning.words.form import KeyRing, OfBands, OfDense, RollingTile, WholeRows
from attenio.planning.words.last_columns import LastColumns, best_last_columns
from attenio.planning.words.left_over import LeftOver, best_left_over, left_over_floor
from attenio.planning.words.row_ring import RowRing
from attenio.planning.words.row_ring import held_words as held_by_rows
from attenio.planning.words.stacked_rows import StackedRows, best_stacked_rows, stacked_floor
from attenio.planning.words.staying_sums import StayingSums, tiles_and_slots
from attenio.planning.words.taking_turns import TakingTurns, best_taking_turns, shape_of, turns_floor
from attenio.planning.words.turning_tiles import TurningTiles, best_turning_tiles
from attenio.planning.words.turning_tiles import turns_floor as turning_floor
from attenio.planning.words.waiting_rows import WaitingRows, best_waiting_rows

ForSome = OfBands | OfDense


def best_for_some(
    problems: Problems, phase: ForSome, fast_words: int, spare: int | None
) -> tuple[int, dict[str, int]] | None:
    """The fewest words and the tiles that move them; None if none fits. Beyond what is to spare, any."""
    counts = problems.counts
    match phase:
        case RollingTile():
            rolling = _rolling(problems, phase, fast_words)
            if rolling.most < 1:
                return None
            words, tile = best_rolling_tile(rolling)
            found = {phase.tile: tile, phase.slots: int(rolling.slots(tile))}
            waiting = {phase.sums: int(rolling.places(tile))} if phase.sums else {}
            return problems.group * words, found | waiting
        case ExchangedRows():
            if not may_exchange(phase, (counts.rows, counts.keys), fast_words):
                return None
            limit = None if spare is None else spare // problems.group
            moved, exchange = best_exchanged_rows(phase, (counts.rows, counts.keys), fast_words, limit)
            tiles = (phase.tile, phase.exchanges, phase.last, phase.slots)
            return (problems.group * int(moved), dict(zip(tiles, exchange, strict=True))) if exchange.tile else None
        case KeyRing() | RowRing():
            return _best_ring(problems, phase, fast_words) if _ring_may_fit(problems, phase, fast_words) else None
        case CausalSums():
            words, causal = best_causal_sums(phase, (counts.rows, counts.keys), fast_words)
            return (words, dict(zip(phase[:4], causal, strict=True))) if causal.tile >= 1 else None
        case AllKeys():
            words, every = best_all_keys(phase, (counts.rows, counts.keys), fast_words)
            return (int(words), dict(zip(phase[:2], map(int, every), strict=True))) if every.keys >= 1 else None
        case BandTurns():
            words, masked = band_turns.best_band_turns(
                phase, steps_of(problems, phase), fast_words, inf if spare is None else spare
            )
            return (words, dict(zip(phase[:3], masked, strict=True))) if masked.tile >= 1 else None
        case WholeRows():
            most = _most_whole(problems, phase, fast_words)
            if most < 1:
                return None
            times = times_of(problems, phase)
            limit = None if spare is None else spare // times
            seen = seen_by(problems, phase)
            assert seen.counts.only_band is not None
            form = RowWords(seen, phase.live, phase.loads)
            words, tile = best_whole_tile(form, phase, seen.counts.only_band, most, limit)
            return times * words, {phase.tile: tile}
        case _:
            return _best_for_dense(problems, phase, fast_words, spare)


def _best_for_dense(
    problems: Problems, phase: OfDense, fast_words: int, spare: int | None
) -> tuple[int, dict[str, int]] | None:
    counts = problems.counts
    match phase:
        case WaitingRows():
            words, waiting, slots = best_waiting_rows(phase, counts.rows, counts.keys, fast_words)
            return (words, {phase.tile: waiting, phase.slots: slots}) if slots >= 1 else None
        case StackedRows() | StayingSums():
            sums = tiles_and_slots(phase, (problems.group, counts.rows, counts.keys), fast_words)
            if sums.most < 1:
                return None
            words, tile, slots = best_stacked_rows(sums, inf if spare is None else spare)
            return words, {phase.tile: tile, phase.slots: slots}
        case LastColumns():
            shape = problems.group * counts.rows, counts.keys
            words, tile, slots = best_last_columns(phase, shape, fast_words)
            return (words, {phase.tile: tile, phase.slots: slots}) if slots >= 1 else None
        case ExchangedKeys():
            if (kept := _at_turns(problems, phase, fast_words)) is None:
                return None
            moved, tile, slots = kept
            return moved, {phase.tile: tile, phase.slots: slots}
        case TakingTurns():
            shape = shape_of(phase, problems.group, counts.rows, counts.keys)
            words, turning = best_taking_turns(phase, shape, fast_words, inf if spare is None else spare)
            return (words, dict(zip(phase[:3], turning, strict=True))) if turning.tile >= 1 else None
        case TurningTiles():
            words, at_turns = best_turning_tiles(phase, (counts.rows, counts.keys), fast_words)
            return (words, dict(zip(phase[:3], at_turns, strict=True))) if at_turns.tile >= 1 else None
        case LeftOver():
            words, sizes = best_left_over(phase, (problems.group * counts.rows, counts.keys), fast_words)
            return (int(words), dict(zip(phase[:4], sizes, strict=True))) if min(sizes.rows, sizes.keys) >= 1 else None
        case _:
            assert_never(phase)


def _at_turns(problems: Problems, phase: ExchangedKeys, fast_words: int) -> tuple[int, int, int] | None:
    """The best, which its floor asks for too: it is kept with the problems, as the phase is."""
    shape = problems.group * problems.counts.rows, problems.counts.keys
    if not may_turn(phase, shape, fast_words):
        return None
    question = id(phase), fast_words
    known: tuple[ExchangedKeys, tuple[int, int, int]] | None = problems.answers.get(question)
    if known is None:
        known = problems.answers[question] = phase, best_exchanged_keys(phase, shape, fast_words)
    return known[1] if known[1][1] else None


def _most_whole(problems: Problems, phase: WholeRows, fast_words: int) -> int:
    """Rows of which all scores fit, at most."""
    counts = seen_by(problems, phase).counts
    room = fast_words - phase.beside - phase.spare * counts.longest_row
    return int(min(room // (counts.longest_row * phase.per_score + phase.per_row), counts.rows))


def _best_ring(problems: Problems, phase: KeyRing | RowRing, fast_words: int) -> tuple[int, dict[str, int]] | None:
    """Nothing comes again, if the ring fits."""
    if isinstance(phase, KeyRing):
        slots = problems.counts.longest_row
        held = slots * phase.per_slot + phase.beside
    else:
        rows = problems.counts.ring_rows
        slots = int(rows.of_two)
        held = int(held_by_rows(phase, rows, slots))
    return (0, {phase.slots: slots}) if held <= fast_words else None


def _ring_may_fit(problems: Problems, phase: KeyRing | RowRing, fast_words: int) -> bool:
    """Whether a ring fits if no row needs more keys, and no key more rows, than all do on average: known already."""
    counts, room = problems.counts, fast_words - phase.beside
    if isinstance(phase, KeyRing):
        return bool(counts.scores * phase.per_slot <= counts.rows * room)
    # all rows that need a key but one are in the ring
    return bool((counts.scores - counts.keys) * phase.per_slot <= counts.keys * room)


def _rolling(problems: Problems, phase: RollingTile, fast_words: int) -> Rolling:
    band = seen_by(problems, phase).counts.only_band
    assert band is not None
    room, waiting = (phase.per_row, phase.per_slot), (phase.per_sum, phase.state, phase.once, bool(phase.sums))
    return Rolling(band, phase.live, phase.loads, fast_words - phase.beside, *room, *waiting, phase.ring)


def floor_for_some(problems: Problems, phase: ForSome, fast_words: int, spare: float) -> float:
    """Words that no tiles go below; infinite if none fits. Where a rough floor exceeds the words to spare, that one."""
    counts = problems.counts
    match phase:
        case RollingTile():
            rolling = _rolling(problems, phase, fast_words)
            return inf if rolling.most < 1 else problems.group * rolling.floor(rolling.largest)
        case ExchangedRows():
            if not may_exchange(phase, (counts.rows, counts.keys), fast_words):
                return inf
            return float(problems.group * (phase.loads * counts.keys + phase.live * counts.rows))
        case KeyRing() | RowRing():
            return 0 if _ring_may_fit(problems, phase, fast_words) else inf
        case CausalSums():
            return float(sums_floor(phase, (counts.rows, counts.keys), fast_words))
        case AllKeys():
            return float(all_keys_floor(phase, (counts.rows, counts.keys), fast_words))
        case BandTurns():
            return float(band_turns.turns_floor(phase, steps_of(problems, phase), fast_words))
        case WholeRows():
            return _floor_of_whole_rows(problems, phase, fast_words, spare)
        case _:
            return _floor_for_dense(problems, phase, fast_words)


def _floor_for_dense(problems: Problems, phase: OfDense, fast_words: int) -> float:
    counts = problems.counts
    match phase:
        case WaitingRows():
            words, _, slots = best_waiting_rows(phase, counts.rows, counts.keys, fast_words)
            return inf if slots < 1 else float(words)
        case StackedRows():
            return stacked_floor(phase, problems.group * counts.rows, counts.keys, fast_words)
        case LastColumns():
            words, _, slots = best_last_columns(phase, (problems.group * counts.rows, counts.keys), fast_words)
            return float(words) if slots >= 1 else inf
        case StayingSums():
            staying = tiles_and_slots(phase, (problems.group, counts.rows, counts.keys), fast_words)
            return inf if staying.most < 1 else staying.floor()
        case ExchangedKeys():
            return inf if (at_turns := _at_turns(problems, phase, fast_words)) is None else float(at_turns[0])
        case TakingTurns():
            return turns_floor(phase, shape_of(phase, problems.group, counts.rows, counts.keys), fast_words)
        case TurningTiles():
            return turning_floor(phase, (counts.rows, counts.keys), fast_words)
        case LeftOver():
            return left_over_floor(phase, (problems.group * counts.rows, counts.keys), fast_words)
        case _:
            assert_never(phase)


def _floor_of_whole_rows(problems: Problems, phase: WholeRows, fast_words: int, spare: float) -> float:
    counts, times = problems.counts, times_of(problems, phase)
    rows, live = (counts.keys, counts.touched_keys) if phase.across else (counts.rows, counts.touched_rows)
    # a row needs as many keys as all do on average, which is known already, and a key is read for so many rows at most,
    # or for a few more
    most = rows * (fast_words - phase.beside) // (counts.scores * phase.per_score + rows * phase.per_row)
    if most < 1:
        return inf
    read = max(-(-counts.scores // most) - -(-phase.per_row // phase.per_score), 0)
    rough: float = times * (phase.live * live + phase.loads * read)
    if rough > spare:
        return rough
    most, band = _most_whole(problems, phase, fast_words), seen_by(problems, phase).counts.only_band
    assert band is not None
    return inf if most < 1 else float(times * (phase.live * live + phase.loads * least_read(band, phase, most)))
