"""Better orders from good ones: stretches of operations move to where they cost less.

A stretch of an order may move as far as what it depends on, and what depends on it, allow. A move that costs no more is
kept, and now and then one that costs a little more, less often as time goes on [Kirkpatrick, Gelatt, Vecchi 1983].
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

from math import exp, log

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.scheduling.eviction import cost_of, starting_values, words_moved
from attenio.pebbling.scheduling.orders import makers_of
from attenio.pebbling.scheduling.program import Numbers, Program

# Temperatures in words: at first one or two words more are often taken, at the end hardly ever.
_HOT, _COLD = 1.0, 0.05
_OPERATIONS_A_ROUND = 100_000


class Annealing:
    """Rounds of random moves on one order; the best order so far is always at hand."""

    def __init__(self, program: Program, order: Numbers, *, reluctance: float, moves: int, seed: int) -> None:
        self._program, self._reluctance, self._seed = program, reluctance, seed
        self._makers = makers_of(program)
        self._now = order.copy()
        self._values = starting_values(program)
        self.moves_made = min(moves, 1 + _OPERATIONS_A_ROUND // len(order))
        self._rounds = moves // self.moves_made
        self._round = 0
        self.order = order
        self.cost = self._cost = cost_of(program, order, reluctance)

    @property
    def finished(self) -> bool:
        """Whether all rounds are over."""
        return self._round >= self._rounds

    def advance(self) -> None:
        """Play one round: ``moves_made`` moves, a fraction of a second."""
        share = self._round / max(1, self._rounds - 1)
        temperature = exp(log(_HOT) * (1 - share) + log(_COLD) * share)
        settings = self._cost, self._reluctance, temperature, self.moves_made, self._seed * 1_000_003 + self._round
        order, cost, self._cost = _anneal(self._program, self._makers, self._now, self._values, settings)
        if cost < self.cost:
            self.order, self.cost = order, int(cost)
        self._round += 1


@compiled
def _range(program, makers, order, place, begin, end):
    """Between which places the stretch of an order may lie: not before the first, not after the second."""
    maker_starts, maker_numbers = makers
    earliest, latest = 0, len(order)
    for step in range(begin, end):
        operation = order[step]
        for value in program.operands[program.operand_starts[operation] : program.operand_starts[operation + 1]]:
            for index in range(maker_starts[value], maker_starts[value + 1]):
                needed = place[maker_numbers[index]]
                if needed < begin and needed >= earliest:
                    earliest = needed + 1
        target = program.targets[operation]
        for user in program.users[program.user_starts[target] : program.user_starts[target + 1]]:
            if place[user] >= end and place[user] < latest:
                latest = place[user]
    return earliest, latest


@compiled
def _moved(order, begin, end, to):
    """The order with the stretch begin:end put before what is at ``to`` now."""
    new = order.copy()
    length = end - begin
    first, last = (to, begin) if to <= begin else (end, to)
    shift = length if to <= begin else -length
    for place in range(first, last):
        new[place + shift] = order[place]
    start = to if to <= begin else to - length
    for index in range(length):
        new[start + index] = order[begin + index]
    return new


@compiled
def _copy(source, target):
    """Copy an array into another: assigning slices also compiles messages for shapes that do not match."""
    for place in range(len(source)):
        target[place] = source[place]


@compiled
def _copy_rows(source, target):
    for row in range(len(source)):
        for column in range(source.shape[1]):
            target[row, column] = source[row, column]


@compiled
def _set_places(order, place):
    for index in range(len(order)):
        place[order[index]] = index


@called_from_python
def _anneal(program, makers, order, values, settings):
    cost, reluctance, temperature, moves, seed = settings
    np.random.seed(seed % 2**31)
    size = len(order)
    place = np.empty(size, np.int64)
    _set_places(order, place)
    best, best_cost = order.copy(), cost
    scratch = np.empty_like(values)
    for _ in range(moves):
        # Stretches of all lengths, short ones as likely as long ones.
        length = int(np.exp(np.random.random() * np.log(max(2.0, size / 2))))
        begin = np.random.randint(0, size - length + 1)
        earliest, latest = _range(program, makers, order, place, begin, begin + length)
        room = (begin - earliest) + (latest - begin - length)
        if room == 0:
            continue
        shift = np.random.randint(0, room)
        to = earliest + shift if shift < begin - earliest else begin + length + 1 + shift - (begin - earliest)
        new = _moved(order, begin, begin + length, to)
        _copy_rows(values, scratch)
        new_cost = words_moved(program, new, scratch, reluctance)
        if new_cost <= cost or np.random.random() < np.exp((cost - new_cost) / temperature):
            _copy(new, order)
            _set_places(order, place)
            cost = new_cost
            if cost < best_cost:
                _copy(order, best)
                best_cost = cost
    return best, best_cost, cost
