"""Execute a plan on a memory that refuses to overflow: the count agrees with the prediction to the word."""

from attenio import Machine, Workload, best_plan, execute

workload = Workload(n=300, d=32, mask="causal")
machine = Machine.with_fast_bytes(16 * 1024)

for dataflow in ("attenio", "flash-attention-2", "standard"):
    plan = best_plan(workload, machine, dataflow=dataflow)
    run = execute(plan, seed=1)
    assert run.max_abs_error < 1e-2, "fp16 outputs are that close to the float64 definition"
    print(f"{dataflow}: {plan.tiles}")
    print(f"  predicted {plan.moved_words:>9,} words moved, {plan.peak_words:>6,} held at most")
    print(f"  counted   {run.moved_words:>9,} words moved, {run.peak_words:>6,} held at most")
    print(f"  loaded {dict(sorted(run.trace.loads.items()))}, stored {dict(sorted(run.trace.stores.items()))}")
