"""The compression argument on two runs: every epoch sent as a message, and every score read back from it.

>>> done = compression_experiment()
>>> all(row.recovered and row.floor_words <= row.message_words <= row.budget_words for row in done)
True
"""

from collections.abc import Iterator
from dataclasses import dataclass

from attenio.dataflows import execute
from attenio.fast_products.compression import compress_all, epochs, random_elements, recover
from attenio.fast_products.entropy import entry_mask, message_floor, published_floor
from attenio.fast_products.product import random_factors, strassen_product
from attenio.fast_products.program import Program, program_of
from attenio.fast_products.shape import Shape
from attenio.planning import Dataflow, best_plan_for
from attenio.workload import Workload

# Small enough to send every epoch; the field has more elements than a matrix has rows, so that nothing is lost to it.
_PRIME = 97


@dataclass(frozen=True, kw_only=True)
class CompressedEpoch:
    """One epoch of a run: its scores, the words from which they were read back, and how few words could do."""

    run: str
    number: int
    scores: int
    message_words: int
    budget_words: int  # fast memory and what the epoch moves: what the theorem allows a message
    floor_words: int  # no message for these scores is shorter
    published_floor_words: float  # the inequality as printed [Saha & Ye 2024, Thm 4.8]
    recovered: bool


def compression_experiment() -> tuple[CompressedEpoch, ...]:
    """Epochs of AttenIO's dataflow and of Strassen's product."""
    attention, product = Shape(rows=24, keys=24, depth=4), Shape(rows=12, keys=12, depth=12)
    plan = best_plan_for(Workload(n=24, d=4), 96, dataflow=Dataflow.ATTENIO)
    streamed = program_of(execute(plan, record=True).trace, depth=4)
    fast = strassen_product(*random_factors(product), fast_words=48, levels=1, record=True)
    return (
        *_sent("attenio's dataflow", streamed, attention, 96),
        *_sent("Strassen's product", program_of(fast.trace, depth=12), product, 48),
    )


def _sent(run: str, program: Program, shape: Shape, fast_words: int) -> Iterator[CompressedEpoch]:
    Q, K = random_elements(shape, prime=_PRIME)
    truth = Q @ K.T % _PRIME
    cut = epochs(program, moved_words=fast_words)
    for number, (epoch, message) in enumerate(zip(cut, compress_all(cut, Q, K, prime=_PRIME), strict=True)):
        if epoch.entries:
            read = recover(message, epoch)
            yield CompressedEpoch(
                run=run,
                number=number,
                scores=len(epoch.entries),
                message_words=len(message.words),
                budget_words=fast_words + epoch.moved_words,
                floor_words=message_floor(entry_mask(shape, epoch.entries), shape.depth, prime=_PRIME),
                published_floor_words=published_floor(len(epoch.entries), shape.depth),
                recovered=all(read[entry] == truth[entry] for entry in epoch.entries),
            )
