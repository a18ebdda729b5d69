"""The least cost by integer programming: phases between moves, budgets from below, impossible bursts cut off.

The program of ``model`` asks for phases within a budget of words. It starts at the compulsory words and the
budget grows only when the solver has shown that nothing fits in it. A solution is played only if every burst in it has
an order; otherwise the reason, which holds for every schedule, is added and the program solved again. Three facts make
the lower bound a bound: every schedule has a form with phases that satisfies the program; within a budget it cannot
have more phases than the program has; and no schedule breaks an added reason. How often values are computed inside a
burst is not limited, so recomputation is not either. A bound is as good as the solver's word that nothing fits.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> solution = cp_sat(Game(graph=graph, red=3))
>>> solution.cost_words, solution.lower_bound_words, solution.ending.value
(3, 3, 'proven')
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attenio.errors import InvalidInput
from attenio.pebbling.checking import check
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.schedule import Schedule
from attenio.pebbling.solution import Ending, Solution
from attenio.pebbling.solving.automorphisms import Link, chain
from attenio.pebbling.solving.cp_sat.bursts import Burst, order_once, why_not_once
from attenio.pebbling.solving.cp_sat.phases import Item, Phase, Task, moves_of
from attenio.pebbling.solving.cp_sat.regression import Change, order_again, why_not_again
from attenio.pebbling.solving.first_schedule import compile_first_schedule, first_schedule

Progress = Callable[[int, int], None]

# Shuffled orders of which the cheapest is to beat.
_ORDERS = 100


class _OutOfTimeError(Exception):
    """The time limit has passed."""


@dataclass
class _Search:
    """What is known so far."""

    task: Task
    best: Schedule
    upper: int
    lower: int
    deadline: float
    workers: int
    seed: int
    progress: Progress | None
    links: list[Link] = field(default_factory=list)
    clauses: list[Any] = field(default_factory=list)
    solved: int = 0

    def left_s(self) -> float:
        """Seconds to the deadline; raises when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise _OutOfTimeError
        return left

    def report(self) -> None:
        if self.progress is not None:
            self.progress(self.lower, self.upper)


def cp_sat(
    game: Game,
    *,
    time_limit_s: float = 60.0,
    workers: int = 2,
    seed: int = 0,
    progress: Progress | None = None,
    upper: Schedule | None = None,
) -> Solution:
    """The least cost of a game with a schedule, or the best schedule and a proven lower bound when the time is up.

    ``progress`` is told the proven lower bound and the cost of the best schedule. ``upper`` is a schedule to beat.
    ``explored`` of the solution counts the integer programs solved.
    """
    if not time_limit_s > 0:
        raise InvalidInput(f"a time limit of {time_limit_s:g} s; give a number above 0")
    compile_first_schedule()
    began = time.monotonic()
    task = Task.of(game)
    known = [] if upper is None else [upper]
    if upper is not None and not check(game, upper).legal:
        raise InvalidInput(f"the schedule to beat is illegal: {check(game, upper).complaint}; give a legal one")
    first = first_schedule(game, shuffled=_ORDERS, seed=seed, deadline=began + time_limit_s / 10)
    candidates = [*known, first] if task.items else [Schedule.of([])]
    best = min(candidates, key=lambda schedule: schedule.cost_words(game.graph))
    search = _Search(
        task=task,
        best=best,
        upper=best.cost_words(game.graph),
        lower=game.graph.compulsory_words,
        deadline=began + time_limit_s,
        workers=workers,
        seed=seed,
        progress=progress,
    )
    ending = Ending.PROVEN
    try:
        if search.lower < search.upper:
            search.links = chain(game.graph, task.vertices, tick=search.left_s)
        while search.lower < search.upper:
            search.report()
            _raise_or_finish(search)
        search.report()
    except _OutOfTimeError:
        ending = Ending.TIME
    except KeyboardInterrupt:
        ending = Ending.INTERRUPTED
    return Solution(
        game=game,
        schedule=search.best,
        cost_words=search.upper,
        lower_bound_words=search.lower,
        ending=Ending.PROVEN if search.lower == search.upper else ending,
        engine="cp-sat",
        seconds=time.monotonic() - began,
        explored=search.solved,
    )


