"""Lower bounds of the gradient of attention and of a whole training step, one theorem a file."""

from attenio.bounds.backward.five_products import five_product_words, five_products
from attenio.bounds.backward.fused_epochs import fused_gradient_epochs, fused_gradient_words
from attenio.bounds.backward.gradient_rows import gradient_row_words, gradient_rows
from attenio.bounds.backward.li_liang import li_liang
from attenio.bounds.backward.nonzeros import nonzeros
from attenio.bounds.backward.passing_sums import passing_sum_words, passing_sums
from attenio.bounds.backward.step_in_order import step_in_order, words_in_order
from attenio.bounds.backward.whole_epochs import whole_gradient_epochs, whole_gradient_words
from attenio.bounds.floats import Floats, larger
from attenio.bounds.lower_bound import LowerBound
from attenio.workload import Workload

__all__ = [
    "five_product_words",
    "five_products",
    "gradient_bounds",
    "gradient_words",
    "growth_of_gradients",
    "passing_sum_words",
    "passing_sums",
    "step_in_order",
    "words_in_order",
]


def gradient_bounds(workload: Workload, fast_words: int, *, units: int = 1) -> tuple[LowerBound, ...]:
    """The ordinary bounds of a backward pass or a training step, whatever the forward pass has saved."""
    return (
        gradient_rows(workload, fast_words, units=units),
        fused_gradient_epochs(workload, fast_words, units=units),
        *((whole_gradient_epochs(workload, fast_words),) if units == 1 else ()),
    )


def growth_of_gradients(workload: Workload, fast_words: int) -> tuple[LowerBound, ...]:
    """The published growth of a backward pass, for dense rows and for sparse inputs."""
    return li_liang(workload, fast_words), nonzeros(workload, fast_words)


def gradient_words(
    scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0, *, step: bool = False
) -> Floats:
    """The largest of these bounds, for floats or arrays of floats; ``step`` asks about a training step."""
    rows = gradient_row_words(scores, d, value_dim, fast_words, units, step=step)
    fused = fused_gradient_words(scores, d, value_dim, fast_words, units)
    whole = whole_gradient_words(scores, d, value_dim, fast_words, units, step=step)
    return larger(rows, larger(fused, whole))
