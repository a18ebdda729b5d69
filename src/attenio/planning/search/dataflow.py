"""Best tiles of any exact dataflow, and which dataflows can move the least at all."""

from attenio.planning.plan import Dataflow, MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.forms import best_of_form, floor_of_form
from attenio.planning.tile_sizes import keeps_to_granularity
from attenio.planning.words.dataflows import known_forms
from attenio.planning.words.form import Form
from attenio.workload import Direction

# In the order in which equals are preferred. The dataflows that are missing never move less than one that is here:
# flash-attention-2 needs more room than attenio for the same words; split-keys adds partial results to what
# stacked-groups (attenio, for single heads) moves; square-tiling's tiles fit rank-one-tiling with room to spare.
CONTENDERS = (
    Dataflow.ATTENIO,
    Dataflow.STACKED_GROUPS,
    Dataflow.FLASH_ATTENTION_1,
    Dataflow.FLAT,
    Dataflow.RANK_ONE_TILING,
    Dataflow.SCORE_STATIONARY,
    Dataflow.STANDARD,
)
BACKWARD_CONTENDERS = (
    Dataflow.TWO_PASS,
    Dataflow.KEY_STATIONARY,
    Dataflow.QUERY_STATIONARY,
    Dataflow.SPILLED_GRADIENTS,
    Dataflow.TILED_PRODUCTS,
    Dataflow.FUSED_VALUES,
)
# Floors in floating point are off by less than this factor.
_ROUNDING = 1 - 1e-12


def contenders(direction: Direction) -> tuple[Dataflow, ...]:
    """The dataflows of a direction that can move the least, in the order in which equals are preferred."""
    return BACKWARD_CONTENDERS if direction is Direction.BACKWARD else CONTENDERS


def floor_words(problems: Problems, dataflow: Dataflow, fast_words: int) -> float:
    """Words that no tiles which fit go below; infinite if none fits."""
    forms = known_forms(problems, dataflow)
    if len(forms) == 1:
        return floor_of_form(problems, forms[0], fast_words)
    return min(floor_of_form(problems, form, fast_words) for form in forms if _allowed(problems, form))


def fixed_words(problems: Problems, dataflow: Dataflow) -> int:
    """Words that no tiles go below, at once: those that no tile changes."""
    return int(problems.runs * min([form.fixed for form in known_forms(problems, dataflow)]))


def best_tiles(problems: Problems, dataflow: Dataflow, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words; None if none fits, and perhaps if none stays within ``limit``."""
    forms = [form for form in known_forms(problems, dataflow) if _allowed(problems, form)]
    if len(forms) == 1:
        return best_of_form(problems, forms[0], fast_words, limit)
    ranked = sorted((floor_of_form(problems, form, fast_words), place) for place, form in enumerate(forms))
    best: tuple[int, int, int, MovingTiles] | None = None
    for floor, place in ranked:
        if limit is not None and floor * _ROUNDING > limit:
            break
        found = best_of_form(problems, forms[place], fast_words, limit)
        if found is not None:
            fewest = forms[place].fewest
            merit = found.moved_words, found.tiles[fewest] if fewest else 0, place
            best = (*merit, found) if best is None or merit < best[:3] else best
            limit = best[0] if limit is None else min(limit, best[0])
    return None if best is None else best[3]


def _allowed(problems: Problems, form: Form) -> bool:
    """Whether the tiles of one size keep to the granularity."""
    return not form.constant or keeps_to_granularity(problems, Tiles(form.constant))
