"""What XLA makes of JAX's attention over virtual devices, tokens sharded: the collectives it compiled, counted."""

import re
from typing import Any

from executor_peers import Problem

_BYTES = {"bf16": 2, "f32": 4, "f16": 2, "pred": 1, "s32": 4, "u32": 4}


def jax_found(problem: Problem, ranks: int) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:ranks], ("tokens",))
    spread = NamedSharding(mesh, PartitionSpec(None, "tokens"))
    shapes = [(1, problem.n, heads, problem.d) for heads in (problem.heads, problem.kv_heads, problem.kv_heads)]
    given = [jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=spread) for shape in shapes]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=problem.causal)

    def both(q: Any, k: Any, v: Any, gradient: Any) -> Any:
        output, pull = jax.vjp(attend, q, k, v)
        return output, *pull(gradient)

    forward = jax.jit(attend, out_shardings=spread).lower(*given).compile()
    training = jax.jit(both, out_shardings=spread).lower(*given, given[0]).compile()
    sent = [sent_bytes(each.as_text(), ranks) for each in (forward, training)]
    memory = training.memory_analysis()
    return {
        "forward_bytes": sent[0], "backward_bytes": sent[1] - sent[0], "peak_bytes": memory.temp_size_in_bytes,
        "compiled": True,
    }  # fmt: skip


def sent_bytes(program: str, ranks: int) -> int:
    """What a device sends in a program's collectives: rings send (P - 1)/P of a whole tensor, all-reduce twice that."""
    total = 0
    for line in program.splitlines():
        found = re.search(
            r"= (.*?) (all-gather|all-to-all|all-reduce|reduce-scatter|collective-permute)(-start)?\(", line
        )
        if found is None:
            continue
        size = sum(
            _BYTES[kind] * _product(dimensions) for kind, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", found[1])
        )
        match found[2]:
            case "all-gather" | "all-to-all":
                total += size * (ranks - 1) // ranks
            case "all-reduce":
                total += 2 * size * (ranks - 1) // ranks
            case "reduce-scatter":
                total += size * (ranks - 1)
            case _:
                total += size
    return total


def _product(dimensions: str) -> int:
    found = 1
    for each in filter(None, dimensions.split(",")):
        found *= int(each)
    return found
