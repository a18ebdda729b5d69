"""Decode with grouped queries: stacking the heads of a group reads every key once instead of eight times."""

from attenio import candidates
from attenio.catalogue import machine_named, model_named

workload = model_named("llama-3-70b").workload(n=65536, batch=16, decode=True)
machine = machine_named("h100")

print(f"{workload} on {machine.name}: at least {workload.compulsory_words:,} words")
for candidate in sorted(candidates(workload, machine), key=lambda c: c.plan.moved_words if c.plan else 0):
    if candidate.plan is not None and candidate.rule.value == "best":
        over = candidate.plan.moved_words / workload.compulsory_words
        print(f"{candidate.dataflow.value:<18}{candidate.plan.moved_words:>16,} words {over:8.4f}")