def _raise_or_finish(search: _Search) -> None:
    """Solve programs at one budget until none fits in it or a schedule is found."""
    from attenio.pebbling.solving.cp_sat.model import PhaseProgram

    task = search.task
    weights = {task.weights[v] for v in task.vertices}
    step = math.gcd(*weights)
    # Costs are multiples of the step; with unequal weights the program looks one light move ahead and minimises.
    budget = search.lower if len(weights) == 1 else min(search.upper - 1, search.lower + min(weights))
    program = PhaseProgram(task, budget, search.links, search.left_s)
    for clause in search.clauses:
        program.exclude(clause)
    while True:
        solution = _solve(search, program)
        if solution is None:
            search.lower = min(search.upper, budget - budget % step + step)
            return
        phases, least = solution
        search.lower = max(search.lower, least)
        orders = _orders(search, phases)
        if all(order is not None for order in orders):
            schedule = moves_of(task, phases, [order for order in orders if order is not None])
            search.best, search.upper = schedule, schedule.cost_words(task.game.graph)
            return
        for phase, order in zip(phases, orders, strict=True):
            if order is None:
                for clause in _reasons(search, phase):
                    search.clauses.append(clause)
                    program.exclude(clause)


def _solve(search: _Search, program: Any) -> tuple[list[Phase], int] | None:
    """The phases of a solution and the least cost proven, or None if the program has no solution."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = search.left_s()
    solver.parameters.num_workers = search.workers
    # The linear relaxation of these programs says nothing and costs most of the time.
    solver.parameters.linearization_level = 0
    if search.workers > 1:
        solver.parameters.subsolvers.extend(["no_lp", "quick_restart_no_lp", "default_lp", "quick_restart"])
    solver.parameters.random_seed = search.seed
    # The solver's own handler would swallow Ctrl-C; ours stops it and keeps what is known.
    solver.parameters.catch_sigint_signal = False
    status: list[Any] = []
    done = threading.Event()

    def solve() -> None:
        try:
            status.append(solver.solve(program.model))
        finally:
            done.set()

    threading.Thread(target=solve, daemon=True).start()
    try:
        # Waiting for the thread itself would not do: a join that is interrupted takes it for ended when it is not.
        while not done.wait(0.2):
            pass
    except KeyboardInterrupt:
        solver.stop_search()
        done.wait()
        raise
    search.solved += 1
    if status[0] == cp_model.INFEASIBLE:
        return None
    if status[0] in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        proven = program.model.has_objective()
        least = math.ceil(solver.best_objective_bound - 1e-6) if proven else 0
        return program.phases(solver.boolean_value), least
    if status[0] == cp_model.UNKNOWN:
        raise _OutOfTimeError
    raise AssertionError(f"the program is {solver.status_name(status[0])}: {program.model.validate()}")


def _orders(search: _Search, phases: list[Phase]) -> list[list[Item] | None]:
    task = search.task
    orders: list[list[Item] | None] = []
    for phase in phases:
        if task.game.variant is Variant.STANDARD:
            again = order_again(task, Change.of(phase.start, phase.end, phase.stores), search.left_s)
            parents = task.game.graph.parents
            orders.append(None if again is None else [Item(v, parents[v]) for v in again])
        else:
            orders.append(order_once(task, Burst.of(phase.items, phase.start, phase.end), search.left_s))
    return orders


def _reasons(search: _Search, phase: Phase) -> list[Any]:
    """Clauses that exclude an impossible phase. What cannot be even with recomputing cannot be without it either."""
    from attenio.pebbling.solving.cp_sat.model import Clause

    task, clauses = search.task, []
    change = Change.of(phase.start, phase.end, phase.stores)
    if task.game.variant is not Variant.PARTIAL and order_again(task, change, search.left_s) is None:
        obstacle = why_not_again(task, change, search.left_s)
        clauses.append(Clause(kept=obstacle.end, stored=obstacle.stores, start=obstacle.start))
    if task.game.variant is not Variant.STANDARD:
        burst = Burst.of(phase.items, phase.start, phase.end)
        clauses.append(Clause.against(why_not_once(task, burst, search.left_s)))
    return clauses
