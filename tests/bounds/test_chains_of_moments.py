"""Rows that come and go one after another: the steps of that proof of single stays, on random runs."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from .random_runs import Name
from .test_single_stays import Moment, WatchedRun, singles


@dataclass
class Chain:
    """Times after each of which more rows have departed, and the rows that tell the parts between them apart."""

    times: list[int] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)  # the last ones are late at the last of the times
    end: int | None = None  # a time more, at which the rows that are left are there


def chain_of(run: WatchedRun, single: dict[Name, int], departed: int, late: int) -> Chain | None:
    """The chain of a run, as the proof finds it; none if rows gather, or the run ends before they have left."""
    names = [{word.name for word in held} for held in run.held]
    steps = range(len(names))
    came = {name: next(at for at in steps[load:] if name in names[at]) for name, load in single.items()}
    left = {
        name: next((at for at in steps[first:] if name not in names[at]), len(steps)) for name, first in came.items()
    }
    gone = [{name[1] for name, last in left.items() if last <= at} for at in steps]
    to_come = [{name[1] for name, first in came.items() if first > at} for at in steps]
    then = next((at for at in steps if len(gone[at]) >= departed), None)
    if then is None or len(to_come[then]) < late:
        return None
    chain, used = Chain([then], [sorted(gone[then])]), gone[then]
    while True:
        waiting = to_come[then] - used
        if len(waiting) < departed:
            break
        after = next((at for at in steps if len(gone[at] & waiting) >= departed), None)
        if after is None:
            return None
        passed = gone[after] & waiting
        if len(to_come[after] - used - passed) < late:
            chain.end = max(at for at in range(then, after + 1) if len(to_come[at]) >= late)
            break
        then, used = after, used | passed
        chain.times.append(then)
        chain.rows.append(sorted(passed))
    chain.rows.append(sorted(waiting)[:late])
    return chain


@pytest.mark.parametrize("half", [0, 1])
def test_every_row_is_there_at_one_time_of_a_chain_and_keys_come_again_after_each(half: int) -> None:
    chains = 0
    for seed in range(half, 400, 2):
        random = np.random.default_rng(seed)
        n, m, d, dv = (int(random.integers(low, high)) for low, high in [(4, 11), (2, 4), (1, 3), (1, 3)])
        fast_words = int(random.integers(6, m * (d + dv) + 12))
        n, m = (n, m) if random.random() < 0.5 else (m, n)
        run = WatchedRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.5, 1.0]))).seen()
        departed, late = (int(each) for each in random.choice(np.array([1, 1, 2]), 2))
        for rows, others, many in (("q", "kv", m), ("k", "qo", n)):
            single = {name: at for name, at in singles(run).items() if name[0] == rows}
            chain = chain_of(run, single, departed, late)
            if chain is None:
                continue
            ends = [*chain.times, *(() if chain.end is None else (chain.end,))]
            there = sum(name in {word.name for word in run.held[at]} for name in single for at in ends)
            left_out = (len(chain.times) + 1) * departed - 1 + (0 if chain.end is None else late)
            assert there >= len(single) - left_out * d
            if len(chain.times) > 1:
                every_other_comes_again(run, chain, others, many)
                chains += 1
    assert chains > 15


def every_other_comes_again(run: WatchedRun, chain: Chain, others: str, many: int) -> None:
    """Each time at which an entry is away is a further stay, but for a part that its key misses with open pairs."""
    loads = Counter(word.name for done, word in run.steps if done == "load")
    moments = [Moment(run, at) for at in chain.times]
    for other in range(many):
        missed = {"ov": 0, "qk": 0}  # a late row needs all outputs or values after it is late, open pairs or not
        for part, rows in enumerate(chain.rows):
            pairs = [(row, other) if others == "kv" else (other, row) for row in rows]
            ends = [moments[at].open for at in (part - 1, part) if 0 <= at < len(moments)]
            missed["qk"] += all(any(pair in each for each in ends) for pair in pairs)
            missed["ov"] += part < len(moments) and moments[part].open.issuperset(pairs)
        for kind in others:
            for column in range(run.dv if kind in "ov" else run.d):
                name = (kind, other, 0, column)
                away = sum(name not in moment.names for moment in moments)
                assert loads[name] - (kind != "o") >= away - missed["ov" if kind in "ov" else "qk"]
