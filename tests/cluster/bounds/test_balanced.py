from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.cluster import Grid, grids, sent_words
from attenio.cluster.bounds import balanced_exchange, exchanged_words, trade_off
from attenio.cluster.bounds.device_memory import device_memory
from attenio.cluster.bounds.one_device import dense_price, row_and_key_words
from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.patches.plan import best_patches, plan_patches
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.plan import best_strips, plan_strips
from attenio.errors import InvalidInput
from attenio.workload import Workload
from cluster.bounds.placements import exchanged, home
from cluster.strategies import problems

laws = settings(max_examples=20, deadline=None, derandomize=True)
CASES = [
    (Workload(n=3, d=2), 3, False),
    (Workload(n=2, d=1, heads=2, kv_heads=1), 2, True),
    (Workload(n=2, d=3, heads=2), 2, True),
    (Workload(n=2, d=2, value_dim=3, heads=2, kv_heads=1), 2, True),
    (Workload(n=3, d=1, value_dim=2, mask="causal"), 3, True),
    (Workload(n=3, d=3, mask="causal", heads=2, kv_heads=1), 2, False),
    (Workload(n=4, d=2, mask="causal"), 2, False),
    (Workload(n=3, d=1, mask="causal", heads=2), 2, False),
    (Workload(n=2, d=2, mask="causal", heads=2), 2, True),
    (Workload(n=2, d=1, mask="causal", heads=3), 3, False),
    (Workload(n=2, d=1, mask="causal", heads=4, kv_heads=2), 2, False),
    (Workload(n=5, d=2, mask="window:2"), 3, False),
    (Workload(n=4, d=2, mask="window:2:both"), 2, False),
    (Workload(queries=1, keys=4, d=2), 4, True),
    (Workload(queries=1, keys=3, d=1, heads=2, kv_heads=1), 3, True),
    (Workload(n=3, d=2, direction="backward"), 3, False),
    (Workload(n=2, d=1, value_dim=2, heads=2, direction="backward"), 2, True),
    (Workload(n=3, d=2, mask="causal", direction="backward"), 3, True),
    (Workload(n=3, d=2, value_dim=1, mask="causal", heads=2, kv_heads=1, direction="backward"), 2, False),
    (Workload(n=2, d=2, mask="causal", heads=2, direction="backward"), 2, True),
    (Workload(n=2, d=2, mask="causal", heads=4, kv_heads=2, direction="backward"), 2, False),
    (Workload(n=2, d=3, value_dim=2, mask="causal", heads=3, direction="backward"), 3, False),
]


@pytest.mark.parametrize("striped", [False, True])
@pytest.mark.parametrize(("workload", "devices", "sends_scores"), CASES, ids=str)
def test_no_placement_of_a_small_problem_exchanges_less_whatever_its_balance(
    workload: Workload, devices: int, sends_scores: bool, striped: bool
) -> None:
    found = dict.fromkeys(range(1, workload.scores + 1), 10**9)
    for words, most in exchanged(workload, devices, striped=striped, sends_scores=sends_scores):
        for load in np.unique(most):
            found[int(load)] = min(found[int(load)], int(words[most == load].min()))
    for load, words in found.items():
        imbalance = Fraction(load * devices, workload.scores)
        if imbalance >= 1:
            assert balanced_exchange(workload, devices, imbalance=imbalance).words <= words


