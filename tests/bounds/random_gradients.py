"""Runs of the game that compute the gradient in a random order, storing, dropping and recomputing at random.

Entries of Q and dO are ("q", row, 0 or 1, column), those of K and V ("k", key, 0 or 1, column). A pair word is ("s",
row, key, bits): the products that are in it, of queries and keys, or of dO and values with one more bit in front.
Gradients are ("o", row or key, 0 for dQ, 1 for dK or 2 for dV, column).
"""

from dataclasses import dataclass, field

from .random_runs import Name, RandomRun, Word

_OF_VALUES = 1 << 16


@dataclass(eq=False)
class RandomGradient(RandomRun):
    """A run, and when each product of a gradient was made, of which the first one in a gradient is effective."""

    held: list[set[Name]] = field(default_factory=list)  # before every load, after every other step
    made: dict[tuple[int, int, int, int], int] = field(default_factory=dict)  # (row, key, which gradient, column)
    words: list[tuple[Word, int, int]] = field(
        default_factory=list
    )  # pair words that a product was made of, from, until

    def _part(self, i: int, j: int, side: int, pinned: list[Word], only: int | None = None) -> Word | None:
        """A score, or the product of dO and a value: all of it, from what there is, or ``only`` one column more."""
        width, tag = (self.dv, _OF_VALUES) if side else (self.d, 0)
        full = tag | (2**width - 1)

        def of_side(word: Word) -> bool:
            return word.name[:3] == ("s", i, j) and word.name[3] & _OF_VALUES == tag

        known = [w for w in self.fast if of_side(w) and w not in pinned]
        known += [w for w in self.stored.values() if of_side(w) and (self.keep == 1 or self.random.random() < 0.7)]
        word = max(known, key=lambda w: w.name[3]) if known else None
        if word is not None and word not in self.fast:
            word = self._bring(word.name, pinned)
        if only is not None and word is not None and word.name[3] >> only & 1:
            return word
        while word is None or word.name[3] != full:
            bits = tag if word is None else word.name[3]
            column = int(self.random.choice([t for t in range(width) if not bits >> t & 1])) if only is None else only
            held = pinned + ([word] if word else [])
            row = self._bring(("q", i, side, column), held)
            key = self._bring(("k", j, side, column), [*held, row])
            parents = (row, key) if word is None else (word, row, key)
            word = self._make(Word(("s", i, j, bits | 1 << column), parents, product=True), held)
            if only is not None:
                break
        return word

    def _product(self, i: int, j: int, which: int, column: int) -> None:
        """A product of a gradient, and its sum with what there is."""
        pair = [self._part(i, j, 0, [])]
        if which < 2:
            pair.append(self._part(i, j, 1, pair))
        entry = (("k", j, 0, column), ("q", i, 0, column), ("q", i, 1, column))[which]
        operand, place = self._bring(entry, pair), i if which == 0 else j
        name = ("o", place, which, column)
        old = [self._bring(name, [*pair, operand])] if name in self.begun else []
        self.begun.add(name)
        self.made[i, j, which, column] = len(self.steps)
        self._make(Word(name, (*old, *pair, operand), product=True))
        self._follow(pair)

    def _follow(self, pair: list[Word]) -> None:
        """Pair words of this product: when they were made, and until when they were of use."""
        if len(pair) < 2:
            return
        when = {id(word): step for step, (done, word) in enumerate(self.steps) if done == "make"}
        for word in pair:
            later = len(self.steps) - 1
            while True:
                self.words.append((word, when.get(id(word), -1), later))  # made before the run, if it was saved
                older = [parent for parent in word.parents if parent.name[0] == "s"]
                if not older:
                    break
                later, word = when[id(word)], older[0]

    def begin_with(self, share: float) -> "RandomGradient":
        """Scores, or parts of them, that another part has left in slow and in fast memory, and entries beside them."""
        for i in range(self.n):
            for j in range(self.m):
                if self.random.random() < share:
                    full = 2**self.d - 1
                    bits = full if self.random.random() < 0.7 else int(self.random.integers(1, full + 1))
                    name = ("s", i, j, bits)
                    self.stored[name] = Word(name, slow=[-1])
        entries = [("q", i, 0, t) for i in range(self.n) for t in range(self.d)]
        entries += [("k", j, side, t) for j in range(self.m) for side in (0, 1) for t in range((self.d, self.dv)[side])]
        for name in entries:
            self.stored[name] = Word(name)
        names = list(self.stored)
        chosen = self.random.permutation(len(names))[: int(self.random.integers(0, self.fast_words))]
        self.fast = [self.stored[names[place]] for place in chosen]
        return self

    def play(self) -> "RandomGradient":
        self.begun: set[Name] = set()
        run = self

        class Steps(list):
            def append(self, step):
                super().append(step)
                run.held.append({word.name for word in [*run.fast, *([] if step[0] == "load" else [step[1]])]})

        self.steps = Steps()
        first = self.random.choice(["nothing", "products of values", "gradients of values too"])
        pairs = [(i, j) for i in range(self.n) for j in range(self.m) if j <= i or not self.causal]
        every = [
            (i, j, which, c) for i, j in pairs for which in range(3) for c in range(self.dv if which == 2 else self.d)
        ]
        blocks, order = self.random.integers(1, 4, 2), self.random.permutation(3)
        noise = self.random.random(len(every)) * self.random.choice([0.0, 1.0, 30.0, 300.0])
        rank = []
        for i, j, which, _ in every:
            parts = i // blocks[0], j // blocks[1], which
            rank.append(sum(parts[a] * 10 ** (2 - p) for p, a in enumerate(order)))
        if first != "nothing":  # column by column, so that entries may leave before others of their row or key come
            for c in range(self.dv):
                for i, j in pairs:
                    if first == "gradients of values too":
                        self._product(i, j, 2, c)
                    self._part(i, j, 1, [], only=c)
        for place in sorted(range(len(every)), key=lambda k: rank[k] + noise[k]):
            if every[place] not in self.made:
                self._product(*every[place])
        for word in [w for w in self.fast if w.name[0] == "o" and not w.slow]:
            self._store(word)
        return self
