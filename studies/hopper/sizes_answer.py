"""The part of answer.md on sizes beside those of models, from results."""

import math
from typing import Any, TypeAlias

OURS = "attenio"
Cases: TypeAlias = list[dict[str, Any]]
# What is wanted of every case of a part.
WANTED = {"widths": 0.97, "short heads": 1.0, "wide heads": 1.0, "single precision": 1.0}

_TEXT = """
## Every width, wider heads, short sequences

Beside FlashAttention-4, cuDNN, or what PyTorch chooses (sdpa), each part in one run. Widths are every multiple of 8 at
4K tokens, full forward and causal backward, the harder mask of each. {means}

**Predicted for products of as many columns as heads have, in steps of 16**, where kernels computed 64, 96 or 128: the
tensor cores' share of 80 columns in 96 and of 112 in 128 goes, so backward 1.02 and 1.01 (0.943 and 0.953 before), and
narrow heads are left with their exponentials. With dS held 2^14 times too large one multiplication of 15 instructions
for each score goes as well. Measured before, with the first, with both: 8 columns 0.683, 0.877, 0.951; 32 columns
0.805, 0.970, 0.997; 48 columns 0.943, 1.022, 1.067; 80 columns 0.943, 1.026, 1.080; 112 columns 0.953, 1.019, 1.022.

**Odd multiples of 8** lost most: 72 columns 0.824, 88 0.855, 104 0.812, 120 0.828. The kernel between the launches read
rows by two bytes, because Triton knows of a stride only whether 16 divides it. It reads by sixteen now: 1.095, 1.058,
1.008, 0.953. Forward such rows begin in the middle of the 32 bytes that memory is read in, and in the middle of its
lines of 128. Copies of keys and values that do not cost more than they save at 72, 88, 168, 184 and 248 columns; at 152
they gained (0.930 to 1.142), but three consumers, whose tiles have 192 rows instead of 128, gain more without them
(1.324), so that no copies are made any more (run 45 of `tuning.json`).

**Widths between those of the kernels** took Gluon's tiles, which compute 200 columns in 256. CUDA C++ computes 208
there, but was ranked by its time with 256. Beside each other it is 1.12 to 1.20 times as fast at 104 and 208 columns,
and 1.04 to 1.14 at 112, 120, 200, 224, 240 and 248. Measured beside the peers since it is ranked by what it computes:
104 columns 1.206 (1.048 before), 208 1.200 (1.082), 240 1.204 (1.108).

**Clusters for rows that begin within sectors.** By count of bytes 248 columns asked L2 for some 6.6 TB/s. Two blocks of
a cluster, with 128 rows each, load half of each key tile for both, so that L2 is asked for half as much. Expected: the
time of rows that begin with sectors, which is 1.04 to 1.05 of FlashAttention-4 at 192 and 256 columns. Measured: 168
columns went from 1.000 to 1.284, 184 from 0.967 to 1.003, 200 from 1.128 to 1.229, 216 from 1.002 to 1.195, 232 from
0.981 to 1.170, 248 from 0.933 to 0.997. Where rows begin with sectors a cluster takes 3 to 4 percent longer than blocks
by themselves, whose consumers do not wait for those of another; 152 columns are faster in 192 rows of one block.

**What holds the rest back**, as far as it was looked at; no profile was taken of these. 8, 16 and 120 columns backward,
which were at 0.951, 0.934 and 0.953, gained by P in fp32 and by dQ in the registers that dP leaves. To load keys of the
next tile before values of this one, as they are waited for, made most tiles slower, by up to 8 percent, and none
clearly faster (run 46). Short forward sequences are near the rate of the memory: 128 tokens of 64 columns take 42 us at
the full rate, cuDNN takes 53 and we took 59; one program had an SM to itself, and nothing else ran while it waited for
its Q. Heads of 64 columns have three blocks on an SM since, of one consumer each; the rows below have them: 53.8 us
where cuDNN took 54.0 in one run, 104 and 111 at 197 tokens, 76 and 81 at 256, causal 62 and 59, 84 and 98, 74 and 74
(run 37 of `tuning.json`). Of 128 columns two blocks gained at 197 tokens only, and are not taken; four blocks of 64
columns lose 4 to 34 percent.

**Short causal forward heads took longer than full ones** of the same size (62.5 us and 59.5 at 256 tokens of 128
columns), with fewer products and no more bytes. Heads come in runs whose keys and values fit in half of L2, the longest
row tiles of a run first: 240 heads, so that the keys of a head had left L2 when its other row tile came. With a tenth
of L2: 57 to 60 us, at 64 columns 66 in place of 72, at 197 tokens 61 in place of 66 (run 52; cuDNN 56, 71 and 68). And
tiles for them were measured: 64 and 80 keys, three consumers of 64 keys, two buffers of queries (run 51): 75.5 us in
place of 83.5 for full heads of 197 tokens and 128 columns, 79 in place of 97 causal of 64. Then heads came one by one,
so that all tiles of a head begin together, and lengths that tiles do not divide were ranked by the kernel with masks: 1
to 13 percent for causal heads of up to 256 tokens (run 53).

**256 causal tokens of 128 columns are the nearest**, at 1.014 in the run that is shown. An elementwise kernel that
reads three tensors of its size and writes one takes 47.2 us: that is the roofline, and 80 to 84 percent of the time. In
samples of ten calls (see above) it was at 0.951 to 1.027, and 256 full tokens at 0.982 to 1.042. In longer ones, on two
other GPUs, it took 56.6 and 58.2 us where cuDNN took 57.1 and 58.2, and 57.3 and 57.5 where cuDNN took 57.4 and 57.9
(runs 63 and 64 of `tuning.json`). One program may take all row tiles of a head, and leave key tiles in their stages for
the next row tile: then K and V go from L2 to an SM once. Predicted 54 us, if L2 is what these wait for. Measured: as
long or longer in 45 of 53 forms of tiles, by up to 17 percent, for K and V of the next head arrive late then; 5 percent
less in two, both of 64 causal columns. It is not taken. Clusters of two blocks take 15 to 40 percent longer here. Tiles
that let three blocks of 128 columns share an SM cannot be compiled: each thread would have 80 registers before the
warpgroups share them out, and products need 94. To free Q after the last product that reads it, before the softmax,
changed nothing beyond that noise: 0.4 to 1.3 percent more or less (run 60). Three things gained a little (there were
four cases, at 0.972 to 0.992): statistics of rows, 0.8 to 1.6 percent of the bytes, are not written where nobody wants
them; the next entry of a list is read while the present one is computed; and a launch is prepared while the one before
it ends, 0.2 to 0.4 us. To let its blocks begin while those of the one before still run gained 0.6 us at 128 tokens of
128 columns, and lost up to 1.4 causal and 8 where three blocks share an SM: blocks of the next launch are not spread
evenly then.

**Short gradients.** By profile the kernels that clear and convert accumulators of dQ took 98 to 113 us of 227 to 345 at
128 to 512 tokens and 128 columns, at the rate of the memory. A program that takes all keys of a head stores the first
part of dQ, adds the others, and writes the sum, in memory of its own that L2 holds. Expected: 39 us are left of 98, and
the kernel itself stays as it is, so 1.3 times as fast up to 512 tokens. Measured: 1.40 to 1.62 up to 128 tokens, 1.05
to 1.35 up to 256, or 512 of 64 columns. At 128 columns full heads of 197 tokens lost, and so did heads of 512, where
rows and sums of all programs are more than L2 holds: these share heads as before (run 43). The geometric mean went from
1.006 to 1.239. With 232 registers for consumers and 40 for the producer nothing is spilled, but kernels of 128 columns
without masks take a fifth to a quarter longer; it stays at 240 and 24 (run 44). Then consumers of such programs came to
run the same code, half as much of it, sums of dQ were loaded a step earlier, and heads of up to 512 tokens were taken
whole where programs end near together: up to 1.75 times as fast (run 53), the geometric mean went from 1.288 to 1.400,
and no case is behind.

**Wide heads** of 264 to 384 columns were computed in 512 columns, 32 rows at a time: 0.52, 0.83 and 0.92. Predicted for
256 columns and those beyond beside each other, 128 rows at a time: 320/512 of the products, at twice the rate, so 1.7
to 2.5. Measured: 2.47 and 2.35; 384 columns leave registers for 64 rows at a time only, and are at 1.36.

**fp32** was multiplied without tensor cores (0.16 to 0.88). A number of fp32 is three of bf16 now, and a product six of
their nine products, so that errors are those of single precision: 1e-7 to 7e-7 of a result's norm from 300 to 4,099
keys, forward and backward (run 38 of `tuning.json`, which has the times of all tiles too). Sums over key tiles are
added by ordinary additions. Left to the tensor cores, which cut
sums and do not round them, errors grew with the number of keys, to 4e-6 at 515. Tiles that wgmma takes so have 64
columns at least. With 16 or 32 it read past the end of shared memory in some kernels, and its results were wrong in
others (Triton 3.6, ptxas 12.8; the addresses in the PTX are right, and why it happens is not known), so heads of 32
columns are computed in 64. At 256 columns, three parts of 64 rows of two matrices fill shared memory, and tiles that
pass have 16 rows: that is why it lost there (0.61 to 0.77, gradients 0.33). Gradients of 128 columns lost (0.79 and
0.90) by their second pass, whose two accumulators and the sums of a tile do not fit registers together. TF32 in three
parts took up to 2.1 times as long as this, up to 128 columns.

On Hopper parts are made before since, once, and what stays is loaded again with every tile, 64 columns at a time, as
what passes is. PyTorch's kernels reach 44 TFLOP/s forward and 35 backward. To be as fast, six products of bf16 for each
have to reach 262, and backward 330: dK and dV have a pass each, so that there are eight products and not five.
Predicted: L2 has pieces for two thirds of what tensor cores multiply, about 600, if nothing waits. Measured with making
parts, 4,096 tokens: 624 forward and 623 backward at 128 columns, 582 and 498 at 256, where some registers are spilled.
That is 2.28 and 1.79 times PyTorch's rate, causal 1.91 and 1.54; at 256 columns 2.19 and 1.49, causal 1.94 and 1.16; at
64 2.49 and 1.51, causal 2.39 and 1.44. Shorter sequences leave less: of 256 columns, causal gradients of 1,024 tokens
are at 1.00, and of 512 at 0.96 (run 42). Errors are 1e-7 to 6e-7, and gradients repeat to the
bit.

| case | ours | FlashAttention-4 | cuDNN | sdpa | ratio | our error |
|---|---:|---:|---:|---:|---:|---:|
{lines}
"""


