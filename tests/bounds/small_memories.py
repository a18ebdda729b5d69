"""What bounds of small fast memories are held against: the best whole epochs, and plans under three masks."""

from contextlib import suppress
from math import inf

import numpy as np
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.planning.training import training_plan_for
from attenio.workload import Direction, Workload

__all__ = ["best_whole_epochs", "few_positions", "moves_no_less_when_run"]


def best_whole_epochs(work: float, fast_words: int, longest: float = inf) -> float:
    """Words that the best of some whole numbers of epochs have, with up to the ``longest`` budget; 0 if none fits."""
    about = fast_words + 1 / max(12 * fast_words - 8, 4)
    near = np.unique(np.maximum(np.floor(work / about**1.5) + np.arange(-2, 4), 1))
    budgets = 3 * (work / near) ** (2 / 3)
    room = fast_words + np.where((budgets > 3) & (budgets + 1 <= longest), 1 / (4 * np.maximum(budgets - 2, 1)), 1)
    fits = (budgets > room) & (budgets <= longest)
    return float(np.where(fits, fast_words + near * (budgets - room), 0.0).max())


@st.composite
def few_positions(draw: st.DrawFn, one_pass: str, narrowest: int = 1, widest: tuple[int, int] = (12, 12)) -> Workload:
    """A pass, or a training step, over up to sixty positions."""
    return Workload(
        n=draw(st.integers(5, 60)),
        d=draw(st.integers(narrowest, widest[0])),
        value_dim=draw(st.integers(1, widest[1])),
        mask=draw(st.sampled_from(["dense", "causal", "window:5"])),
        direction=draw(st.sampled_from([one_pass, "training"])),
    )


def moves_no_less_when_run(workload: Workload, fast_words: int, words: int) -> None:
    """The best plan, where there is one, moves no fewer words than these; one of a single pass is executed."""
    with suppress(DoesNotFit):
        if workload.direction is Direction.TRAINING:
            assert words <= training_plan_for(workload, fast_words).moved_words
        else:
            plan = best_plan_for(workload, fast_words)
            assert words <= execute(plan).moved_words == plan.moved_words
