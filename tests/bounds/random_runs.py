"""Runs of the game that compute attention in a random order, storing, dropping and recomputing at random.

A word is an instance of a value with the words it was made of, so that histories can be followed. With ``sums`` a run
adds up the probabilities of every row too; a word of such a sum is over two keys at least.
"""

from dataclasses import dataclass, field

import numpy as np

Name = tuple[str, int, int, int]  # kind (q, k, v, s, o, l), row or key, key, column; a score's column is a bit set of t


@dataclass(eq=False)
class Word:
    name: Name
    parents: tuple["Word", ...] = ()
    product: bool = False  # made of inputs, or of a probability and a value
    slow: list[int] = field(default_factory=list)  # when it was stored

    def history(self, kind: str) -> list["Word"]:
        """This word and all of its kind that it was made of."""
        seen = {id(self): self}
        waiting = [self]
        while waiting:
            for parent in waiting.pop().parents:
                if parent.name[0] == kind and id(parent) not in seen:
                    seen[id(parent)] = parent
                    waiting.append(parent)
        return list(seen.values())


@dataclass(eq=False)
class RandomRun:
    """Sizes, fast memory, and the steps taken: what was done with which word."""

    n: int
    m: int
    d: int
    dv: int
    fast_words: int
    random: np.random.Generator
    keep: float  # how often a score that has to go is stored
    sums: bool = False
    causal: bool = False
    steps: list[tuple[str, Word]] = field(default_factory=list)
    fast: list[Word] = field(default_factory=list)
    stored: dict[Name, Word] = field(default_factory=dict)
    summed: dict[int, list[int]] = field(default_factory=dict)  # of a row: keys whose probabilities are in its sum

    def flowing_in(self, start: int, end: int) -> tuple[set[Name], set[tuple[int, int]]]:
        """Entries of inputs, and pairs with a word, that steps of a part of the run load or find in fast memory."""
        entries, pairs, made = set(), set(), set()
        for done, word in self.steps[start:end]:
            met = [word] if done != "make" else list(word.parents)
            for each in met:
                if each.name[0] == "s" and (done == "load" or id(each) not in made):
                    pairs.add(each.name[1:3])
                elif each.name[0] in "qkv":
                    entries.add(each.name)
            if done == "make":
                made.add(id(word))
        return entries, pairs

    def _room(self, pinned: list[Word]) -> None:
        while len(self.fast) >= self.fast_words:
            goes = self.random.choice(np.array([k for k, word in enumerate(self.fast) if word not in pinned]))
            word = self.fast[goes]
            output = word.name[0] == "o" or (word.name[0] == "l" and len(self.summed[word.name[1]]) < self.m)
            if (word.name[0] in "so" or output) and not word.slow and (output or self.random.random() < self.keep):
                self._store(word)
            self.fast.pop(goes)

    def _store(self, word: Word) -> None:
        word.slow.append(len(self.steps))
        self.stored[word.name] = word
        self.steps.append(("store", word))

    def _bring(self, name: Name, pinned: list[Word]) -> Word | None:
        for word in self.fast:
            if word.name == name:
                return word
        if name[0] in "qkv" and name not in self.stored:
            self.stored[name] = Word(name)
        if name not in self.stored:
            return None
        self._room(pinned)
        self.steps.append(("load", self.stored[name]))
        self.fast.append(self.stored[name])
        return self.stored[name]

    def _make(self, word: Word, pinned: list[Word] | None = None) -> Word:
        """In the place of an operand of the same kind, if there is one that is not needed as it is."""
        same = [parent for parent in word.parents if parent.name[0] == word.name[0]]
        if same:
            self.fast.remove(same[0])
        else:
            self._room([*word.parents, *(pinned or [])])
        self.fast.append(word)
        self.steps.append(("make", word))
        return word

    def _score(self, i: int, j: int, pinned: list[Word]) -> Word:
        full = 2**self.d - 1
        known = [w for w in self.fast if w.name[:3] == ("s", i, j)]
        known += [w for w in self.stored.values() if w.name[:3] == ("s", i, j) and self.random.random() < 0.7]
        word = None
        if known:
            best = max(known, key=lambda w: w.name[3])
            word = best if best in self.fast else self._bring(best.name, pinned)
        while word is None or word.name[3] != full:
            done = 0 if word is None else word.name[3]
            t = int(self.random.choice(np.array([t for t in range(self.d) if not done >> t & 1])))
            held = pinned + ([word] if word else [])
            q = self._bring(("q", i, 0, t), held)
            assert q
            k = self._bring(("k", j, 0, t), [*held, q])
            assert k
            if word is None:
                word = self._make(Word(("s", i, j, 1 << t), (q, k), product=True), held)
            else:
                part = None
                if len(held) + 3 <= self.fast_words and self.random.random() < 0.5:
                    part = self._make(Word(("s", i, j, 1 << t), (q, k), product=True), held)
                parents = (word, part) if part else (word, q, k)
                if part:
                    self.fast.remove(part)
                word = self._make(Word(("s", i, j, done | 1 << t), parents, product=part is None))
        return word

    def _sum(self, i: int, j: int) -> None:
        keys = self.summed.setdefault(i, [])
        keys.append(j)
        if len(keys) > 1:
            name = ("l", i, 0, 0)
            first = self._score(i, keys[0], []) if len(keys) == 2 else self._bring(name, [])
            assert first
            self._make(Word(name, (first, self._score(i, j, [first]))))

    def play(self) -> "RandomRun":
        """Every product p·v in an order that is random in blocks, then the outputs that are left."""
        columns = range(self.dv + self.sums)  # the last one is that of the sums
        visible = [(i, j) for i in range(self.n) for j in range(self.m) if j <= i or not self.causal]
        triples = [(i, j, c) for i, j in visible for c in columns]
        order = self.random.permutation(3)
        blocks = self.random.integers(1, 4, 3)
        noise = self.random.random(len(triples)) * self.random.choice([0.0, 0.5, 3.0])
        rank = [sum((tr[a] // blocks[a]) * 10 ** (3 - p) for p, a in enumerate(order)) for tr in triples]
        begun: set[tuple[int, int]] = set()
        for place in np.argsort(np.array(rank) + noise * 100, kind="stable"):
            i, j, c = triples[place]
            if c == self.dv:
                self._sum(i, j)
                continue
            p = self._score(i, j, [])
            v = self._bring(("v", j, 0, c), [p])
            assert v
            name = ("o", i, 0, c)
            if (i, c) in begun:
                old = self._bring(name, [p, v])
                assert old
                self._make(Word(name, (old, p, v), product=True))
            else:
                begun.add((i, c))
                self._make(Word(name, (p, v), product=True))
        for word in [w for w in self.fast if w.name[0] == "o" and not w.slow]:
            self._store(word)
        return self


@dataclass(frozen=True)
class Effective:
    """The products that the outputs of a run are made of, and the words that carry them."""

    outputs: list[tuple[tuple[int, int, int], int]]  # (i, j, c) and the step of its product p v
    scores: list[tuple[tuple[int, int, int], int]]  # (i, j, c) and the steps of the products q k that it uses
    chains: dict[tuple[int, int], list[tuple[int, Word]]]  # of an output: when its words were made
    carriers: list[tuple[list[tuple[int, int, Word]], int]]  # of (i, j, c): words from and until; when it is consumed


def effective_products(run: RandomRun) -> Effective:
    """Follow the history of every output that is stored last."""
    made = {id(word): step for step, (done, word) in enumerate(run.steps) if done == "make"}
    final = {word.name: word for done, word in run.steps if done == "store" and word.name[0] == "o"}
    found = Effective([], [], {}, [])
    for (_, i, _, c), last in final.items():
        words = sorted(last.history("o"), key=lambda word: made[id(word)])
        found.chains[i, c] = [(made[id(word)], word) for word in words]
        for word in words:
            score = next(parent for parent in word.parents if parent.name[0] == "s")
            consumed, place = made[id(word)], (i, score.name[2], c)
            history = score.history("s")
            then = {id(parent): made[id(each)] for each in history for parent in each.parents}
            found.outputs.append((place, consumed))
            found.scores.extend((place, made[id(each)]) for each in history if each.product)
            found.carriers.append(
                ([(made[id(each)], then.get(id(each), consumed), each) for each in history], consumed)
            )
    return found
