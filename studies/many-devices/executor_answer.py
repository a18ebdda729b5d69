"""What the results of executor.py and one_gpu.py say, as executor.md."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def answer(results: dict[str, Any]) -> str:
    """The page."""
    rows = results["problems"]
    resent = sum(row["contenders"]["attenio"]["resent_segments"] for row in rows)
    lines = [
        "# Bytes and memory of eight ranks, beside others",
        "",
        f"Eight processes on gloo, n = {rows[0]['n']:,}, d = {rows[0]['d']}, bf16; bytes that a rank sends on the wire"
        " in a forward and a backward pass (mean over ranks, headers included), and the most that PyTorch holds on a"
        " rank during both beyond its inputs. All have the same CPU kernel as block operator and the same inputs; every"
        " result was checked against the definition. JAX: collectives that XLA compiled for eight virtual devices, with"
        " its temporary memory; on a CPU it computes and gathers in float32. The computer was busy. Others ran while"
        " TCP sent segments again on such a computer, as probes for losses that a loopback device does not have: of"
        " theirs, differences of a few percent are no differences. Ours ran again with these probes off (`executor.py"
        f" --ours`), and {resent} segments were sent twice. Ours has the grid that sends least, holds rows of other"
        " ranks where it gathers them, and computes and sums in single precision what it adds up: fewer bytes and more"
        " memory than a ring. *Wire over counted*: what the wire carried over what our ranks count of themselves;"
        " beyond that it has headers, acknowledgements and the barriers of the measurement. Everything ran once.",
        "",
        "| problem | contender | forward | backward | over ours | wire over counted | peak memory |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ours = row["contenders"]["attenio"]
        for name, found in row["contenders"].items():
            if "refused" in found:
                lines.append(f"| {row['name']} | {name} | | | | | refused: {found['refused']} |")
                continue
            both, own = (each["forward_bytes"] + each["backward_bytes"] for each in (found, ours))
            counted = found.get("counted_bytes")
            lines.append(
                f"| {row['name']} | {name} | {found['forward_bytes']:,} | {found['backward_bytes']:,} |"
                f" {both / own:.2f} | {f'{both / counted:.3f}' if counted else ''} | {found['peak_bytes']:,} |"
            )
    made = results["provenance"]
    versions = ", ".join(
        f"{name} {made[name]}" for name in ("torch", "ring-flash-attn", "yunchang", "deepspeed", "jax")
    )
    ours = results.get("ours", made)
    lines += [
        "",
        f"attenio {ours['version']}, commit {ours['commit']}, {ours['date']}; others {made['date']}: {versions}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    found = json.loads((HERE / "executor_results.json").read_text(encoding="utf-8"))
    (HERE / "executor.md").write_text(answer(found), encoding="utf-8")
