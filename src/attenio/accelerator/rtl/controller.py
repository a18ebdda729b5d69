"""The controller: a sequencer for every engine, and the counts of ends by which they wait for each other."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Out

from attenio.accelerator.rtl.nest import Nest
from attenio.accelerator.rtl.parts import Part
from attenio.accelerator.rtl.sequencer import COUNT_BITS, Sequencer
from attenio.accelerator.step import Engine

# What is known of every engine.
TRACED = ("place", "phase", "active", "first", "last", "finished")


class Controller(Part):
    """The nest of a program, walked by three engines at once."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.walks = {engine: Sequencer(nest, engine) for engine in Engine}
        awaited = sorted({name for walk in self.walks.values() for name in walk.awaited})
        self.ended = {name: Signal(COUNT_BITS, name=f"ended_{at}") for at, name in enumerate(awaited)}
        ports = {engine: dict(walk.signature.members.items()) for engine, walk in self.walks.items()}
        super().__init__(
            {f"{engine.name.lower()}_{name}": Out(ports[engine][name].shape) for engine in Engine for name in TRACED}
        )

    def elaborate(self, _platform: object) -> Module:
        """Sequencers, and a count of ends for every name that someone waits for."""
        m, ended = Module(), self.ended
        for engine, walk in self.walks.items():
            m.submodules[f"{engine.name.lower()}_sequencer"] = walk
            for at, name in enumerate(walk.awaited):
                m.d.comb += getattr(walk, f"ended_{at}").eq(ended[name])
            for name in TRACED:
                m.d.comb += getattr(self, f"{engine.name.lower()}_{name}").eq(getattr(walk, name))
            with m.If(walk.last), m.Switch(walk.place):
                for place in walk.places:
                    if place.step.name in ended:
                        with m.Case(place.number):
                            m.d.sync += ended[place.step.name].eq(ended[place.step.name] + 1)
        return m
