"""No schedule that moves whole rows and keys beats the best plan: small games solved over all of their positions."""

import pytest

from attenio.planning import best_plan_for
from attenio.workload import Workload

from .row_games import RowGame


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4)])
@pytest.mark.parametrize(("rows", "keys"), [(1, 4), (2, 3), (3, 2), (3, 3), (4, 2), (2, 5)])
def test_no_legal_row_granular_schedule_moves_less_than_the_best_plan(rows, keys, d, dv):
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv)
    row, key = d + dv + 2, d + dv  # a row has a maximum and a sum; one score and its maximum are in hand
    least, most = row + key + 2, rows * row + keys * key + 2
    for fast_words in range(least, most, max(1, (most - least) // 6)):
        game = RowGame(
            rows=rows, keys=keys, fast_words=fast_words - 2, row_words=row, key_words=key, key_cost=key,
            first_arrival=d, return_words=d + dv + 2, leave_words=dv + 2, final_words=dv,
        )  # fmt: skip
        assert best_plan_for(workload, fast_words).moved_words <= game.optimum()


@pytest.mark.parametrize(("n", "window", "fast_words"), [(4, 2, 16), (5, 2, 16), (4, 2, 24), (4, 3, 16)])
def test_nor_under_a_window(n, window, fast_words):
    d, needed = 3, tuple(sum(1 << j for j in range(max(0, i - window + 1), i + 1)) for i in range(n))
    game = RowGame(
        rows=n, keys=n, fast_words=fast_words - 2, row_words=2 * d + 2, key_words=2 * d, key_cost=2 * d, needed=needed,
        first_arrival=d, return_words=2 * d + 2, leave_words=d + 2, final_words=d,
    )  # fmt: skip
    workload = Workload(n=n, d=d, mask=f"window:{window}")
    assert best_plan_for(workload, fast_words).moved_words <= game.optimum()


def test_one_pass_less_would_be_found_by_the_search():
    game = RowGame(
        rows=3, keys=3, fast_words=3, row_words=1, key_words=1, key_cost=2,
        first_arrival=1, return_words=2, leave_words=1, final_words=1,
    )  # fmt: skip
    assert game.optimum() == 12 + 4  # two keys come twice; with a slot more nothing would
