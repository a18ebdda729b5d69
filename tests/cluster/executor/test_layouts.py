"""Strips and patchworks on ranks that are threads: results beside the definition, and bytes beside the plan."""

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.executor.in_memory import InMemory, run_ranks
from attenio.cluster.executor.layout import Between, LayoutPart, backward, forward
from attenio.cluster.executor.transport import Network
from attenio.cluster.layouts import layout_bytes, layout_words, messages_of
from attenio.cluster.patches import Patchwork
from attenio.cluster.strips import Owners, Strips
from attenio.workload import Direction, Workload
from cluster.executor.definition import FLOOR, defined, on_one_device
from cluster.patches.strategies import patchworks

TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}
UNBOUNDED = 2**40


@st.composite
def layouts(draw: st.DrawFn) -> Strips | Patchwork:
    if draw(st.booleans()):
        return draw(patchworks())
    counts = draw(st.sampled_from([(), (1,), (2,), (2, 1), (3, 2), (2, 2, 1)]))
    return Strips(
        heads=draw(st.integers(1, 2)), counts=counts, top=draw(st.integers(1, 2)), owners=draw(st.sampled_from(Owners))
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[Workload, Strips | Patchwork, torch.dtype]:
    layout, more, group = draw(layouts()), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    dtype, fewest = draw(st.sampled_from(list(TYPES))), 20 + max(4 * layout.devices, getattr(layout, "blocks", 0))
    workload = Workload(
        n=draw(st.integers(fewest, fewest + 40)), d=draw(st.sampled_from([8, 16])),
        value_dim=draw(st.sampled_from([8, 16])), heads=layout.heads * more * group, kv_heads=layout.heads * more,
        batch=draw(st.integers(1, 2)), mask="causal", dtype=TYPES[dtype], direction="training",
    )  # fmt: skip
    return workload, layout, dtype


@settings(max_examples=16, deadline=None, derandomize=True)
@given(problems(), st.integers(0, 2**31))
def test_layouts_give_what_one_device_gives_within_twice_its_error_and_send_what_is_planned_to_the_byte(
    problem: tuple[Workload, Strips | Patchwork, torch.dtype], seed: int
) -> None:
    workload, layout, dtype = problem
    torch.manual_seed(seed)
    n, batch = workload.keys, workload.batch
    shapes = [
        (batch, workload.heads, n, workload.d),
        (batch, workload.kv_heads, n, workload.d),
        (batch, workload.kv_heads, n, workload.value_dim),
        (batch, workload.heads, n, workload.value_dim),
    ]
    whole = [torch.randn(shape).to(dtype) for shape in shapes]
    homes = [torch.cat([torch.arange(*span) for span in home.spans]) for home in layout.homes(n)]

    def work(end: InMemory) -> tuple[Any, ...]:
        network = Network(transport=end)
        part = LayoutPart(workload=workload, layout=layout, network=network, scale=workload.d**-0.5)
        mine = [tensor[:, :, homes[end.rank]] for tensor in whole]
        output, kept = forward(part, *mine[:3])
        return output, *backward(part, kept, mine[3]), network.ledger

    done = run_ranks(layout.devices, work)
    found = [torch.full_like(each, torch.nan) for each in (whole[3], *whole[:3])]
    for own, (*parts, _) in zip(homes, done, strict=True):
        for into, part in zip(found, parts, strict=True):
            into[:, :, own] = part
    alone, right = on_one_device(*whole, is_causal=True), defined(*whole, -UNBOUNDED, 0)
    for mine, one, want in zip(found, alone, right, strict=True):
        error, other = (float((each.double() - want).norm()) for each in (mine, one))
        assert error <= 2 * other + FLOOR * want.numel() ** 0.5
    for direction in (Direction.FORWARD, Direction.BACKWARD):
        for each in layout_bytes(workload.towards(direction), layout):
            for rank, (*_, ledger) in enumerate(done):
                told = [ledger.sent_bytes, ledger.received_bytes]
                sent, received = (
                    sum(count for leg, count in one.items() if leg.direction is direction and leg.stage is each.stage)
                    for one in told
                )
                assert (sent, received) == (int(each.sent[rank]), int(each.received[rank])), (rank, each.stage)


def sizes(layout: Strips | Patchwork, *between: Between) -> list[int]:
    """Tokens of all messages of a kind."""
    ranks = range(layout.devices)
    return [sum(len(each) for one in ranks for other in ranks for each in sent(one, other)) for sent in between]


def test_keys_that_several_ranks_need_are_passed_on_where_their_owner_has_most_to_send() -> None:
    makers = tuple(max(1, row) if row != key else row for row in range(4) for key in range(row + 1))
    for layout in (Patchwork(owners=(0, 1, 2, 3), makers=(makers,)), Strips(heads=2, counts=(3, 2, 2))):
        messages = messages_of(Workload(n=200, d=8, heads=2, mask="causal"), layout)
        assert messages.is_passed_on
        first, second, everyone = sizes(layout, messages.keys_first, messages.keys_second, messages.keys_home)
        assert second > 0 and first + second == everyone


def test_rows_that_several_ranks_need_are_passed_on_where_keys_do_not_do() -> None:
    # every rank has its own keys with all rows after them, so that the owner of the last rows sends most
    columns = Patchwork(owners=tuple(range(6)), makers=(tuple(key for row in range(6) for key in range(row + 1)),))
    workload = Workload(n=240, d=8, mask="causal", direction="backward")
    messages = messages_of(workload, columns)
    assert messages.rows_are_passed_on and not messages.is_passed_on
    first, second, everyone = sizes(columns, messages.rows_first, messages.rows_second, messages.rows)
    assert second > 0 and first + second == everyone
    sent = sum(each.sent for each in layout_words(workload, columns))
    # alone the owner of the last rows would send twice the 5 blocks that come back from the first keys
    assert sent.max() <= 1.15 * sent.mean()
