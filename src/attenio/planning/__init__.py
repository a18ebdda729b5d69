"""Plans: closed-form costs of every dataflow and the search for the best tiles."""

from attenio.planning.best import (
    Candidate,
    best_plan,
    best_plan_for,
    candidates,
    candidates_for,
    plan_of_tiles,
    plan_with,
    published_plan,
    published_plan_for,
)
from attenio.planning.costs import Cost, cost
from attenio.planning.nested import LevelTiles, NestedPlan, nested_plan, nested_plan_with
from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
from attenio.planning.sweeping import SweepGrid, SweepResult, sweep
from attenio.planning.training import (
    Saved,
    TrainingCandidate,
    TrainingPlan,
    training_candidates,
    training_candidates_for,
    training_plan,
    training_plan_for,
)

__all__ = [
    "Candidate",
    "Cost",
    "Dataflow",
    "LevelTiles",
    "NestedPlan",
    "Plan",
    "Saved",
    "SweepGrid",
    "SweepResult",
    "TileRule",
    "Tiles",
    "TrainingCandidate",
    "TrainingPlan",
    "best_plan",
    "best_plan_for",
    "candidates",
    "candidates_for",
    "cost",
    "nested_plan",
    "nested_plan_with",
    "plan_of_tiles",
    "plan_with",
    "published_plan",
    "published_plan_for",
    "sweep",
    "training_candidates",
    "training_candidates_for",
    "training_plan",
    "training_plan_for",
]
