"""The exact words that each dataflow of a weight gradient moves and holds, as phases one after the other.

resident-keys      the compulsory words
resident-rows      2nd + sweep with 2d² + 4d²w a tile of rows, less 4d²w for the first, and 2d²
fused              the same, and 2nd again
fused-projections  2nd + 2ndw + sweep with 2d² a tile, update
one-pass           projection, 4ndw + sweep, update
two-pass           projection, 2ndw + 2nw + 2dU(a), 4ndw + 2nw + 2dU(p), update
tiled-products     projection in tiles, four phases over scores, update
"""

from typing import NamedTuple, assert_never

from attenio.errors import InvalidInput
from attenio.planning.costs import Cost
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.counts import PatternCounts
from attenio.planning.words.form import Form, Held, Product, Rectangle, RowTile, Sizes
from attenio.weight_gradient.phases import OverScores, Phase, Projection, ResidentKeys, ResultTile, Sweep
from attenio.weight_gradient.plan import WeightDataflow
from attenio.weight_gradient.workload import WeightGradient


class WeightForm(NamedTuple):
    """Phases of a dataflow, and the words that no tile changes."""

    phases: tuple[Phase, ...]
    fixed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tiles, in order."""
        return tuple(name for phase in self.phases for name in phase.names)

    def cost(self, tiles: Tiles) -> Cost:
        """Words moved, and words held in the largest phase."""
        moved = self.fixed + sum(phase.moved_words(tiles) for phase in self.phases)
        return Cost(moved_words=moved, peak_words=max(phase.peak_words(tiles) for phase in self.phases))

    def best_tiles(self, fast_words: int) -> Tiles | None:
        """Tiles that move the fewest words, or None if none fits."""
        sizes: dict[str, int] = {}
        for phase in self.phases:
            best = phase.best_sizes(fast_words)
            if best is None:
                return None
            sizes |= zip(phase.names, best, strict=True)
        return Tiles.of(**sizes)


def weight_cost(workload: WeightGradient, dataflow: WeightDataflow | str, tiles: Tiles) -> Cost:
    """What a dataflow moves and holds with these tiles, without running it.

    >>> weight_cost(WeightGradient(n=4096, d=64), "fused", Tiles.of(query_tile=512, key_tile=1))
    Cost(moved_words=5431296, peak_words=166528)
    """
    chosen = WeightDataflow.named(dataflow)
    form = weight_form(problems_of(workload), chosen)
    if set(tiles) != set(form.names):
        raise InvalidInput(f"{chosen.value} takes the tiles {', '.join(form.names)}; got {', '.join(tiles) or 'none'}")
    for name, size in tiles.items():
        if size < 1:
            raise InvalidInput(f"{name} is {size:,}; it must be at least 1")
    return form.cost(tiles)


def problems_of(workload: WeightGradient) -> Problems:
    """The one problem that a weight gradient is: its needed rows and keys."""
    return Problems(
        counts=PatternCounts(((workload.pattern, 1),)),
        runs=1,
        group=1,
        d=workload.d,
        value_dim=workload.d,
        intermediate_words=workload.accumulator_words,
    )


def weight_form(problems: Problems, dataflow: WeightDataflow) -> WeightForm:
    """The phases of a dataflow for these problems."""
    n, m, d, w = problems.counts.rows, problems.counts.most_keys, problems.d, problems.intermediate_words
    # Two projections, three sums and four statistics a row; a key and its value.
    sweep = Held(per_score=w, per_row=5 * d * w + 4 * w, per_key=2 * d)
    with_rows = sweep._replace(per_row=sweep.per_row + 2 * d)
    weights, update = d * d * (2 + 4 * w), _update(problems)
    match dataflow:
        case WeightDataflow.RESIDENT_KEYS:
            held = with_rows._replace(per_key=0, beside=2 * m * d + 2 * d * d * (1 + w))
            return WeightForm((ResidentKeys(problems, held),))
        case WeightDataflow.RESIDENT_ROWS:
            return WeightForm((Sweep(problems, with_rows, weights),), 2 * n * d + 2 * d * d - 4 * d * d * w)
        case WeightDataflow.FUSED:
            return WeightForm((Sweep(problems, sweep, weights),), 4 * n * d + 2 * d * d - 4 * d * d * w)
        case WeightDataflow.FUSED_PROJECTIONS:
            return WeightForm((Sweep(problems, sweep, 2 * d * d), update), 2 * n * d + 2 * n * d * w)
        case WeightDataflow.ONE_PASS:
            rows = RowTile("query_tile", "key_tile", sweep, loads=2 * d)
            over = OverScores(problems, Form(("query_tile", "key_tile"), (rows,), Sizes.rows * (4 * d * w)))
            return WeightForm((Projection(problems), over, update))
        case WeightDataflow.TWO_PASS:
            return WeightForm((Projection(problems), _two_passes(problems), update))
        case WeightDataflow.TILED_PRODUCTS:
            return WeightForm((_tiled_projection(problems), _spilled_scores(problems), update))
        case _:
            assert_never(dataflow)


def _two_passes(problems: Problems) -> OverScores:
    """A forward pass that leaves E and statistics, and a second one that makes G."""
    d, w = problems.d, problems.intermediate_words
    first = Held(per_score=w, per_row=2 * d * w + 3 * w, per_key=d)
    second = Held(per_score=w, per_row=3 * d * w + 4 * w, per_key=2 * d)
    phases = (
        RowTile("query_tile", "key_tile", first, loads=2 * d),
        RowTile("gradient_rows", "gradient_keys", second, loads=2 * d),
    )
    names = ("query_tile", "key_tile", "gradient_rows", "gradient_keys")
    return OverScores(problems, Form(names, phases, Sizes.rows * (6 * d * w + 4 * w)))


def _spilled_scores(problems: Problems) -> OverScores:
    """S, E, dS and G one after the other; scores S and their gradients dS are written and read.

    S    T(a,b) d w + U(a) d + Z w + 2 n w                 a'b'w + 3 a'w + 1
    E    Z ceil(d/c) w + U(p) d + 2 n w + n d w            p'c'w + 3 p'w + 1
    dS   T(a,b) d w + U(a) d + 2 Z w + 2 n w + 2 n d w     a'b'w + 4 a'w + w + 1
    G    Z ceil(d/c) w + U(p) d + n d w                    p'c'w + p'w + 1
    """
    d, w = problems.d, problems.intermediate_words
    scores = Held(per_score=w, per_row=3 * w, beside=1)
    gradients = Held(per_score=w, per_row=4 * w, beside=1 + w)
    phases = (
        Rectangle("score_rows", "score_keys", (scores,), visits=d * w, loads=d),
        Product("output_rows", "output_columns", width=d, extra=3),
        Rectangle("gradient_rows", "gradient_keys", (gradients,), visits=d * w, loads=d),
        Product("query_rows", "query_columns", width=d, extra=1),
    )
    tiles = ("score_rows", "score_keys", "output_rows", "output_columns")
    names = (*tiles, "gradient_rows", "gradient_keys", "query_rows", "query_columns")
    return OverScores(problems, Form(names, phases, Sizes.scores * (3 * w) + Sizes.rows * (6 * w + 4 * d * w)))


def _tiled_projection(problems: Problems) -> ResultTile:
    """Q and B, with a tile of them resident while rank-one updates stream past."""
    n, d, w = problems.counts.rows, problems.d, problems.intermediate_words
    names = ("projection_rows", "projection_columns")
    return ResultTile(problems, names, height=n, left=n * d, right=d * d, results=n * d * w, passing=1)


def _update(problems: Problems) -> ResultTile:
    """Both weight gradients, with a tile of them resident while rows of elements and intermediates stream past."""
    n, d, w = problems.counts.rows, problems.d, problems.intermediate_words
    names = ("weight_rows", "weight_columns")
    return ResultTile(problems, names, height=d, left=n * d, right=n * d * w, results=d * d, passing=w)
