"""What moves: a run on the counted memory, event by event, small enough to watch.

>>> from attenio import Workload, best_plan
>>> plan = best_plan(Workload(n=131072, d=64), "attenio-512k")
>>> little = small_plan(plan)
>>> frames = frames_of(little)
>>> frames[-1].loaded_words + frames[-1].stored_words == little.moved_words
True
"""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.elements import ElementType
from attenio.errors import AttenioError, DoesNotFit
from attenio.masks import BlockSparse, Causal, Dense, Documents, Layout, Mask, SharedPrefix, SlidingWindow
from attenio.memory.trace import Event, EventKind
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow, Plan, is_exact_forward
from attenio.quantities import show_words
from attenio.report.pictures.canvas import box, outline, picture, text
from attenio.workload import Direction, Workload

_LENGTH, _D = 12, 2
# Documents, and blocks each way, that are drawn: every number up to this one divides the length.
_FEW = 4
_KINDS = {"Q": "query", "K": "key", "V": "value", "O": "output", "S": "score", "P": "score"}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One event of a run: what moved or was computed, which rows of each matrix fast memory then has, words so far."""

    kind: str
    operand: str
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    words: int
    resident: tuple[tuple[str, tuple[int, ...]], ...]
    loaded_words: int
    stored_words: int
    step: str = ""


def small_plan(plan: Plan) -> Plan:
    """The same dataflow on a dozen positions, with tiles of about as large a share of them, but a quarter at least."""
    workload = plan.workload
    little = Workload(
        queries=1 if workload.is_decode else _LENGTH,
        keys=_LENGTH,
        d=_D,
        mask=_small_mask(workload),
        dtype=ElementType.FP16,  # the same words move in every type, and a browser's NumPy has no other narrow one
    )
    wanted = max(_share(plan), 0.25)
    exact = is_exact_forward(plan.dataflow)
    dataflow = plan.dataflow if exact and workload.direction is Direction.FORWARD else Dataflow.ATTENIO
    plans: list[Plan] = []
    for words in (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128):
        try:
            plans.append(best_plan_for(little, words, dataflow=dataflow))
        except DoesNotFit:
            continue
        except AttenioError:
            break
    if not plans:
        return best_plan_for(little, 48)
    return min(plans, key=lambda each: abs(_share(each) - wanted))


def frames_of(plan: Plan) -> tuple[Frame, ...]:
    """Every load, store and computation of a run, in order."""
    from attenio.dataflows import execute

    resident: dict[str, tuple[int, ...]] = {}
    loaded = stored = 0
    frames = []
    for event in execute(plan, record=True).trace.events:
        if event.kind is EventKind.RELEASE:
            resident.pop(event.operand, None)
            continue
        if event.kind is EventKind.RESERVE:
            continue
        rows = tuple(int(row) for row in event.rows)
        if event.kind is EventKind.LOAD:
            loaded += event.words
            resident[event.operand] = rows
        elif event.kind is EventKind.STORE:
            stored += event.words
        elif event.operand in ("S", "P", "O"):
            resident[event.operand] = rows
        frames.append(_frame(event, rows, resident, loaded, stored))
    return tuple(frames)


def _frame(
    event: Event, rows: tuple[int, ...], resident: dict[str, tuple[int, ...]], loaded: int, stored: int
) -> Frame:
    return Frame(
        kind=event.kind.value,
        operand=event.operand,
        rows=rows,
        columns=tuple(int(column) for column in event.columns),
        words=event.words,
        resident=tuple(resident.items()),
        loaded_words=loaded,
        stored_words=stored,
        step="" if event.step is None else event.step.value,
    )


def moves_svg(plan: Plan, *, shown: int = 6) -> str:
    """The first loads and stores of a plan small enough to watch, a panel each."""
    frames = [frame for frame in frames_of(plan) if frame.kind in ("load", "store")]
    first_store = next((k for k, frame in enumerate(frames) if frame.kind == "store"), len(frames) - 1)
    picked = [*frames[: shown - 1], frames[max(first_store, min(shown, len(frames)) - 1)]]
    panel, height = 150.0, 250.0
    parts = [
        text(20, 28, "What moves", font_size="18", font_weight="600"),
        text(20, 48, f"{plan.dataflow.value}: {plan.tiles}, {show_words(plan.fast_words)} of fast memory", "soft"),
    ]
    for number, frame in enumerate(picked):
        parts += _panel(20 + number * panel, 80, plan, frame)
    last = frames[-1]
    told = f"In all {last.loaded_words} words are loaded and {last.stored_words} stored."
    parts.append(text(20, height - 6, told, "soft"))
    description = "; ".join(_told(frame) for frame in picked) + f". {told}"
    return picture(40 + panel * len(picked), height, "What moves", description, parts)


def _told(frame: Frame) -> str:
    rows = f"rows {frame.rows[0]} to {frame.rows[-1]}" if frame.rows else "nothing"
    return f"{frame.kind} {rows} of {frame.operand}: {show_words(frame.words)}"


def _panel(x: float, y: float, plan: Plan, frame: Frame) -> list[str]:
    """Slow memory as columns of rows; what is in fast memory is filled, what moves now is outlined."""
    parts = [text(x, y - 8, f"{frame.kind} {frame.operand}", font_weight="600")]
    held = dict(frame.resident)
    cell = 120.0 / _LENGTH
    for number, operand in enumerate(("Q", "K", "V", "O")):
        left = x + number * 32
        length = plan.workload.queries if operand in ("Q", "O") else plan.workload.keys
        parts.append(outline(left, y, 24, cell * length))
        # split keys keep a partial O for every split, which slow memory numbers after the rows of O itself
        shown = [row for row in held.get(operand, ()) if row < length]
        parts += [box(left + 1, y + cell * row, 22, cell - 1, _KINDS[operand]) for row in shown]
        if operand == frame.operand and frame.rows and max(frame.rows) < length:
            top, rows = y + cell * min(frame.rows), len(frame.rows)
            parts.append(
                f'<rect x="{left - 3:.1f}" y="{top - 2:.1f}" width="30" height="{cell * rows + 3:.1f}" fill="none"'
                ' class="s-ink" stroke-width="2.5"/>'
            )
        parts.append(text(left + 12, y + 138, operand, "soft", text_anchor="middle"))
    return parts


def _small_mask(workload: Workload) -> Mask:
    match workload.mask:
        case Causal():
            return Causal()
        case SlidingWindow(width=width, causal=causal):
            return SlidingWindow(width=max(1, min(_LENGTH, round(_LENGTH * width / workload.keys))), causal=causal)
        case Dense():
            return Dense()
        case SharedPrefix(causal=causal):  # of one request: the prefix, and its own keys
            return Causal() if causal else Dense()
        case Documents(lengths=lengths, causal=causal) if not workload.is_decode:
            return Documents(lengths=_small_lengths(lengths), causal=causal)
        case Documents():
            return Dense()  # the one query of a step sees its own document
        case BlockSparse(array=array):
            return _small_blocks(array, workload)
        case Layout() as layout:
            blocks = layout.required(queries=workload.queries, keys=workload.keys)
            return _small_blocks(blocks, workload)
        case _:
            assert_never(workload.mask)


def _small_lengths(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """A few documents with about the same shares of a dozen positions."""
    few = lengths[:_FEW]
    small = [max(1, _LENGTH * length // sum(few)) for length in few]
    small[small.index(max(small))] += _LENGTH - sum(small)
    return tuple(small)


def _small_blocks(array: NDArray[np.bool_], workload: Workload) -> Mask:
    """Up to four blocks of those there are, evenly spread; dense where none of these is required."""
    rows, columns = (np.linspace(0, count - 1, min(count, _FEW)).astype(int) for count in array.shape)
    rows = rows[-1:] if workload.is_decode else rows
    few = array[np.ix_(rows, columns)]
    queries = 1 if workload.is_decode else _LENGTH // len(rows)
    return BlockSparse.from_array(few, query_block=queries, key_block=_LENGTH // len(columns)) if few.any() else Dense()


def _share(plan: Plan) -> float:
    tiles = dict(plan.tiles)
    rows = next(
        (tiles[name] for name in ("query_tile", "score_rows", "resident_rows", "whole_rows") if name in tiles), 1
    )
    return rows / max(plan.workload.queries, 1)
