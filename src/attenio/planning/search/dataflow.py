"""Best tiles of any exact dataflow, and which dataflows can move the least at all."""

from functools import lru_cache
from itertools import count
from typing import NamedTuple

from attenio.planning.plan import Dataflow, MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.tile_sizes import keeps_to_granularity
from attenio.planning.search.forms import best_of_form, floor_of_form
from attenio.planning.words.causal_sums import CausalSums
from attenio.planning.words.dataflows import known_forms
from attenio.planning.words.exchanged_keys import ExchangedKeys
from attenio.planning.words.exchanged_rows import ExchangedRows
from attenio.planning.words.form import Form, KeptTile, KeyRing, OfDense, RollingTile, Sizes, WholeRows
from attenio.planning.words.left_over import LeftOver
from attenio.planning.words.row_ring import RowRing
from attenio.planning.words.stacked_rows import StackedRows
from attenio.planning.words.staying_sums import StayingSums
from attenio.planning.words.taking_turns import TakingTurns
from attenio.planning.words.waiting_rows import WaitingRows
from attenio.workload import Direction

# In the order in which equals are preferred. The dataflows that are missing never move less than one that is here:
# flash-attention-2 needs more room than attenio for the same words; split-keys adds partial results to what
# stacked-groups (attenio, for single heads) moves; square-tiling's tiles fit rank-one-tiling with room to spare, and
# standard's are those of rank-one-tiling that writes probabilities, which leaves out what the mask hides.
CONTENDERS = (
    Dataflow.ATTENIO,
    Dataflow.STACKED_GROUPS,
    Dataflow.KEPT_KEYS,
    Dataflow.KEPT_ROWS,
    Dataflow.FLASH_ATTENTION_1,
    Dataflow.FLAT,
    Dataflow.RANK_ONE_TILING,
    Dataflow.SCORE_STATIONARY,
)
BACKWARD_CONTENDERS = (
    Dataflow.TWO_PASS,
    Dataflow.KEY_STATIONARY,
    Dataflow.QUERY_STATIONARY,
    Dataflow.SPILLED_GRADIENTS,
    Dataflow.TILED_PRODUCTS,
    Dataflow.FUSED_VALUES,
    Dataflow.KEPT_ROW_GRADIENTS,
)


# They make one score at a time, which no granularity allows.
ONE_BY_ONE = (Dataflow.KEPT_KEYS, Dataflow.KEPT_ROWS, Dataflow.KEPT_ROW_GRADIENTS)
# They have forms for some problems alone.
_FOR_SOME = (
    Dataflow.KEPT_KEYS, Dataflow.SCORE_STATIONARY, Dataflow.KEPT_ROW_GRADIENTS, Dataflow.QUERY_STATIONARY,
    Dataflow.TWO_PASS,
)  # fmt: skip
# The forms of a single score at a time.
_WITH_SLOTS = KeptTile | RollingTile | ExchangedRows | KeyRing | RowRing | CausalSums | OfDense


def contenders(direction: Direction) -> tuple[Dataflow, ...]:
    """The dataflows of a direction that can move the least, in the order in which equals are preferred."""
    return BACKWARD_CONTENDERS if direction is Direction.BACKWARD else CONTENDERS


class _Shape(NamedTuple):
    """What decides which forms are for a problem: whether it is one band, is dense or causal, and rows or keys roll."""

    band: bool = False
    dense: bool = False
    staircase: bool = False
    rows_roll: bool = False
    keys_roll: bool = False
    causal: bool = False


class Entrant(NamedTuple):
    """A form of a dataflow, and its place in the order of preference."""

    rank: int
    dataflow: Dataflow
    form: Form


Entrants = dict[Dataflow, tuple[Entrant, ...]]


def entrants_of(direction: Direction, problems: Problems) -> Entrants:
    """The forms of every contender that these problems allow.

    Not two passes without slots where no heads share what passes: with slots they take no more room, and read no more.
    """
    if problems.granularity.is_free:
        return _free_entrants(direction, problems.sizes, _shape_of(problems))
    return _ranked({dataflow: allowed_forms(problems, dataflow) for dataflow in contenders(direction)})


@lru_cache(maxsize=1024)
def _free_entrants(direction: Direction, sizes: Sizes, shape: _Shape) -> Entrants:
    forms = {dataflow: _free_forms(dataflow, sizes, shape) for dataflow in contenders(direction)}
    if direction is Direction.BACKWARD and sizes.group == 1:
        forms[Dataflow.TWO_PASS] = forms[Dataflow.TWO_PASS][1:]
    return _ranked(forms)


