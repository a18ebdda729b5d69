"""Every grid on ranks that are threads: results beside the definition, and bytes beside the plan."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster import Grid, Sharding, sent_words
from attenio.cluster.bytes import stage_bytes
from attenio.cluster.executor.assignment import Assignment, grid_pairs, spans_of
from attenio.cluster.executor.backward import backward
from attenio.cluster.executor.blocks import Block, projected_outputs
from attenio.cluster.executor.forward import forward
from attenio.cluster.executor.in_memory import InMemory, RankFailed, run_ranks
from attenio.cluster.executor.part import Part
from attenio.cluster.executor.transport import Ledger, Leg, Network
from attenio.cluster.words import Shares
from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.workload import Direction, Workload
from cluster.executor.definition import assert_within_twice, defined, on_one_device

laws = settings(max_examples=14, deadline=None, derandomize=True)
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads, group = draw(st.sampled_from([1, 2, 3, 4, 6])), draw(st.integers(1, 3))
    heads = draw(st.sampled_from([each for each in range(1, kv_heads + 1) if kv_heads % each == 0]))
    places = draw(st.integers(1, 8 // heads))
    columns = draw(st.sampled_from([each for each in range(1, places + 1) if places % each == 0]))
    dtype = draw(st.sampled_from(list(TYPES)))
    # In half precision the error of a few numbers is luck.
    least = 1 if dtype == torch.float32 else 24
    keys, widths = draw(st.integers(least, 70)), [1, 8, 16] if least == 1 else [8, 16]
    return {
        "grid": Grid(heads=heads, queries=places // columns, keys=columns),
        "sharding": draw(st.sampled_from([Sharding.CONTIGUOUS, Sharding.ZIGZAG])),
        "kv_heads": kv_heads,
        "heads": kv_heads * group,
        "batch": draw(st.integers(1, 2)),
        "queries": draw(st.one_of(st.just(keys), st.integers(least, 70))),
        "keys": keys,
        "d": draw(st.sampled_from(widths)),
        "value_dim": draw(st.sampled_from(widths)),
        "is_causal": draw(st.booleans()),
        "window": draw(st.sampled_from([None, None, 1, 7, (3, 5), (-1, 2)])),
        "dtype": dtype,
        "seed": draw(st.integers(0, 2**31)),
    }


class Ran:
    """A problem, its tensors, and what ranks made of them."""

    def __init__(self, problem: dict[str, Any]) -> None:
        torch.manual_seed(problem["seed"])
        self.problem, self.grid = problem, problem["grid"]
        batch, dtype = problem["batch"], problem["dtype"]
        shapes = [
            (batch, problem["heads"], problem["queries"], problem["d"]),
            (batch, problem["kv_heads"], problem["keys"], problem["d"]),
            (batch, problem["kv_heads"], problem["keys"], problem["value_dim"]),
            (batch, problem["heads"], problem["queries"], problem["value_dim"]),
        ]
        self.tensors = [torch.randn(shape).to(dtype) for shape in shapes]
        self.options = {"is_causal": problem["is_causal"], "window": problem["window"]}
        visible = visibility_of(self.tensors[0], self.tensors[1], CallArguments(**self.options), (batch,))
        self.band = visible.below, visible.above
        lengths = problem["queries"], problem["keys"]
        self.spans = [spans_of(length, self.grid.devices, problem["sharding"]) for length in lengths]
        self.work = Assignment(
            heads=self.grid.heads, queries=self.spans[0], keys=self.spans[1], pairs=grid_pairs(self.grid),
            below=visible.below, above=visible.above,
        )  # fmt: skip
        done = run_ranks(self.grid.devices, self.rank)
        self.ledgers: list[Ledger] = [ledger for *_, ledger in done]
        owned = [self.spans[0], self.spans[0], self.spans[1], self.spans[1]]
        like = [self.tensors[3], *self.tensors[:3]]
        self.found = [torch.full_like(each, torch.nan) for each in like]
        for index, whole in enumerate(self.found):
            for rank, parts in enumerate(done):
                start = 0
                for first, stop in owned[index][rank]:
                    whole[:, :, first:stop] = parts[index][:, :, start : start + stop - first]
                    start += stop - first
                assert start == parts[index].shape[2]

    def rank(self, end: InMemory) -> tuple[Any, ...]:
        network = Network(transport=end)
        part = Part(work=self.work, network=network, scale=self.problem["d"] ** -0.5)
        mine = [
            torch.cat([tensor[:, :, first:stop] for first, stop in self.spans[side][end.rank]], 2)
            for tensor, side in zip(self.tensors, (0, 1, 1, 0), strict=True)
        ]
        output, kept = forward(part, *mine[:3])
        return output, *backward(part, kept, mine[3]), network.ledger

    def workload(self, direction: Direction, mask: str) -> Workload:
        names = ("queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch")
        sizes = {name: self.problem[name] for name in names}
        return Workload(**sizes, mask=mask, dtype=TYPES[self.problem["dtype"]], direction=direction)


@laws
@given(problems())
def test_results_and_gradients_of_all_ranks_are_those_of_one_device_within_twice_its_error(
    problem: dict[str, Any],
) -> None:
    ran = Ran(problem)
    right = defined(*ran.tensors, *ran.band)
    assert_within_twice(ran.found, on_one_device(*ran.tensors, **ran.options), right)


def test_rows_that_are_computed_with_in_single_precision_some_at_a_time_give_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = {
        "grid": Grid(queries=2, keys=2), "sharding": Sharding.ZIGZAG, "kv_heads": 1, "heads": 2, "batch": 1,
        "queries": 103, "keys": 103, "d": 8, "value_dim": 8, "is_causal": True, "window": (20, 0),
        "dtype": torch.bfloat16, "seed": 4,
    }  # fmt: skip
    whole = Ran(problem)
    monkeypatch.setattr("attenio.cluster.executor.blocks._STRETCH", 5)
    cut = Ran(problem)
    for mine, one in zip(cut.found, whole.found, strict=True):
        torch.testing.assert_close(mine.float(), one.float(), rtol=2**-7, atol=1e-5)


def test_outputs_in_half_precision_that_are_sums_over_many_parts_are_rounded_once() -> None:
    problem = {
        "grid": Grid(queries=4), "sharding": Sharding.ZIGZAG, "kv_heads": 1, "heads": 2, "batch": 1, "queries": 203,
        "keys": 203, "d": 16, "value_dim": 16, "is_causal": True, "window": None, "dtype": torch.bfloat16, "seed": 3,
    }  # fmt: skip
    ran = Ran(problem)
    right = defined(*ran.tensors, *ran.band)[0]
    half_ulp = 2.0 ** (torch.floor(torch.log2(right.abs())) - 8)
    assert ((ran.found[0].double() - right).abs() <= half_ulp + 1e-6).all()


@settings(laws, max_examples=12)
@given(problems())
def test_every_rank_sends_in_every_stage_the_bytes_that_are_planned(problem: dict[str, Any]) -> None:
    windowed = isinstance(problem["window"], int)
    if windowed:
        problem["keys"] = max(problem["keys"], problem["window"])
        # planned for tokens in order, rows only, and no other restriction
        grid = problem["grid"]
        problem |= {"sharding": Sharding.CONTIGUOUS, "is_causal": False}
        problem["grid"] = Grid(heads=grid.heads, queries=grid.queries * grid.keys)
    elif isinstance(problem["window"], tuple):
        problem["window"] = None
    mask = f"window:{problem['window']}" if windowed else "dense"
    ran = Ran(problem)
    for direction in (Direction.FORWARD, Direction.BACKWARD):
        workload = ran.workload(direction, mask)
        shares = Shares.of(workload, ran.grid, problem["sharding"])
        for each in stage_bytes(workload, ran.grid, shares):
            leg = Leg(direction, each.stage)
            assert [ledger.sent_bytes[leg] for ledger in ran.ledgers] == each.sent.tolist(), leg
            assert [ledger.received_bytes[leg] for ledger in ran.ledgers] == each.received.tolist(), leg
    if problem["dtype"] == torch.float32:  # then a word is four bytes, whatever it is of
        words = sent_words(ran.workload(Direction.TRAINING, mask), ran.grid, problem["sharding"])
        assert [ledger.total_sent_bytes for ledger in ran.ledgers] == (4 * words).tolist()


@settings(max_examples=3, deadline=None, derandomize=True)
@given(problems())
def test_a_run_repeats_to_the_bit(problem: dict[str, Any]) -> None:
    first, second = Ran(problem), Ran(problem)
    assert all(torch.equal(mine, again) for mine, again in zip(first.found, second.found, strict=True))


def test_under_a_causal_mask_zigzag_tokens_give_every_place_as_many_scores() -> None:
    for grid in (Grid(queries=4, keys=2), Grid(queries=3, keys=3), Grid(queries=8), Grid(keys=5)):
        owned = spans_of(2 * grid.devices * 4, grid.devices, Sharding.ZIGZAG)
        work = Assignment(heads=1, queries=owned, keys=owned, pairs=grid_pairs(grid), below=-(2**40), above=0)
        scores = set()
        for place in range(work.places):
            count = 0
            for q, k in work.pairs[place]:
                rows = [row for span in work.query_cells[q].spans for row in range(*span)]
                columns = [column for span in work.key_cells[k].spans for column in range(*span)]
                count += sum(column < row for row in rows for column in columns)
                count += sum(column == row for row in rows for column in columns) / 2
            scores.add(count)
        assert len(scores) == 1, grid


def test_the_next_keys_are_under_way_while_a_kernel_works_on_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    events: dict[int, list[str]] = {}
    attend, post = Block.attend, InMemory.post

    def posted(end: InMemory, *given: Any) -> Any:
        events.setdefault(end.rank, []).append("post")
        return post(end, *given)

    def attended(block: Block, *given: Any) -> Any:
        (rank,) = [each for each, owned in enumerate(spans) if owned[0] == block.queries]
        events[rank].append("kernel")
        return attend(block, *given)

    spans = spans_of(16, 4, Sharding.CONTIGUOUS)
    work = Assignment(
        heads=1, queries=spans, keys=spans, pairs=grid_pairs(Grid(queries=4)), below=-(2**40), above=2**40
    )
    monkeypatch.setattr(Block, "attend", attended)
    monkeypatch.setattr(InMemory, "post", posted)

    def rank(end: InMemory) -> None:
        part = Part(work=work, network=Network(transport=end), scale=1.0)
        forward(part, *(torch.randn(1, 1, 4, 2) for _ in range(3)))

    run_ranks(4, rank)
    for each in events.values():
        # queries, which nobody needs, keys of the first step; then each kernel with one more step under way
        assert each[:7] == ["post", "post", "kernel", "post", "kernel", "post", "kernel"]
        assert each.count("kernel") == 4


def test_the_output_along_its_gradient_has_the_same_product_with_it_also_where_that_is_tiny_or_zero() -> None:
    torch.manual_seed(0)
    gradient, output = torch.randn(2, 50, 8), torch.randn(2, 50, 8)
    gradient[0, :10] *= 1e-30
    gradient[1, :10] = 0.0
    delta = (gradient * output).sum(-1)
    found = projected_outputs(gradient, delta)
    again = (gradient * found).sum(-1)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(again, delta, rtol=1e-5, atol=0.0)


def test_a_rank_that_fails_is_named_and_nobody_waits_for_it() -> None:
    def work(end: InMemory) -> None:
        if end.rank == 2:
            raise InvalidInput("no")
        end.post([], [((end.rank + 1) % 3, 8)], torch.empty(0)).wait()

    with pytest.raises((RankFailed, InvalidInput), match=r"^no$|rank 2 failed"):
        run_ranks(3, work)


def test_messages_of_another_length_are_refused() -> None:
    def work(end: InMemory) -> None:
        end.post(
            [(1 - end.rank, torch.zeros(4 + end.rank, dtype=torch.uint8))], [(1 - end.rank, 4)], torch.empty(0)
        ).wait()

    with pytest.raises(RankFailed, match=r"rank 1 sent 5 bytes and rank 0 expects 4; give all ranks the same shapes"):
        run_ranks(2, work)


def test_striped_tokens_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"striped tokens are planned and not run, .* use zigzag"):
        spans_of(8, 2, Sharding.STRIPED)
