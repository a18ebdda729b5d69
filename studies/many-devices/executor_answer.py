"""What the results of executor.py, one_gpu.py and nccl.py say, as executor.md."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def answer(results: dict[str, Any]) -> str:
    """The page."""
    one_gpu, nccl = (json.loads((HERE / name).read_text(encoding="utf-8")) for name in ("one_gpu.json", "nccl.json"))
    return "\n".join([*_beside_others(results), "", *_on_one_gpu(one_gpu), "", *_on_nccl(nccl)]) + "\n"


def _beside_others(results: dict[str, Any]) -> list[str]:
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
    return lines


def _on_one_gpu(results: dict[str, Any]) -> list[str]:
    """Sixteen ranks that are threads."""
    made, cases = results["provenance"], results["cases"]
    lines = [
        "## Sixteen virtual devices on one GPU",
        "",
        f"`one_gpu.py` on an {made['device_name']}, n = {cases[0]['n']:,}, forward and backward, bf16 (commit"
        f" {made['commit']}, {made['date']}). Errors are relative, by norm, against float64, of sampled rows and keys:"
        " the largest of O, dQ, dK and dV.",
        "",
        "| problem | grid of heads, queries and keys | error | of one device | bytes of all stages as planned |",
        "|---|---|--:|--:|---|",
    ]
    for found in cases:
        grid = " x ".join(str(found["case"]["grid"][name]) for name in ("heads", "queries", "keys"))
        worst, alone = (max(found[f"errors_of_{who}"].values()) for who in ("ranks", "one_device"))
        planned = "yes" if found["bytes_as_planned"] else "no"
        lines.append(f"| {found['case']['name']} | {grid} | {worst:.4f} | {alone:.4f} | {planned} |")
    return lines


def _on_nccl(results: dict[str, Any]) -> list[str]:
    """Ranks that are processes on one GPU."""
    made, runs = results["provenance"], results["runs"]
    refused = next(run["refused"][0].split("]: ")[-1] for run in runs if not run["by_rank"])
    lines = [
        "## NCCL",
        "",
        f"`nccl.py`: NCCL {made['nccl']}, PyTorch {made['torch']}, {made['device_name']} (commit {made['commit']},"
        f" {made['date']}). There was one GPU, and NCCL refuses two ranks of one host on it: *{refused}*. So each rank"
        " says that it is a host of its own, and NCCL sends through sockets: the code is that of ranks on GPUs of their"
        " own, the times are not, and are left out. Forward and backward, bf16, d = 64; the largest error of O, dQ, dK"
        f" and dV as above; every rank sent the planned bytes in each of {results['samples']} steps.",
        "",
        "| ranks | grid of queries, keys and heads | problem | error | of one device | most bytes of a rank |",
        "|--:|---|---|--:|--:|--:|",
    ]
    for run in (run for run in runs if run["by_rank"]):
        for rows in zip(*run["by_rank"], strict=True):
            asked, grid = rows[0]["problem"], " x ".join(map(str, rows[0]["grid"]))
            kind = f"window {asked['window']}" if "window" in asked else "causal" if asked["is_causal"] else "dense"
            worst, alone = (
                max(max(row[f"errors_of_{who}"].values()) for row in rows) for who in ("ranks", "one_device")
            )
            most = max(row["planned_bytes"] for row in rows)
            lines.append(
                f"| {run['ranks']} | {grid} | {kind}, {asked['heads']}/{asked['kv_heads']} x {asked['n']:,} |"
                f" {worst:.4f} | {alone:.4f} | {most:,} |"
            )
    lines += ["", f"What the other rank of two says, with a timeout of {results['timeout_s']} s:", ""]
    for how, run in results["failures"].items():
        found = next(each for each in run["by_rank"] if each["rank"] == 0)
        said = found["said"].split(": ", 1)[1].split("; rank 0 ends")[0]
        lines.append(f"- a rank {how}: *{said}*, after {found['seconds']:.1f} s")
    return lines


if __name__ == "__main__":
    found = json.loads((HERE / "executor_results.json").read_text(encoding="utf-8"))
    (HERE / "executor.md").write_text(answer(found), encoding="utf-8")
