"""Plans for three and more levels of memory: tiles within tiles."""

from attenio.planning.nested.plan import LevelTiles, NestedPlan
from attenio.planning.nested.search import nested_plan, nested_plan_with

__all__ = ["LevelTiles", "NestedPlan", "nested_plan", "nested_plan_with"]
