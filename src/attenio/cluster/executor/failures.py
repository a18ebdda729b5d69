"""When a rank is gone, hangs, or differs from the others: every other rank ends with one line that names it.

Ranks tell each other what they wait for through the store of torch.distributed, which is no part of attention's
messages. A rank that cannot go on writes down whom it waits for, gives the others a moment to do the same, and follows
the chain from one to the next: who waits for nobody is the one that is gone, or hangs.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from torch.distributed import distributed_c10d

from attenio.errors import AttenioError

# How long a rank waits for others to say whom they wait for.
MOMENT = timedelta(seconds=1.5)


class RankLost(AttenioError):
    """A rank that is gone, or that sends nothing for too long."""


class RanksDiffer(AttenioError):
    """Ranks that came with other shapes, options or versions."""


@dataclass(kw_only=True)
class Watch:
    """What ranks tell each other besides messages: agreement on a call before it, and whom to blame after it."""

    rank: int
    ranks: tuple[int, ...]
    timeout: timedelta
    store: Any
    name: str = "attenio"
    agreed: set[str] = field(default_factory=set)
    rounds: int = 0

    @classmethod
    def of(cls, rank: int, ranks: tuple[int, ...], timeout: timedelta) -> "Watch":
        """The watch of a rank, its place among global ranks, on the store of the process group."""
        name = "attenio/" + "-".join(map(str, ranks))
        return cls(rank=rank, ranks=ranks, timeout=timeout, store=distributed_c10d._get_default_store(), name=name)

    def agree(self, form: str) -> None:
        """Go on when all ranks came with the same form of a call; forms that came before are not compared again."""
        if form in self.agreed or len(self.ranks) == 1:
            return
        forms, this = {self.rank: form}, self.rounds
        self.store.set(self._key("form", this, self.rank), form)
        deadline = time.monotonic() + self.timeout.total_seconds()
        missing = []
        for other in range(len(self.ranks)):
            if other == self.rank:
                continue
            found = self._read(self._key("form", this, other), deadline - time.monotonic())
            if found is None:
                missing.append(other)
                deadline = time.monotonic() + 0.1  # the others have had their time as well
            else:
                forms[other] = found
        self.rounds += not missing
        different = difference(forms)
        if different is not None:
            raise RanksDiffer(different)
        if missing:
            raise RankLost(f"{_named(missing)} did not come to a call of {form} within {_seconds(self.timeout)}")
        self.agreed.add(form)

    def blame(self, peer: int, form: str, why: str) -> AttenioError:
        """Who is at fault, when a message from or to a peer failed."""
        self._say_waiting(peer)
        time.sleep(MOMENT.total_seconds())
        forms = {self.rank: form}
        chain, at = [self.rank], peer
        while at not in chain:
            chain.append(at)
            came = self._read(self._key("form", self.rounds, at), 0.0)
            if came is not None:
                forms[at] = came
            following = self._read(self._key("waits", at), 0.0)
            if following is None:
                break
            at = int(following)
        different = difference(forms)
        if different is not None:
            return RanksDiffer(different)
        if at != chain[-1]:
            return RankLost(f"ranks {', '.join(map(str, chain))} wait for each other after {_seconds(self.timeout)}")
        return RankLost(f"rank {at} {why}; rank {self.rank} ends, in a call of {form}")

    def _say_waiting(self, peer: int) -> None:
        """Write down whom this rank waits for, if there is still a store to write to."""
        try:
            self.store.set(self._key("waits", self.rank), str(peer))
        except Exception:  # the store went with the rank that held it
            return

    def _read(self, key: str, seconds: float) -> str | None:
        try:
            self.store.wait([key], timedelta(seconds=max(0.05, seconds)))
            return str(self.store.get(key).decode())
        except Exception:  # not there in time, or no store: both mean that nothing is known
            return None

    def _key(self, *parts: object) -> str:
        return "/".join(map(str, (self.name, *parts)))


def difference(forms: dict[int, str]) -> str | None:
    """One line that says which ranks came with another form than most, and what differs.

    >>> difference({0: "query 2x8; bf16", 1: "query 2x8; bf16", 2: "query 2x9; bf16"})
    "rank 2 differs: 'query 2x9' there, 'query 2x8' on rank 0; give all ranks the same"
    """
    if len(set(forms.values())) < 2:
        return None
    counts = Counter(forms[rank] for rank in sorted(forms))
    common = counts.most_common(1)[0][0]
    holder = min(rank for rank, form in forms.items() if form == common)
    others = [rank for rank in sorted(forms) if forms[rank] != common]
    mine, theirs = common.split("; "), forms[others[0]].split("; ")
    there = "; ".join(part for part in theirs if part not in mine)
    here = "; ".join(part for part in mine if part not in theirs)
    verb = "differs" if len(others) == 1 else "differ"
    return f"{_named(others)} {verb}: {there!r} there, {here!r} on rank {holder}; give all ranks the same"


def _named(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _seconds(timeout: timedelta) -> str:
    return f"{timeout.total_seconds():g} s"