def sizes(cases: Cases) -> str:
    """The text, or nothing where no such case was measured."""
    found = [case for case in cases if case["part"] in WANTED and case["ratio_to_best_peer"]]
    if not found:
        return ""
    means = "; ".join(
        _said(part, direction, these)
        for part in WANTED
        for direction in ("forward", "backward")
        if (these := [case for case in found if (case["part"], case["about"]["direction"]) == (part, direction)])
    )
    return _TEXT.format(means=f"Geometric means: {means}.", lines="\n".join(map(_line, found)))


def _said(part: str, direction: str, cases: Cases) -> str:
    ratios = [case["ratio_to_best_peer"] for case in cases]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    enough = sum(ratio >= WANTED[part] for ratio in ratios)
    return (
        f"{part}, {direction}: {mean:.3f}, the least {min(ratios):.3f}, {enough} of {len(ratios)} cases at"
        f" {WANTED[part]:g} or more"
    )


def _line(case: dict[str, Any]) -> str:
    measured = [case["contenders"].get(name, {}) for name in (OURS, "flash-4", "cudnn", "sdpa")]
    rates = [f"{each['tflop_per_s']:.0f}" if "tflop_per_s" in each else "" for each in measured]
    error = f"{measured[0]['max_abs_error']:.1e}" if "max_abs_error" in measured[0] else ""
    return f"| {case['case']} | {' | '.join(rates)} | {case['ratio_to_best_peer']:.3f} | {error} |"
