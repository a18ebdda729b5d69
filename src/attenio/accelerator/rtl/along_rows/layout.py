"""Where the words of a tile lie in the scratchpad: one region after the other."""

from dataclasses import dataclass

from attenio.accelerator.rtl.along_rows.operations import At
from attenio.accelerator.rtl.nest import Nest, Place
from attenio.accelerator.step import Engine, Operation
from attenio.errors import InvalidInput
from attenio.planning import Dataflow


@dataclass(frozen=True, kw_only=True)
class Layout:
    """First words of regions, by name, and the words between two rows of scores."""

    first: dict[str, int]
    words: int
    score_stride: int

    def at(self, region: str, word: int = 0, *, shifted: bool = False) -> At:
        """A word of a region."""
        return At(address=self.first[region] + word, shifted=shifted)


def layout_of(nest: Nest, dataflow: Dataflow, widths: tuple[int, int], macs: int) -> Layout:
    """Room for the largest tile of a program."""
    d, value_dim = widths
    steps = [place.step for places in nest.places.values() for place in places]
    for step in steps:
        if step.engine is Engine.HBM and step.operation is None:
            raise InvalidInput(
                f"the cache is too small for a row of scores, and {step.name!r} moves what does not stay: use a larger"
                " cache or fewer keys"
            )
    rows = max(step.rows for step in steps)
    keys = max([1, *(step.keys for step in steps if step.operation in (Operation.LOAD_KEYS, Operation.LOAD_VALUES))])
    complete = max([1, *(step.keys for step in steps if step.operation is Operation.EXPONENTIALS)])
    if dataflow is Dataflow.STANDARD:
        sizes = {
            "columns": max(step.rows + step.keys for step in steps),
            "outputs": max(step.rows * step.keys for step in steps if step.operation is Operation.STORE_TILE),
            "scores": complete,
        }
        rows = 1
    else:
        sizes = {"queries": rows * d, "keys": keys * d, "values": keys * value_dim, "outputs": rows * value_dim}
        sizes["scores"] = rows * complete
    for name in ("maxima", "old maxima", "factors", "sums", "row sums"):
        sizes[name] = rows
    sizes["temporary"] = rows * complete
    sizes["partial"] = 4 * macs
    first, words = {}, 0
    for name, size in sizes.items():
        first[name], words = words, words + size
    return Layout(first=first, words=words, score_stride=complete)


def words_of(place: Place, widths: tuple[int, int]) -> tuple[str, int]:
    """The region that a transfer fills or empties, and its words."""
    step, (d, value_dim) = place.step, widths
    match step.operation:
        case Operation.LOAD_QUERIES:
            return "queries", step.rows * d
        case Operation.LOAD_KEYS:
            return "keys", step.keys * d
        case Operation.LOAD_VALUES:
            return "values", step.keys * value_dim
        case Operation.LOAD_COLUMNS:
            return "columns", step.rows + step.keys
        case Operation.STORE_TILE:
            return "outputs", step.rows * step.keys
        case Operation.LOAD_SCORES:
            return "scores", step.keys
        case Operation.STORE_OUTPUTS if step.keys:
            return "scores", step.keys
        case _:
            assert step.operation is Operation.STORE_OUTPUTS
            return "outputs", step.rows * value_dim
