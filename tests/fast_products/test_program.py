import numpy as np
import pytest
from hypothesis import given

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.fast_products.compression import compress as compress_epoch
from attenio.fast_products.compression import epochs, random_elements, recover
from attenio.fast_products.product import classical_product, random_factors, strassen_product
from attenio.fast_products.program import program_of
from attenio.fast_products.shape import Shape
from attenio.planning import Dataflow, best_plan_for
from attenio.workload import Workload

from .schedules import LAWS, Schedule, field_product, most_live_words, schedules


@LAWS
@given(schedules())
def test_a_program_never_needs_more_words_at_once_than_the_run_took(schedule: Schedule) -> None:
    assert most_live_words(schedule.program) <= schedule.fast_words


@LAWS
@given(schedules())
def test_a_whole_program_makes_every_score_explicit_from_nothing_but_the_inputs(schedule: Schedule) -> None:
    (whole,) = epochs(schedule.program, moved_words=schedule.program.moved_words)[:1]
    Q, K = random_elements(schedule.shape, prime=97)
    assert whole.held == ()
    assert len(whole.loaded) == schedule.shape.input_words
    scores = np.full((schedule.shape.rows, schedule.shape.keys), -1)
    for entry, value in recover(compress_epoch(whole, Q, K, prime=97), whole).items():
        scores[entry] = value
    assert np.array_equal(scores, field_product(Q, K, 97))


def test_a_program_moves_the_words_of_its_run() -> None:
    factors = random_factors(Shape(rows=7, keys=5, depth=6))
    for run in (
        strassen_product(*factors, fast_words=9, levels=2, record=True),
        classical_product(*factors, fast_words=9, record=True),
    ):
        assert program_of(run.trace, depth=6).moved_words == run.moved_words


def test_what_cannot_be_followed_word_by_word_is_refused() -> None:
    factors = random_factors(Shape(rows=3, keys=3, depth=2))
    with pytest.raises(InvalidInput, match="record=True"):
        program_of(classical_product(*factors, fast_words=9).trace, depth=2)
    for workload in (Workload(n=4, d=2, heads=2), Workload(n=4, d=2, mask="causal")):
        plan = best_plan_for(workload, 40, dataflow=Dataflow.RANK_ONE_TILING)
        with pytest.raises(InvalidInput, match="one dense head"):
            program_of(execute(plan, record=True).trace, depth=2)
