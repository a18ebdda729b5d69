"""A warp: its registers, which lanes are where, and what its instructions do besides arithmetic."""

import numpy as np
from tests.kernels.hopper.ptx.copies import Copies
from tests.kernels.hopper.ptx.products import Products
from tests.kernels.hopper.ptx.program import LANES
from tests.kernels.hopper.ptx.shared import FIRST, Fault

__all__ = ["PARAMETERS", "Warp"]

ALL = np.ones(LANES, bool)
# Where parameters are, each in a page of its own.
PARAMETERS, PAGE = 1 << 40, 1 << 12


class Warp(Copies, Products):
    """Warp ``index`` of a block."""

    def __init__(self, block, index, launch):
        self.block, self.index, self.launch = block, index, launch
        self.shared, self.rng = block.shared, launch.rng
        self.registers = [np.zeros(LANES, kind) for kind in launch.program.kinds]
        self.lanes = [[0, ALL]]
        self.waits, self.after, self.doing = None, None, ""
        self.agent = block.base + index
        self.clock = np.zeros(block.agents, "i4")
        self.clock[self.agent] = 1
        self.memory = np.full(LANES, FIRST, "u8")
        self._unfenced = []
        self.priority = self.rng.random()
        self.begin_copies()
        self.begin_products()

    # What runs.

    def step(self):
        """Do a stretch of instructions, of the lanes that are furthest behind."""
        if self.after is not None:
            after, self.waits, self.after = self.after, None, None
            after()
        lanes = self.lanes[0] if len(self.lanes) == 1 else min(self.lanes, key=lambda each: each[0])
        at, mask = lanes
        stretch = self.launch.program.stretches[at]
        stretch.function(mask is ALL)(self, self.registers, mask)
        if stretch.branch is None:
            lanes[0] = at + 1
        else:
            self._branch(lanes, stretch)
        if len(self.lanes) > 1:
            self._join()

    def _branch(self, lanes, stretch):
        at, mask = lanes
        taken = mask
        if stretch.guard is not None:
            register, negated = stretch.guard
            taken = mask & (self.registers[register] ^ negated)
        count, of = np.count_nonzero(taken), np.count_nonzero(mask)
        target = None if stretch.is_end else stretch.target
        if count == of:
            lanes[0] = target
        elif count == 0:
            lanes[0] = at + 1
        else:
            lanes[0], lanes[1] = at + 1, mask & ~taken
            self.lanes.append([target, taken])
        self.lanes = [each for each in self.lanes if each[0] is not None]

    def _join(self):
        places = {}
        for at, mask in self.lanes:
            places[at] = places[at] | mask if at in places else mask
        self.lanes = [[at, ALL if mask.all() else mask] for at, mask in places.items()]

    @property
    def is_done(self):
        return not self.lanes

    def wait_for(self, condition, doing, after=None):
        """Do nothing until a condition holds."""
        self.waits, self.after, self.doing = condition, after or (lambda: None), doing

    def tick(self):
        """What comes after this is not known to who learns what was before."""
        self.clock[self.agent] += 1

    def learn(self, clock):
        np.maximum(self.clock, clock, out=self.clock)

    @staticmethod
    def one(numbers, mask):
        """The number that all active lanes have."""
        active = numbers[mask]
        if (active != active[0]).any():
            raise Fault("lanes have different numbers where all must have one")
        return int(active[0])

    @staticmethod
    def together(mask):
        if mask is not ALL:
            raise Fault("not all lanes of a warp are there for an instruction of all")

    # Registers, parameters and other lanes.

    def special(self, name):
        kind, _, axis = name[1:].partition(".")
        if kind == "tid":
            number = np.arange(32 * self.index, 32 * self.index + 32, dtype="u4")
            return number if axis == "x" else np.zeros(LANES, "u4")
        numbers = {
            "ctaid": self.block.number, "nctaid": self.launch.blocks, "ntid": self.block.threads,
            "cluster_ctarank": self.block.number % self.launch.cluster, "laneid": np.arange(LANES, dtype="u4"),
        }  # fmt: skip
        if axis not in ("", "x"):
            raise NotImplementedError(name)
        return np.full(LANES, numbers[kind], "u4")

    def parameter(self, index):
        return np.full(LANES, PARAMETERS + PAGE * index, "u8")

    def load_param(self, address, kind, count, mask, wide, signed):
        place = self.one(address, mask) - PARAMETERS
        numbers = np.frombuffer(self.launch.parameters[place // PAGE], kind, count, place % PAGE)
        return [_widened(np.full(LANES, each, kind), wide, signed) for each in numbers]

    def shuffle(self, mode, given, lane, clamp, mask):
        self.together(mask)
        own = np.arange(LANES)
        source = {"bfly": own ^ lane, "idx": lane.astype("i8"), "down": own + lane, "up": own - lane.astype("i8")}[mode]
        inside = (source >= 0) & (source <= 31)
        if (clamp & 31 != (0 if mode == "up" else 31)).any():
            raise NotImplementedError("shuffles of parts of a warp")
        return [np.where(inside, given[source % LANES], given)]

    def vote(self, mode, given, mask):
        active = given[mask]
        if mode == "ballot":
            bits = int((np.uint64(1) << np.arange(LANES, dtype="u8"))[mask & given].sum())
            return [np.full(LANES, bits, "u4")]
        return [np.full(LANES, {"any": active.any(), "all": active.all()}[mode])]

    # Memory.

    def load_shared(self, address, kind, count, mask, wide, signed):
        if not mask.any():
            return [np.zeros(LANES, wide)] * count
        addresses = address[mask].astype("i8")
        at = self._words(addresses, kind, count)
        self.shared.before_read(np.unique(at), self.agent, self.clock[self.agent], self.clock)
        if kind == "u2":
            found = self.shared.words.view("u2")[addresses // 2][:, None]
        else:
            found = self.shared.words.view("u4")[at]
        found = found.reshape(len(addresses), -1).view(kind)
        return [_widened(self._spread(found[:, i], mask), wide, signed) for i in range(count)]

    def store_shared(self, address, given, kind, mask):
        if not mask.any():
            return
        addresses = address[mask].astype("i8")
        at = self._words(addresses, kind, len(given))
        self._write_shared(at)
        numbers = np.stack([each[mask] for each in given], 1)
        if kind == "u2":
            self.shared.words.view("u2")[addresses // 2] = numbers[:, 0].astype("u2")
        else:
            numbers = numbers.view("u4").reshape(len(addresses), -1)
            self.shared.words[at] = numbers

    def _words(self, addresses, kind, count):
        size = int(kind[1]) * count
        self.shared.check(int(addresses.min()), int(addresses.max()) + size, 1)
        if (addresses % size).any():
            raise Fault(f"shared memory is accessed at an address that is not aligned to {size} bytes")
        return (addresses // 4)[:, None] + np.arange(max(size // 4, 1))

    def _write_shared(self, at):
        at = np.unique(at)
        self.shared.before_write(at, self.agent, self.clock[self.agent], self.clock, generic_of=self.index)
        self._unfenced.append(at)

    @staticmethod
    def _spread(numbers, mask):
        if mask is ALL:
            return np.ascontiguousarray(numbers)
        every = np.zeros(LANES, numbers.dtype)
        every[mask] = numbers
        return every

    def load_global(self, address, kind, count, mask, wide, signed):
        if not mask.any():
            return [np.zeros(LANES, wide)] * count
        view, at = self.launch.memory.indices(address[mask], count, kind)
        found = view[at]
        return [_widened(self._spread(found[:, i], mask), wide, signed) for i in range(count)]

    def store_global(self, address, given, kind, mask):
        if mask.any():
            view, at = self.launch.memory.indices(address[mask], len(given), kind)
            view[at] = np.stack([each[mask] for each in given], 1)

    def atomic(self, mode, address, given, mask):
        before = np.zeros(LANES, "u4")
        for lane in np.flatnonzero(mask):
            view, at = self.launch.memory.indices(address[lane : lane + 1], 1, "u4")
            old, other = int(view[at[0, 0]]), int(given[lane])
            before[lane] = old
            view[at[0, 0]] = {"add": (old + other) % 2**32, "inc": 0 if old >= other else old + 1}[mode]
        return [before]

    # Barriers.

    def init_barrier(self, address, count, mask):
        self.block.init_barrier(self.one(address, mask), self.one(count, mask))

    def _barrier(self, address, mask):
        block, at = self.launch.place(self.block, self.one(address, mask))
        return block.barrier(at)

    def of_block(self, address, rank):
        """An address of another block of the cluster."""
        return self.launch.address(address, rank)

    def arrive_cluster(self, mask):
        """Relaxed: what this warp did before is not known to who waits."""
        self.together(mask)
        self._cluster_turn = self.launch.arrive_cluster(self.block)

    def wait_cluster(self, mask):
        self.together(mask)
        turn = self._cluster_turn
        self.wait_for(lambda: self.launch.cluster_turn(self.block) > turn, "the other block of the cluster")

    def arrive(self, address, *rest):
        mask = rest[-1]
        if not mask.any():
            return
        for at in np.unique(np.broadcast_to(address, mask.shape)[mask]):  # lanes may arrive in a block each
            there = mask & (address == at)
            self._barrier(address, there).arrive(self.clock, int(np.count_nonzero(there)))
        self.tick()

    def expect(self, address, count, mask):
        if mask.any():
            self._barrier(address, mask).arrive(self.clock, 1, self.one(count, mask))
            self.tick()

    def wait_barrier(self, address, phase, mask):
        """The phase that is meant is the first of this parity but for those before the last that the warp knows of."""
        at, parity = self.one(address, mask), self.one(phase, mask)
        barrier = self._barrier(address, mask)
        last = int(self.clock[barrier.agent]) - 1
        wanted = last + ((last ^ parity) & 1)
        name = f"{self.block.name_of(at)} parity {parity}"

        def then():
            if barrier.completed > wanted + 1:
                raise Fault(f"{name} completed {barrier.completed - wanted - 1} phases more before it was seen")
            if wanted >= 0:
                self.learn(barrier.released[wanted])

        self.wait_for(lambda: barrier.completed % 2 != parity, name, then)
        return [ALL]

    def sync(self, number, *rest):
        count = rest[0] if len(rest) > 1 else None
        self._meet(number, count, rest[-1], waits=True)

    def arrive_named(self, number, count, mask):
        self._meet(number, count, mask, waits=False)

    def _meet(self, number, count, mask, *, waits):
        self.together(mask)
        number = self.one(number, mask)
        turn = self.block.meet(number, self.block.threads if count is None else self.one(count, mask), self.clock)
        self.tick()
        if waits:
            barrier = self.block.named(number)
            self.wait_for(
                lambda: barrier.turn > turn, f"barrier {number}", lambda: self.learn(barrier.released[turn])
            )  # fmt: skip

    def sync_warp(self, _members, mask):
        self.together(mask)

    def fence_proxy(self, _mask):
        for at in self._unfenced:
            self.shared.fence(at, self.index)
        self._unfenced = []
        for barrier in self.block.barriers.values():
            barrier.is_fenced = True

    def load_matrices(self, address, mask):
        self.together(mask)
        at = address.astype("i8")[:, None] // 4 + np.arange(4)  # a row of 8 elements of each lane
        self._words(address.astype("i8"), "u4", 4)
        self.shared.before_read(np.unique(at), self.agent, self.clock[self.agent], self.clock)
        return list(self.shared.words[at].reshape(4, LANES))

    def store_matrices(self, address, given, mask):
        self.together(mask)
        at = self._words(address.astype("i8"), "u4", 4)
        self._write_shared(at)
        self.shared.words[at] = np.stack(given).reshape(LANES, 4)


def _widened(numbers, wide, signed):
    if numbers.dtype.itemsize == int(wide[1]):
        return numbers.view(wide)
    return numbers.view(f"i{numbers.dtype.itemsize}").astype(wide) if signed else numbers.astype(wide)
