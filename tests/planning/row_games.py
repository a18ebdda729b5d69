"""The row-granular game, solved exactly: rows and keys enter and leave fast memory whole, and meet while there."""

from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, kw_only=True)
class RowGame:
    """Words of a row and of a key in fast memory, and what their moves cost; every row is to meet the keys it needs.

    Those are all of them, or, bit by bit, what ``needed`` says of each row.
    """

    rows: int
    keys: int
    fast_words: int
    row_words: int
    key_words: int
    key_cost: int
    first_arrival: int  # of a row: its query
    return_words: int  # of a row that left before it had met all keys: query, output and statistics
    leave_words: int  # of such a row: output and statistics
    final_words: int  # its output
    needed: tuple[int, ...] = ()

    def of_row(self, row):
        return self.needed[row] if self.needed else (1 << self.keys) - 1

    def optimum(self) -> int | None:
        """The fewest words; None if not even one row and one key fit. A search over all positions, cheapest first."""
        if self.row_words + self.key_words > self.fast_words:
            return None
        done = tuple(self.of_row(row) for row in range(self.rows))
        start = ((0,) * self.rows, 0, 0, 0)  # keys met by each row; rows here, rows that have been here, keys here
        known, queue = {start: 0}, [(0, start)]
        while queue:
            cost, position = heappop(queue)
            if known[position] < cost:
                continue
            met, here, been, keys = position
            if met == done:
                return cost + self.rows * self.final_words
            for more, following in self._moves(met, here, been, keys):
                following = following if self.needed else self._canonical(following)
                if cost + more < known.get(following, 1 << 60):
                    known[following] = cost + more
                    heappush(queue, (cost + more, following))
        raise AssertionError("a row and a key at a time always end")

    def _moves(self, met, here, been, keys):
        used = here.bit_count() * self.row_words + keys.bit_count() * self.key_words
        for i in range(self.rows):
            bit, full = 1 << i, self.of_row(i)
            if here & bit:
                yield (0 if met[i] == full else self.leave_words), (met, here & ~bit, been, keys)
            elif met[i] != full and used + self.row_words <= self.fast_words:
                cost = self.return_words if been & bit else self.first_arrival
                now = (*met[:i], met[i] | keys & full, *met[i + 1 :])
                yield cost, (now, here | bit, been | bit, keys)
        for j in range(self.keys):
            bit = 1 << j
            if keys & bit:
                yield 0, (met, here, been, keys & ~bit)
            elif used + self.key_words <= self.fast_words:
                now = tuple(each | bit & self.of_row(i) if here >> i & 1 else each for i, each in enumerate(met))
                yield self.key_cost, (now, here, been, keys | bit)

    def _canonical(self, position):
        """Rows in order, and then keys: all are alike."""
        met, here, been, keys = position
        for _ in range(2):
            rows = sorted(range(self.rows), key=lambda i: (met[i], here >> i & 1, been >> i & 1))
            met = tuple(met[i] for i in rows)
            here, been = (sum(1 << at for at, i in enumerate(rows) if bits >> i & 1) for bits in (here, been))
            order = sorted(range(self.keys), key=lambda j: ([each >> j & 1 for each in met], keys >> j & 1))
            met = tuple(sum(1 << at for at, j in enumerate(order) if each >> j & 1) for each in met)
            keys = sum(1 << at for at, j in enumerate(order) if keys >> j & 1)
        return met, here, been, keys
