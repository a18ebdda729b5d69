"""The PE array: lines of multiply-accumulate units that are fed, line by line, by broadcast.

Each MAC takes a row of the stationary matrix and keeps its partial sum; the other operand is broadcast, one element a
line and cycle. With at least as many rows as MACs every MAC has a row of its own, and all lines hear the same element.
With fewer, a row is given one MAC in each of several lines, which hear different elements: 504 rows fill 16 lines of 32
MACs, so that four groups of 16 lines share the work. A row has at most one MAC in a line, so a single row keeps 64 MACs
busy and no more. The lines meet in a tree of adders, which joins the partial sums of a row that was shared, and which
is also how a sum or a maximum *along* a row is taken: one element a line and cycle.

>>> array = PeArray(lines=64, macs_per_line=32)
>>> array.ways(1985), array.ways(1007), array.ways(31), array.ways(1)
(1, 2, 64, 64)
>>> array.broadcast_cycles(rows=1985, steps=64), array.broadcast_cycles(rows=31, steps=64)
(64, 1)
"""

from dataclasses import dataclass, field

from attenio.parts import SiliconParts


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient rounded up."""
    return -(-numerator // denominator)


@dataclass(frozen=True, kw_only=True)
class PeArray:
    """Lines of MACs, each fed with one broadcast element a cycle, and the tree of adders that joins the lines."""

    lines: int
    macs_per_line: int
    silicon: SiliconParts = field(default_factory=SiliconParts)

    @property
    def macs(self) -> int:
        """Multiply-accumulate units."""
        return self.lines * self.macs_per_line

    def ways(self, rows: int) -> int:
        """MACs that share a row."""
        return max(1, self.lines // ceil_div(rows, self.macs_per_line))

    def broadcast_cycles(self, *, rows: int, steps: int) -> int:
        """Cycles to broadcast ``steps`` elements to each of ``rows`` rows, as many at once as rows have MACs."""
        whole, rest = divmod(rows, self.macs)
        return whole * steps + (ceil_div(steps, self.ways(rest)) if rest else 0)

    def meeting_cycles(self, *, rows: int, steps: int) -> int:
        """Cycles beyond the products of ``rows`` rows with a key until all partial sums of a MAC have met.

        Sums of one key take turns on a slow adder, pass by pass; a pass has a product for each of them. Sums of several
        keys take turns with one another, and nothing is waited for but the last.

        >>> slow = PeArray(lines=64, macs_per_line=32, silicon=SiliconParts(adder_cycles=2))
        >>> [slow.meeting_cycles(rows=rows, steps=64) for rows in (1985, 4096, 31)]
        [3, 6, 4]
        """
        whole, rest = divmod(rows, self.macs)
        least, more = self.silicon.adder_cycles, self.silicon.pairing_cycles
        last = more + max(0, least - ceil_div(steps, self.ways(rest))) if rest else 0
        return whole * (more + max(0, least - steps)) + last

    def summing_cycles(self, *, rows: int, steps: int) -> int:
        """Cycles from the last product of sums over ``steps`` elements until the sums are there."""
        levels = self.silicon.adder_cycles * self.joining_cycles(rows=rows, steps=steps)
        return self.silicon.fill_cycles + self.meeting_cycles(rows=rows, steps=steps) + levels

    def update_cycles(self, *, rows: int, keys: int, steps: int) -> int:
        """Cycles to add products with several keys to sums that lie in the cache: the next finds that of the last."""
        once = self.broadcast_cycles(rows=rows, steps=steps)
        return once + (keys - 1) * max(once, self.silicon.adder_cycles)

    def rescaling_cycles(self, *, rows: int, steps: int) -> int:
        """Cycles in which outputs are scaled before products are added: none where that has its own multiplier."""
        silicon = self.silicon
        return (
            0
            if silicon.multipliers > 1
            else max(self.broadcast_cycles(rows=rows, steps=steps), 1 + silicon.latency_cycles)
        )

    @property
    def draining_cycles(self) -> int:
        """Cycles by which rescaled sums of rows come later than the published pipeline has them.

        With one multiplier the product has to be there before it is added to.
        """
        silicon = self.silicon
        return silicon.exp_fill_cycles + (3 - silicon.multipliers) * silicon.latency_cycles

    def sharing(self, rows: int, steps: int) -> int:
        """MACs that share a row for so many steps: no more than make them fewer.

        >>> PeArray(lines=64, macs_per_line=32).sharing(31, 64), PeArray(lines=100, macs_per_line=32).sharing(31, 64)
        (64, 64)
        """
        return ceil_div(steps, ceil_div(steps, self.ways(rows)))

    def joining_cycles(self, *, rows: int, steps: int) -> int:
        """Levels of the tree in which the partial sums of the MACs that share a row meet: a cycle each, if adders are.

        Where rows exceed the MACs, those of the last pass share what the full passes before had to themselves. More
        lines are never slower: a step less is worth a level of the tree.

        >>> array = PeArray(lines=64, macs_per_line=32)
        >>> [array.joining_cycles(rows=rows, steps=64) for rows in (1024, 2048, 2048 + 1024)]
        [1, 0, 1]
        """
        last = rows % self.macs
        return (self.sharing(last, steps) - 1).bit_length() if last else 0

    def over_keys_cycles(self, *, rows: int, keys: int) -> int:
        """Cycles that a maximum or sum over several keys takes beyond one over a single key, every row on its MACs.

        >>> array = PeArray(lines=64, macs_per_line=32)
        >>> [array.over_keys_cycles(rows=rows, keys=16) for rows in (1985, 1024, 20)]
        [15, 8, 4]
        """
        if keys <= 1:
            return 0
        more = self.broadcast_cycles(rows=rows, steps=keys) - self.broadcast_cycles(rows=rows, steps=1)
        return more + self.joining_cycles(rows=rows, steps=keys)

    def map_cycles(self, elements: int) -> int:
        """Cycles of one operation on each of so many elements, every MAC on its own."""
        return ceil_div(elements, self.macs)

    def reduction_cycles(self, elements: int) -> int:
        """Cycles of a maximum along rows: one element a line and cycle, and the depth of the tree."""
        return ceil_div(elements, self.lines) + (self.lines - 1).bit_length()

    @property
    def adding_cycles(self) -> int:
        """Cycles that a sum along rows takes beyond a maximum: sums of a line in turn, and slower levels of the tree.

        >>> PeArray(lines=64, macs_per_line=32).adding_cycles
        0
        """
        silicon = self.silicon
        return silicon.fill_cycles + silicon.pairing_cycles + (silicon.adder_cycles - 1) * (self.lines - 1).bit_length()
