"""Best tiles of any exact dataflow, and which dataflows can move the least at all."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from attenio.planning.plan import Dataflow, MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.kinds import Kind, is_for, makes_single_scores
from attenio.planning.problems.tile_sizes import keeps_to_granularity
from attenio.planning.search.forms import best_of_form, floor_of_form
from attenio.planning.words.dataflows import known_forms
from attenio.planning.words.form import CountSum, Form, Sizes, least_of
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


def contenders(direction: Direction) -> tuple[Dataflow, ...]:
    """The dataflows of a direction that can move the least, in the order in which equals are preferred."""
    return BACKWARD_CONTENDERS if direction is Direction.BACKWARD else CONTENDERS


class Entrant(NamedTuple):
    """A form of a dataflow, its place in the order of preference, and whether it stores scores for products."""

    rank: int
    dataflow: Dataflow
    form: Form
    spills: bool


class Entrants(NamedTuple):
    """Forms of every contender, in their order, and a sum that no form which spills goes below, whatever its tiles."""

    of_each: tuple[tuple[Entrant, ...], ...]
    spilled: CountSum


def entrants_of(direction: Direction, problems: Problems) -> Entrants:
    """The forms of every contender that these problems allow.

    Not two passes without slots where no heads share what passes: with slots they take no more room, and read no more.
    Nor flash-attention-1 there: kept rows pass by the same keys with less room.
    """
    if problems.granularity.is_free:
        return _free_entrants(direction, problems.sizes, problems.counts.kind)
    return _ranked([allowed_forms(problems, dataflow) for dataflow in contenders(direction)], direction, problems.sizes)


@lru_cache(maxsize=1024)
def _free_entrants(direction: Direction, sizes: Sizes, kind: Kind) -> Entrants:
    forms = {dataflow: _forms_for(dataflow, sizes, kind, True) for dataflow in contenders(direction)}
    if direction is Direction.BACKWARD and sizes.group == 1:
        forms[Dataflow.TWO_PASS] = forms[Dataflow.TWO_PASS][1:]
    if direction is not Direction.BACKWARD and sizes.group == 1:
        forms[Dataflow.FLASH_ATTENTION_1] = ()
    return _ranked(forms.values(), direction, sizes)


def _ranked(forms: Iterable[tuple[Form, ...]], direction: Direction, sizes: Sizes) -> Entrants:
    ranks, names = count(), contenders(direction)
    of_each = tuple(
        tuple(Entrant(next(ranks), dataflow, form, form.products > 0) for form in every)
        for dataflow, every in zip(names, forms, strict=True)
    )
    once = sizes.scores * (sizes.group * sizes.intermediate_words)
    spilled = [each.form.fixed + once * each.form.products for every in of_each for each in every if each.spills]
    return Entrants(of_each, least_of(spilled))


def allowed_forms(problems: Problems, dataflow: Dataflow) -> tuple[Form, ...]:
    """The forms for problems of this kind whose tiles of one size keep to the granularity."""
    free = problems.granularity.is_free
    forms = _forms_for(dataflow, problems.sizes, problems.counts.kind, free)
    if free:
        return forms
    forms = in_units(dataflow, forms)
    return tuple(f for f in forms if not f.constant or keeps_to_granularity(problems, Tiles(f.constant)))


def in_units(dataflow: Dataflow, forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """Those of these forms that matrix units compute, with tiles of whole units."""
    by_elements = dataflow is Dataflow.SCORE_STATIONARY  # no unit multiplies with one element at a time
    return tuple(
        form for form in forms if not (makes_single_scores(form) or (by_elements and form.names[0] == "resident_rows"))
    )


@lru_cache(maxsize=4096)
def _forms_for(dataflow: Dataflow, sizes: Sizes, kind: Kind, free: bool) -> tuple[Form, ...]:
    forms = tuple(form for form in known_forms(dataflow, sizes) if is_for(form, kind, free))
    # a slot takes no more room than a tile of keys beside scores of all rows, and reads no more
    return (forms[0], *forms[2:]) if free and dataflow is Dataflow.QUERY_STATIONARY else forms


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