def test_the_search_finds_what_the_bound_says_where_a_grid_meets_it() -> None:
    for workload, devices in ((Workload(n=2, d=1, heads=2, kv_heads=1), 2), (Workload(n=2, d=3), 2)):
        ((words, most),) = exchanged(workload, devices, striped=False, sends_scores=False)
        least = int(words[most == workload.scores // devices].min())
        assert least >= balanced_exchange(workload, devices).words
        grid = Grid(queries=devices)
        assert int(sent_words(workload, grid).sum()) == least


@laws
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(1, 64))
def test_a_square_grid_meets_the_bound_of_one_dense_head_word_for_word(
    side: int, share: int, d: int, more: int
) -> None:
    devices = side * side
    d, n = d * more, share * devices
    workload, grid = Workload(n=n, d=d), Grid(queries=side, keys=side)
    log_sum_exps = share * (side - 1) * devices
    exact = int(sent_words(workload, grid).sum()) - log_sum_exps
    assert exact == 4 * n * d * (side - 1)
    bound = balanced_exchange(workload, devices).words
    assert bound == exact if share * (side + 1) >= 4 * d else bound <= exact


@laws
@given(st.integers(1, 8), st.integers(0, 4), st.integers(1, 4))
def test_all_gather_meets_the_bound_up_to_as_many_devices_as_query_heads(
    devices: int, more: int, kv_heads: int
) -> None:
    group, d = devices + more, 2
    n = 8 * devices
    workload = Workload(n=n, d=d, heads=group * kv_heads, kv_heads=kv_heads)
    exact = int(sent_words(workload, Grid(queries=devices)).sum())
    assert exact == 2 * n * d * kv_heads * (devices - 1) == balanced_exchange(workload, devices).words


@laws
@given(st.integers(1, 5), st.integers(1, 40))
def test_more_devices_than_query_heads_follow_the_root_of_their_product(group: int, more: int) -> None:
    devices, n, d = group + more, 4096, 4
    workload = Workload(n=n * devices, d=d, heads=group, kv_heads=1)
    expected = 4 * workload.keys * d * sqrt(group * devices) - 2 * workload.keys * d * (group + 1)
    assert exchanged_words(workload, devices) == pytest.approx(expected, rel=1e-9)


@laws
@given(problems(longest=60, directions=("forward", "backward", "training")))
def test_no_grid_sends_less_than_the_bound_for_its_balance(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    assert balanced_exchange(workload, grid.devices, imbalance=counted_imbalance(workload, grid)).words <= int(
        sent_words(workload, grid).sum()
    )


def counted_imbalance(workload: Workload, grid: Grid) -> Fraction:
    """Pairs of the busiest device over the mean, counted one by one."""
    from attenio.cluster.partition import positions, sharding_for

    sharding = sharding_for(workload.mask)
    ((pattern, _),) = workload.separate_patterns
    visible = pattern.required(0, pattern.rows, np.arange(pattern.keys))
    held = [
        [positions(length, grid.devices, share, sharding) for share in range(grid.devices)]
        for length in (workload.queries, workload.keys)
    ]
    most = 0
    for rank in range(0, grid.devices, grid.heads):
        place = grid.place(rank)
        rows = np.concatenate([held[0][p] for p in range(grid.devices) if grid.place(p).row == place.row])
        keys = np.concatenate([held[1][p] for p in range(grid.devices) if grid.place(p).column == place.column])
        most = max(most, int(visible[np.ix_(rows, keys)].sum()))
    return max(Fraction(most * grid.devices // grid.heads, int(visible.sum())), Fraction(1))


@laws
@given(
    st.integers(1, 12), st.integers(1, 3), st.sampled_from(["dense", "causal"]), st.integers(4, 16), st.integers(4, 16)
)
def test_less_balance_never_asks_for_more_words(devices: int, heads: int, mask: str, one: int, other: int) -> None:
    workload = Workload(n=3 * devices, d=2, heads=2 * heads, kv_heads=heads, mask=mask)
    imbalances = [Fraction(each, 4) for each in sorted((one, other))]
    (_, more), (_, less) = trade_off(workload, devices, imbalances)
    assert less <= more


@laws
@given(st.integers(2, 8), st.integers(2, 20), st.integers(1, 3), st.integers(1, 3))
def test_a_narrow_window_costs_half_of_the_keys_before_each_share(
    devices: int, share: int, group: int, kv_heads: int
) -> None:
    width, d = max(1, share // 2), 1
    workload = Workload(n=share * devices, d=d, heads=group * kv_heads, kv_heads=kv_heads, mask=f"window:{width}")
    own = share * width - width * (width - 1) // 2
    beyond = workload.scores - devices * workload.heads * own
    price = min(Fraction(2 * d, width * group), Fraction(1))
    assert exchanged_words(workload, devices) >= float(beyond * price) * (1 - 1e-9)
    halo = int(sent_words(workload, Grid(queries=devices)).sum())
    assert balanced_exchange(workload, devices).words <= halo
    if width > 1:
        assert beyond > 0 and halo <= 2 * 2 * d * kv_heads * (width - 1) * (devices - 1)


def test_work_on_one_device_exchanges_what_the_others_own() -> None:
    n, d, devices = 4096, 64, 16
    everything = balanced_exchange(Workload(n=n, d=d), devices, imbalance=devices).words
    assert everything <= 4 * n * d * (devices - 1) // devices
    assert balanced_exchange(Workload(n=n, d=d), 1).words == 0


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 2), (8, 8), (8, 2), (32, 8), (16, 1), (128, 1), (32, 32)])
def test_from_eight_devices_on_the_best_grid_is_within_12_percent_of_the_bound_of_a_dense_mask(
    heads: int, kv_heads: int, direction: str
) -> None:
    for devices in (8, 16, 32, 64, 128, 256, 512, 1024):
        workload = Workload(n=2**20, d=128, heads=heads, kv_heads=kv_heads, direction=direction)
        best = min(int(sent_words(workload, grid).max()) for grid in grids(devices, kv_heads))
        assert best * devices <= 1.12 * balanced_exchange(workload, devices).words


def test_exchanging_heads_meets_the_bound_of_whole_heads_word_for_word() -> None:
    for devices, more, share in ((4, 1, 3), (8, 1, 4), (8, 4, 2), (6, 2, 5)):
        workload = Workload(n=share * devices, d=3, heads=devices * more)
        sent = int(sent_words(workload, Grid(heads=devices)).sum())
        assert balanced_exchange(workload, devices).words == sent
        # whoever does how much of the work
        assert balanced_exchange(workload, devices, imbalance=devices).words == sent


@pytest.mark.parametrize(("n", "devices", "group"), [(8, 4, 1), (7, 3, 1), (9, 3, 2), (10, 5, 3), (11, 4, 2)])
def test_no_rows_and_keys_of_a_device_make_more_pairs_of_different_homes_than_their_price_allows(
    n: int, devices: int, group: int
) -> None:
    for direction in ("forward", "backward"):
        workload = Workload(n=n, d=2, heads=group, kv_heads=1, direction=direction)
        row, key = row_and_key_words(workload)
        price, homes = dense_price(workload, devices), np.array([home(n, devices, i, striped=False) for i in range(n)])
        sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 > 0
        by_home = np.stack([sets[:, homes == each].sum(axis=1) for each in range(devices)], axis=1)
        for device in range(devices):
            own = homes == device
            some = by_home[sets[:, own].all(axis=1)]
            pairs = np.outer(some.sum(axis=1), some.sum(axis=1)) - some @ some.T
            words = (some.sum(axis=1) - own.sum())[:, None] * row * group + (some.sum(axis=1) - own.sum()) * key
            assert (words >= price * group * pairs - 1e-9).all()


@laws
@given(problems(directions=("training",)))
def test_a_step_exchanges_no_less_than_either_of_its_passes(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    step = exchanged_words(workload, grid.devices)
    for direction in ("forward", "backward"):
        assert exchanged_words(workload.towards(direction), grid.devices) <= step


def test_a_bound_names_its_page_and_what_it_assumes_and_nonsense_is_refused() -> None:
    bound = balanced_exchange(Workload(n=64, d=4), 4, imbalance=1.5)
    assert bound.strength is Strength.ORDINARY and bound.page == "docs/theory/devices_balanced.md"
    assert "no device does more than 1.5 times its share of the products of a kind" in bound.assumptions
    with pytest.raises(InvalidInput, match=r"imbalance is 0.5; give the largest share over the mean one, 1 or more"):
        exchanged_words(Workload(n=64, d=4), 4, imbalance=0.5)


def test_keys_of_which_several_share_a_word_have_no_bound_as_all_keys_to_all_devices_are_fewer_words() -> None:
    shape = {"n": 4096, "d": 64, "heads": 8, "kv_heads": 1, "mask": "causal"}
    packed, whole = Workload(**shape, kv_bits=4), Workload(**shape)
    assert 7 * packed.keys * packed.key_words < balanced_exchange(whole, 8).words
    table = Patchwork(owners=(0, 1), makers=((0, 1, 1),))
    assert best_strips(packed, 8) is best_patches(packed, 8) is None
    for refused in (
        lambda: balanced_exchange(packed, 8),
        lambda: device_memory(packed, 8, 2**14),
        lambda: plan_strips(packed, Strips(counts=(4,), top=4)),
        lambda: plan_patches(packed, table),
    ):
        with pytest.raises(InvalidInput, match="many devices know no kv_bits"):
            refused()
