"""Best form of the feature gradient: both states at once where they fit and may be, else one after the other."""

from attenio.planning.costs.backward.feature_gradient import moved_words, peak_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems


def best_tiles(problems: Problems, fast_words: int, degree: int) -> MovingTiles | None:
    """The form that moves the fewest words, or None if none fits.

    A state saved by the forward pass is not counted on: which forward pass there was is not known here.
    """
    for states in (2, 1) if problems.is_dense else (1,):
        tiles = Tiles.of(degree=degree, resident_states=states)
        if peak_words(problems, tiles) <= fast_words:
            return MovingTiles(moved_words(problems, tiles), tiles)
    return None
