"""Plan the attention of a long prompt: what must move, what the best plan moves, and how far apart they are."""

from attenio import Workload, best_plan, lower_bounds
from attenio.bounds import largest_ordinary
from attenio.catalogue import machine_named

workload = Workload(n=131072, d=64)
machine = machine_named("attenio-512k")

bound = largest_ordinary(lower_bounds(workload, machine))
plan = best_plan(workload, machine)

print(f"{workload} on {machine.name}")
print(f"at least             {bound.words:>13,} words ({bound.theorem}) for {bound.covers}")
print(f"{plan.dataflow.value:<19}  {plan.moved_words:>13,} words with {plan.tiles}")
print(f"gap                  {plan.moved_words / bound.words:>13.4f}")
