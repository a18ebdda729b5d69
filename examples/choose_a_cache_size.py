"""Design question: how much fast memory makes a causal prompt limited by arithmetic rather than by bandwidth?"""

from attenio import Machine, MemoryLevel, Workload
from attenio.elements import ElementType
from attenio.report import answer

workload = Workload(n=16384, d=128, heads=8, mask="causal")

print(f"{workload}, 100 TFLOP/s, 400 GB/s")
for kib in (16, 32, 64, 128, 256, 512):
    machine = Machine(
        name=f"{kib} KiB",
        levels=(
            MemoryLevel(name="SRAM", capacity_bytes=kib * 1024),
            MemoryLevel(name="DRAM", bandwidth_bytes_per_s=400e9),
        ),
        flops_per_s={ElementType.FP16: 100e12},
    )
    found = answer(workload, machine)
    assert found.binding is not None
    print(
        f"{machine.name:>8}: {found.plan.dataflow.value:<17} {found.plan.moved_words:>14,} words,"
        f" {found.gap:.3f} times the bound, {found.binding.resource} takes {found.binding.plan_seconds * 1e3:.2f} ms"
    )
