"""Balanced work: devices that each do their share of the work must exchange words for it."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from attenio.bounds.epochs import whole_words
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.cluster.bounds.both_ends import both_ends_words
from attenio.cluster.bounds.causal_heads import CausalHeads, apart_words, neighbour_words
from attenio.cluster.bounds.early_rows import early_row_words
from attenio.cluster.bounds.first_rows import first_row_words
from attenio.cluster.bounds.late_rows import late_row_words
from attenio.cluster.bounds.one_device import (
    HeadWords,
    Home,
    causal_price,
    dense_price,
    row_and_key_words,
    window_price,
    words_for_work,
)
from attenio.cluster.bounds.own_positions import position_words
from attenio.cluster.bounds.own_rows import OwnRows, own_row_words
from attenio.cluster.bounds.single_tokens import single_token_words
from attenio.cluster.grid import checked_devices
from attenio.cluster.partition import even_sizes
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.workload import Direction, Workload, checked_workload, refuse_forms

PAGE = "docs/theory/devices_balanced.md"


def balanced_exchange(workload: Workload, devices: int, *, imbalance: Fraction | float = 1) -> LowerBound:
    """Words that devices exchange when none does more than its share of the work, times ``imbalance``.

    Theorem: with Z pairs, a device makes N <= imbalance·Z/P of them and exchanges at least the words that Y words of
    rows and X words of keys take beyond its own, with Y·X >= G·N. For one dense head 4nd(sqrt(P) - 1) in all; for g
    query heads on one KV head 2nd(P - 1) up to P = g and 4nd sqrt(gP) - 2nd(g+1) from there on.
    Assumes: tokens are spread evenly with all their heads; scores and results are sums of products of their own. Where
    single tokens decide, recomputed products count as work.
    Regime: any lengths; met word for word by a square grid, and by all-gather for P <= g.
    Proof: docs/theory/devices_balanced.md

    >>> n, d = 4096, 64
    >>> balanced_exchange(Workload(n=n, d=d), 16).words == 4 * n * d * (4 - 1)
    True
    >>> balanced_exchange(Workload(n=n, d=d, heads=8, kv_heads=1), 8).words == 2 * n * d * (8 - 1)
    True
    """
    effective, by_single_tokens = _words_by_what_counts(workload, devices, imbalance)
    recomputed = ", recomputed ones included" if by_single_tokens > effective else ""
    return LowerBound(
        theorem="balanced-exchange",
        words=int(whole_words(max(effective, by_single_tokens))),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=_regime(workload, devices),
        citation=f"derived here, {PAGE}",
        assumptions=(
            "tokens are spread evenly over the devices with all their heads, and each word is on one device at first",
            f"no device does more than {_share(imbalance)} of the products of a kind{recomputed}",
            "each score and each result is a sum of products of its own; recomputation allowed",
        ),
        page=PAGE,
    )


def exchanged_words(workload: Workload, devices: int, *, imbalance: Fraction | float = 1) -> float:
    """The same as a number, before it is rounded up to whole words."""
    return max(_words_by_what_counts(workload, devices, imbalance))


def _words_by_what_counts(workload: Workload, devices: int, imbalance: Fraction | float) -> tuple[float, float]:
    """Words where effective products count as work, and where recomputed ones do too: the latter by single tokens."""
    checked_workload(workload)
    refuse_forms(workload, "bounds for many devices know no")
    checked_devices(devices)
    if not 1 <= imbalance < float("inf"):
        raise InvalidInput(f"imbalance is {imbalance}; give the largest share over the mean one, 1 or more")
    if workload.is_training:
        # a step does what either of its passes does, with the same balance
        passes = (workload.towards(Direction.FORWARD), workload.towards(Direction.BACKWARD))
        return max(_exchanged(each, devices, imbalance) for each in (workload, *passes)), 0.0
    return _exchanged(workload, devices, imbalance), _single_words(workload, devices, float(imbalance))


def _exchanged(workload: Workload, devices: int, imbalance: Fraction | float) -> float:
    head, heads = HeadWords.of(workload), workload.kv_heads * workload.batch
    share = min(float(imbalance * workload.scores / devices), float(workload.scores))
    left, classes = float(workload.scores), []
    for home, count in homes(workload, devices).items():
        free = min(heads * home.pairs(head), share)
        left -= count * free
        words = max(words_for_work(share, heads, head, home), _priced_words(workload, share, head, home))
        # concave beyond what is free, so at least its chord: so many words for each pair
        classes.append((words / (share - free) if share > free else 0.0, count * (share - free)))
    total = 0.0
    for price, room in sorted(classes):
        taken = min(max(left, 0.0), room)
        total, left = total + price * taken, left - taken
    return max(total, _causal_words(workload, devices, float(imbalance)), _dense_words(workload, devices))


def _dense_words(workload: Workload, devices: int) -> float:
    """What dense pairs of different homes take by their price, however even work is; 0 where that is not known."""
    applies = isinstance(workload.mask, Dense) and workload.queries == workload.keys and not workload.values_in_keys
    if not applies or workload.value_dim > workload.d or devices == 1:
        return 0.0
    shares = even_sizes(workload.keys, devices)
    at_home = workload.heads * workload.batch * int((shares * shares).sum())
    return (workload.scores - at_home) * dense_price(workload, devices)


def _causal_words(workload: Workload, devices: int, imbalance: float) -> float:
    """What causal rows and keys take by prices of their own; 0 where that is not known."""
    shape = _causal_shape(workload, devices)
    if shape is None:
        return 0.0
    every, heads = CausalHeads(**shape), shape["heads"]
    # own rows of several heads are those of the same tokens, of one sequence
    own = own_row_words(OwnRows(**shape), imbalance) if workload.batch == 1 else 0.0
    late = late_row_words(every, imbalance) if workload.batch == 1 and heads > 1 else 0.0
    early = max(early_row_words(every, imbalance), both_ends_words(every, imbalance)) if heads > 1 else 0.0
    one = max(position_words(every, imbalance), first_row_words(every, imbalance)) if heads == 1 else 0.0
    return max(own, late, early, one, apart_words(every), neighbour_words(every, imbalance))


def _single_words(workload: Workload, devices: int, imbalance: float) -> float:
    """What single tokens of causal heads take forward, where rows and keys are whole where their pairs are made."""
    shape = _causal_shape(workload, devices)
    if shape is None or workload.direction is not Direction.FORWARD:
        return 0.0
    return single_token_words(CausalHeads(**shape), imbalance)


def _causal_shape(workload: Workload, devices: int) -> dict[str, int] | None:
    """Causal heads by their sizes; None where rows and keys have no prices of their own."""
    applies = isinstance(workload.mask, Causal) and workload.queries == workload.keys and not workload.values_in_keys
    if not applies or workload.value_dim > workload.d:
        return None
    (row, key), heads = row_and_key_words(workload), workload.kv_heads * workload.batch
    shape = {"tokens": workload.keys, "devices": devices, "group": workload.group, "row_words": row, "key_words": key}
    return {"heads": heads, **shape}


def homes(workload: Workload, devices: int) -> Counter[Home]:
    """What devices have of one head at first, and how many have the same."""
    row, key = row_and_key_words(workload)
    queries, keys = (even_sizes(length, devices).tolist() for length in (workload.queries, workload.keys))
    found: Counter[Home] = Counter()
    for (q, k), count in Counter(zip(queries, keys, strict=True)).items():
        unseen = workload.group * float(k * k - own_seen(workload, k)) if workload.queries == workload.keys else 0.0
        found[Home(row_words=float(workload.group * q * row), key_words=float(k * key), unseen=unseen)] += count
    return found


def own_seen(workload: Workload, tokens: int) -> int:
    """Pairs of so many tokens of which the query sees the key, at most: of the j-th token the keys up to it, or w.

    >>> own_seen(Workload(n=8, d=4, mask="window:2"), 4), own_seen(Workload(n=8, d=4, mask="causal"), 4)
    (7, 10)
    """
    mask = workload.mask
    if not isinstance(mask, Causal | SlidingWindow):
        return tokens * tokens
    width = min(tokens, mask.width) if isinstance(mask, SlidingWindow) else tokens
    before = tokens * width - width * (width - 1) // 2
    return before if isinstance(mask, Causal) or mask.causal else 2 * before - tokens


def _priced_words(workload: Workload, share: float, head: HeadWords, home: Home) -> float:
    """What a share of causal or window work takes by the price of a pair; 0 where that is not known."""
    forward, mask = workload.direction is Direction.FORWARD, workload.mask
    if workload.queries != workload.keys or workload.values_in_keys:
        return 0.0
    if isinstance(mask, SlidingWindow) and forward:
        price = window_price(workload)
    elif isinstance(mask, Causal) and (forward or workload.value_dim <= workload.d):
        price = causal_price(workload, round(home.key_words / (head.key_words / workload.keys)))
    else:
        return 0.0
    return max(share - workload.kv_heads * workload.batch * home.pairs(head), 0.0) * price


def trade_off(
    workload: Workload, devices: int, imbalances: Iterable[Fraction | float]
) -> tuple[tuple[float, int], ...]:
    """Bounds against the largest share of the work over the mean one: what unbalanced work can save.

    >>> [words for _, words in trade_off(Workload(n=4096, d=64), 16, (1, 2, 4, 16))]
    [3145728, 2362774, 1747627, 983040]
    """
    return tuple((float(each), balanced_exchange(workload, devices, imbalance=each).words) for each in imbalances)


def _share(imbalance: Fraction | float) -> str:
    return "its share" if imbalance == 1 else f"{float(imbalance):.6g} times its share"


def _regime(workload: Workload, devices: int) -> str:
    heads = workload.kv_heads * workload.batch
    if devices == 1:
        return "one device: nothing to exchange"
    if devices <= heads:
        return "no more devices than KV heads: whole heads on a device"
    if devices <= workload.heads * workload.batch:
        return "no more devices than query heads: rows of some, all keys of a head"
    return "more devices than heads: rows and keys of one head"