def _ranked(forms: dict[Dataflow, tuple[Form, ...]]) -> Entrants:
    ranks = count()
    return {
        dataflow: tuple(Entrant(next(ranks), dataflow, form) for form in every)
        for dataflow, every in forms.items()
        if every
    }


def allowed_forms(problems: Problems, dataflow: Dataflow) -> tuple[Form, ...]:
    """The forms for problems of this shape whose tiles of one size keep to the granularity."""
    forms = _free_forms(dataflow, problems.sizes, _shape_of(problems))
    if problems.granularity.is_free:
        return forms
    if dataflow is Dataflow.QUERY_STATIONARY:
        forms = known_forms(dataflow, problems.sizes)
    if dataflow is Dataflow.SCORE_STATIONARY:  # no unit multiplies with one element at a time
        forms = tuple(form for form in forms if form.names[0] not in ("resident_rows", "whole_rows"))
    # slots keep what rows meet one score at a time
    forms = tuple(f for f in forms if not any(isinstance(phase, _WITH_SLOTS) for phase in f.phases))
    return tuple(f for f in forms if not f.constant or keeps_to_granularity(problems, Tiles(f.constant)))


def _shape_of(problems: Problems) -> _Shape:
    counts = problems.counts
    band = counts.only_band
    return (
        _ANY
        if band is None
        else _Shape(
            band=True,
            dense=bool(band.is_dense),
            staircase=counts.is_one_staircase,
            rows_roll=counts.roll(False),
            keys_roll=counts.roll(True),
            causal=counts.is_causal,
        )
    )


_ANY = _Shape()


@lru_cache(maxsize=4096)
def _free_forms(dataflow: Dataflow, sizes: Sizes, shape: _Shape) -> tuple[Form, ...]:
    """The forms for problems of this shape, with tiles of any size."""
    forms = known_forms(dataflow, sizes)
    if dataflow in _FOR_SOME:
        unfit: list[type] = []
        unfit += [] if shape.dense else [WaitingRows, StackedRows, ExchangedKeys, StayingSums, TakingTurns, LeftOver]
        unfit += [] if shape.staircase else [ExchangedRows]
        unfit += [] if shape.band else [KeyRing]
        unfit += [] if shape.rows_roll else [RowRing]
        unfit += [] if shape.keys_roll else [WholeRows]
        unfit += [] if shape.causal else [CausalSums]
        forms = tuple(form for form in forms if not isinstance(form.phases[0], tuple(unfit)) and _rolls(form, shape))
        if sizes.group > 1 and not shape.keys_roll:  # elsewhere heads together save next to nothing
            forms = tuple(form for form in forms if "group_positions" not in form.names)
    # a slot takes no more room than a tile of keys beside scores of all rows, and reads no more
    return (forms[0], *forms[2:]) if dataflow is Dataflow.QUERY_STATIONARY else forms


def _rolls(form: Form, shape: _Shape) -> bool:
    """Whether rows and keys come and go one by one only where they may, and both of them under a window."""
    rolling = [phase for phase in form.phases if isinstance(phase, RollingTile)]
    if shape.keys_roll:
        return not rolling or len(rolling) == len(form.phases)
    return not any(phase.across or not shape.rows_roll for phase in rolling)


def exceeds(floor: float, limit: float) -> bool:
    """Whether nothing with such a floor stays within a limit; floors in floating point are off by less than 1e-12."""
    return floor > limit if type(floor) is int else floor * (1 - 1e-12) > limit


def best_tiles(problems: Problems, dataflow: Dataflow, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words; None if none fits."""
    best = best_of_forms(problems, allowed_forms(problems, dataflow), fast_words - problems.held_words)
    return best if best is None else MovingTiles(best.moved_words + problems.loaded_once, best.tiles)


def best_of_forms(problems: Problems, forms: tuple[Form, ...], fast_words: int) -> MovingTiles | None:
    """Tiles of any of these forms that move the fewest words; None if none fits."""
    if not forms:
        return None
    if len(forms) == 1:
        return best_of_form(problems, forms[0], fast_words)
    best: tuple[int, int, int, MovingTiles] | None = None
    for floor, place in sorted((floor_of_form(problems, form, fast_words), place) for place, form in enumerate(forms)):
        if best is not None and exceeds(floor, best[0]):
            break
        offered = best_of_form(problems, forms[place], fast_words, None if best is None else best[0])
        if offered is not None:
            fewest = forms[place].fewest
            merit = offered.moved_words, offered.tiles[fewest] if fewest else 0, place
            best = (*merit, offered) if best is None or merit < best[:3] else best
    return None if best is None else best[3]
