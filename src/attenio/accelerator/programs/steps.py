"""Steps that several programs are made of, with their cycles on this hardware and their work."""

from dataclasses import dataclass

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.step import Engine, Operation, Pace, Step, Work


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Steps on one accelerator; each takes sizes, and the names of the steps that it waits for."""

    hardware: Hardware

    def load(self, what: str, words: int, *, after: tuple[str, ...], jump: bool = False) -> Step:
        """Load words of a matrix in one run."""
        return Step(
            name=f"load {what}",
            engine=Engine.HBM,
            cycles=self.hardware.hbm.transfer_cycles(words, jump=jump),
            after=after,
            work=Work(loaded_words=words, cache_words=words),
            cause=what,
            pace=self.hardware.hbm.pace(words),
        )

    def store(self, what: str, words: int, *, after: tuple[str, ...], run_words: int | None = None) -> Step:
        """Store words of a matrix."""
        return Step(
            name=f"store {what}",
            engine=Engine.HBM,
            cycles=self.hardware.hbm.transfer_cycles(words, run_words=run_words),
            after=after,
            work=Work(stored_words=words, cache_words=words),
            cause=f"{what} stored",
            pace=self.hardware.hbm.pace(words) if run_words is None else None,
        )

    def scores(self, rows: int, keys: int, depth: int, *, after: tuple[str, ...], joined: bool = True) -> Step:
        """Products of rows with keys; ``joined`` waits for partial sums, those of a MAC and of several of a row."""
        pe = self.hardware.pe
        cycles = keys * pe.broadcast_cycles(rows=rows, steps=depth)
        cycles += pe.summing_cycles(rows=rows, steps=depth) if joined else 0
        macs = rows * keys * depth
        work = Work(macs=macs, cache_words=macs, kv_words=keys * depth)
        return self.on_array("scores", cycles, after, work).doing(Operation.SCORES, rows=rows, keys=keys)

    def outputs(
        self, size: tuple[int, int, int], *, after: tuple[str, ...], rescaled: bool = False, drained: bool = True
    ) -> Step:
        """Products of probabilities with values, added to outputs: rows, keys and the width of these.

        ``rescaled`` scales outputs on their way; ``drained`` waits for the last of them.
        """
        rows, keys, width = size
        pe = self.hardware.pe
        cycles = pe.update_cycles(rows=rows, keys=keys, steps=width) + (pe.silicon.latency_cycles if drained else 0)
        cycles += pe.rescaling_cycles(rows=rows, steps=width) if rescaled else 0
        macs = rows * keys * width
        work = Work(macs=macs, cache_words=2 * macs, kv_words=keys * width)
        return self.on_array("outputs", cycles, after, work).doing(Operation.OUTPUTS, rows=rows, keys=keys)

    def map(
        self, name: str, elements: int, *, operations: int = 1, divides: bool = False, after: tuple[str, ...]
    ) -> Step:
        """So many operations on each element, all MACs at once, or in turns at the dividers."""
        silicon = self.hardware.pe.silicon
        turns = silicon.macs_a_divider if divides else 1
        cycles = operations * (turns * self.hardware.pe.map_cycles(elements) + silicon.latency_cycles)
        work = Work(map_operations=operations * elements, cache_words=2 * operations * elements)
        macs = self.hardware.pe.macs
        pace = Pace(elements=elements, units=macs, cycles_a_turn=turns) if operations == 1 else None
        return self.on_array(name, cycles, after, work, pace)

    def reduction(self, name: str, elements: int, *, after: tuple[str, ...], adds: bool = False) -> Step:
        """A maximum along rows, or a sum of what the EXP unit gives."""
        pe = self.hardware.pe
        cycles = pe.reduction_cycles(elements)
        cycles += pe.adding_cycles + pe.silicon.exp_fill_cycles if adds else 0
        pace = Pace(elements=elements, units=self.hardware.pe.lines)
        return self.on_array(name, cycles, after, Work(map_operations=elements, cache_words=elements), pace)

    def exponentials(self, count: int, *, after: tuple[str, ...], name: str = "exponentials") -> Step:
        """Exponentials of so many scores."""
        return Step(
            name=name,
            engine=Engine.EXP,
            cycles=self.hardware.exp.cycles(count),
            after=after,
            work=Work(exponentials=count, cache_words=2 * count),
            cause="EXP unit",
            pace=Pace(elements=count, units=self.hardware.exp.modules),
        )

    def finished(self, rows: int, width: int) -> tuple[Step, Step]:
        """Outputs divided by the sums of their rows, and stored."""
        pe = self.hardware.pe
        cycles = pe.silicon.macs_a_divider * pe.broadcast_cycles(rows=rows, steps=width) + pe.silicon.latency_cycles
        work = Work(map_operations=rows * width, cache_words=2 * rows * width)
        normalise = self.on_array("normalise", cycles, ("outputs",), work)
        store = self.store("O", rows * width, after=("normalise",))
        return normalise.doing(Operation.NORMALISE, rows=rows), store.doing(Operation.STORE_OUTPUTS, rows=rows)

    def on_array(self, name: str, cycles: int, after: tuple[str, ...], work: Work, pace: Pace | None = None) -> Step:
        """Any step of the array."""
        return Step(name=name, engine=Engine.PE, cycles=cycles, after=after, work=work, cause="PE array", pace=pace)
