"""A transformer layer on the accelerator: projections, attention, feed-forward.

Products with weights are plain products, tiled as the first and last operators of standard attention are; they are the
same whatever dataflow computes the attention. Norms and activations are left out: they move and compute a thousandth.
"""

from dataclasses import dataclass, fields
from fractions import Fraction
from math import isqrt

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.periodic import periodic_timeline
from attenio.accelerator.program import Program
from attenio.accelerator.programs.attenio import Switches
from attenio.accelerator.programs.standard import outer_products
from attenio.accelerator.simulate import simulate
from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.planning import Dataflow
from attenio.quantities import checked_count
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """Widths of a layer: those of GPT-3 (Brown et al. 2020, table 2.1) unless said otherwise."""

    hidden: int = 12288
    heads: int = 96
    feed_forward: int = 49152

    def __post_init__(self) -> None:
        for part in fields(self):
            checked_count(part.name, getattr(self, part.name))
        if self.hidden % self.heads:
            raise InvalidInput(
                f"{self.heads:,} heads do not share a hidden width of {self.hidden:,} evenly; make heads divide it"
            )

    @property
    def d(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads


GPT_3 = LayerShape()


@dataclass(frozen=True, kw_only=True)
class LayerCycles:
    """Cycles of one layer, by part."""

    projections: Fraction
    attention: Fraction
    feed_forward: Fraction

    @property
    def total(self) -> Fraction:
        """The whole layer."""
        return self.projections + self.attention + self.feed_forward


def layer_cycles(
    machine: Machine | str, *, n: int, dataflow: Dataflow, shape: LayerShape = GPT_3, switches: Switches | None = None
) -> LayerCycles:
    """One layer of a prefill of ``n`` positions."""
    hardware = Hardware.of(machine)
    workload = Workload(n=n, d=shape.d, heads=shape.heads)
    hidden, wide = shape.hidden, shape.feed_forward
    return LayerCycles(
        projections=_product_cycles(hardware, n, 3 * hidden, hidden) + _product_cycles(hardware, n, hidden, hidden),
        attention=simulate(workload, machine, dataflow=dataflow, switches=switches).cycles,
        feed_forward=_product_cycles(hardware, n, wide, hidden) + _product_cycles(hardware, n, hidden, wide),
    )


def _product_cycles(hardware: Hardware, rows: int, columns: int, depth: int) -> Fraction:
    side = max(1, isqrt(hardware.cache.words + 1) - 1)
    body = outer_products(hardware, "AB", "C", (rows, columns, depth), (min(side, rows), min(side, columns)))
    return periodic_timeline(Program(body)).cycles
