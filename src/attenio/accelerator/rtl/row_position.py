"""Where the program is in its rows and keys: what moves addresses, what the mask is asked about, what is fresh."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.mac_line import ROW_BITS
from attenio.accelerator.rtl.parts import Part
from attenio.accelerator.step import Engine, Operation
from attenio.planning import Dataflow


class Position(Part):
    """Counters that steps move as they end.

    ``offset`` moves the scores of FLAT: to the next keys, or to the next row. ``lag`` is the key less the row that a
    step begins with, ``row`` the row of scores that is loaded. ``fresh`` holds from the store of a tile to the end of
    its successor's first products; ``clears`` says that what is stored then is zero.
    """

    def __init__(self, design: Design, score_stride: int) -> None:
        self.design, self.stride = design, score_stride
        self.pe_places, self.hbm_places = design.nest.places[Engine.PE], design.nest.places[Engine.HBM]
        rows = max(place.step.rows for place in (*self.pe_places, *self.hbm_places))
        most = max(2, rows * score_stride + score_stride)
        super().__init__(
            {
                "pe_place": In(range(max(2, len(self.pe_places)))),
                "hbm_place": In(range(max(2, len(self.hbm_places)))),
                "pe_last": In(1),
                "hbm_last": In(1),
                "offset": Out(range(most) if design.plan.dataflow is Dataflow.FLAT else 1),
                "lag": Out(signed(ROW_BITS)),
                "row": Out(ROW_BITS),
                "fresh": Out(1),
                "clears": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Counters by the ends of steps."""
        m, standard = Module(), self.design.plan.dataflow is Dataflow.STANDARD
        fresh = Signal(init=1)
        m.d.comb += [self.fresh.eq(fresh), self.clears.eq(not standard)]
        with m.If(self.pe_last), m.Switch(self.pe_place):
            for place in self.pe_places:
                if place.step.name in ("outputs", "products"):
                    with m.Case(place.number):
                        m.d.sync += fresh.eq(0)
        with m.If(self.hbm_last), m.Switch(self.hbm_place):
            for place in self.hbm_places:
                if place.step.operation is (Operation.STORE_TILE if standard else Operation.STORE_OUTPUTS):
                    with m.Case(place.number):
                        m.d.sync += fresh.eq(1)
        if standard:
            self._rows(m)
        else:
            self._tiles(m)
        return m

    def _rows(self, m: Module) -> None:
        """Rows of scores, one after the other."""
        last = int(self.design.pattern.rows) - 1
        with m.If(self.hbm_last), m.Switch(self.hbm_place):
            for place in self.hbm_places:
                if place.step.operation is Operation.STORE_OUTPUTS:
                    with m.Case(place.number):
                        m.d.sync += self.row.eq(Mux(self.row == last, 0, self.row + 1))

    def _tiles(self, m: Module) -> None:
        """Tiles of rows, and the keys that each needs from its first on."""
        band, is_flat = self.design.pattern, self.design.plan.dataflow is Dataflow.FLAT
        back = int(band.shift) - int(band.left)
        base, key = Signal(signed(ROW_BITS)), Signal(signed(ROW_BITS), init=max(0, back))
        m.d.comb += self.lag.eq(key - base)
        moved = {name: Signal(len(self.offset), name=f"{name}_offset") for name in ("scores", "rows", "outputs")}
        with m.Switch(self.pe_place):
            for place in self.pe_places:
                name = place.step.name
                which = name if name in moved else "rows"
                step = {"scores": place.step.keys, "outputs": place.step.keys, "probabilities": self.stride}.get(name)
                with m.Case(place.number):
                    if is_flat:
                        m.d.comb += self.offset.eq(moved[which])
                    with m.If(self.pe_last):
                        if is_flat and step:
                            m.d.sync += moved[which].eq(moved[which] + step)
                        if name == "scores":
                            m.d.sync += key.eq(key + place.step.keys)
        with m.If(self.hbm_last), m.Switch(self.hbm_place):
            for place in self.hbm_places:
                if place.step.operation is Operation.STORE_OUTPUTS:
                    following, first = (
                        Signal(signed(ROW_BITS), name=f"{name}_{place.number}") for name in ("following", "first")
                    )
                    ends = base + place.step.rows == int(band.rows)
                    with m.Case(place.number):
                        m.d.comb += following.eq(Mux(ends, 0, base + place.step.rows))
                        m.d.comb += first.eq(following + back)
                        m.d.sync += [base.eq(following), key.eq(Mux(first > 0, first, 0))]
                        m.d.sync += [each.eq(0) for each in moved.values()]
