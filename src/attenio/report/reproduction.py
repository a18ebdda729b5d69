"""Published figures, computed again from closed forms and set beside the printed numbers.

>>> for row in reproduce("fig11").rows:
...     if row.n == "geomean" and row.d == 64:
...         print(f"{row.dataflow.value:18}{row.value:8.2f}{row.published:8.1f}")
flat                273.06   273.7
standard             57.00    57.0
flash-attention-2    26.83    26.8
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.names import did_you_mean
from attenio.plain_values import plain_fields
from attenio.planning import published_plan
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

FIGURES = ("fig11",)
GEOMEAN = "geomean"

_FIG11 = (Dataflow.FLAT, Dataflow.STANDARD, Dataflow.FLASH_ATTENTION_2)
_FIG11_CAPTION = (
    "Words moved by one dataflow over those of another, each with its paper's tiles. 'value' counts as the paper does;"
    " its count of standard leaves out the re-reads of V, about n²d²/M words, which 'counted' (exact, to the word) has."
)


@dataclass(frozen=True, kw_only=True)
class ReproducedRatio:
    """Words of one dataflow over another's at one width and length, as the paper counts and as a run would."""

    d: int
    n: int | str
    dataflow: Dataflow
    over: Dataflow
    value: float
    counted: float
    published: float | None

    @property
    def relative_difference(self) -> float | None:
        """How far ``value`` is from the printed number, as a share of it; None where none was printed."""
        return None if self.published is None else self.value / self.published - 1

    @property
    def label(self) -> str:
        """The dataflow, and what it is set against where that is not AttenIO: rows with one label are comparable."""
        against = "" if self.over is Dataflow.ATTENIO else f"-over-{self.over.value}"
        return self.dataflow.value + against

    def to_json(self) -> dict[str, Any]:
        """The row as plain values."""
        compared = plain_fields(self, "over", "value", "published", "counted", "relative_difference")
        return {"figure": "fig11", **plain_fields(self, "d", "n"), "dataflow": self.label, **compared}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A published figure: where it is from, how it was counted, and its rows."""

    figure: str
    title: str
    source: str
    caption: str
    rows: tuple[ReproducedRatio, ...]

    def to_json(self) -> dict[str, Any]:
        """The figure as plain values."""
        rows = [row.to_json() for row in self.rows]
        return {**plain_fields(self, "figure", "title", "source", "caption"), "rows": rows}


def published_data() -> dict[str, Any]:
    """The published numbers, with their source."""
    return _in_catalogue("published.json")


def measured_rates() -> dict[str, Any]:
    """Products per second that a study measured on a GPU, with its name and the study."""
    return _in_catalogue("measured.json")


def _in_catalogue(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(resources.files("attenio.catalogue").joinpath(name).read_text(encoding="utf-8"))
    return data


def paper_volume_words(dataflow: Dataflow, *, n: int, d: int, fast_words: int) -> float:
    """Words moved by one dense head as the paper counts them: its own formulas, not those of the planner.

    For attenio, flash-attention-2 and flat the formula is the exact count. For standard it is
    4n² + 2n²d/√M + 4nd: scores written, read, written and read, and the two products' leading terms, a real number
    that leaves out the re-reads of V (about n²d²/M words) and the ceilings of the tiles.
    """
    match dataflow:
        case Dataflow.ATTENIO:
            rows = max(1, (fast_words - d) // (2 * d + 4))
        case Dataflow.FLASH_ATTENTION_2:
            rows = min(-(-fast_words // (4 * d)), d)
        case Dataflow.FLAT:
            rows = max(1, (fast_words - d) // (n + 2 * d))
        case Dataflow.STANDARD:
            return 4 * n * n + 2 * n * n * d / math.sqrt(fast_words) + 4 * n * d
        case _:
            compared = ", ".join(each.value for each in _FIG11)
            raise InvalidInput(f"the paper has no volume for {dataflow.value}; it compares {compared}")
    return 2 * n * d * (1 + -(-n // rows))


def reproduce(figure: str) -> Reproduction:
    """The figure computed again; an unknown name lists the known ones."""
    if str(figure).lower() not in FIGURES:
        raise InvalidInput(
            f"unknown figure {figure!r}; {did_you_mean(str(figure), FIGURES)}choose one of {', '.join(FIGURES)}, or ask"
            " attenio.report.experiments.experiment for those that are run on the accelerator"
        )
    data = published_data()
    return Reproduction(
        figure="fig11",
        title=data["figures"]["fig11"]["title"],
        source=f"{data['source']}, figure 11",
        caption=_FIG11_CAPTION,
        rows=tuple(_fig11_rows(data)),
    )


def _fig11_rows(data: dict[str, Any]) -> Iterator[ReproducedRatio]:
    machine = Machine.with_fast_bytes(data["machine"]["cache_kib"] * 1024)
    printed = data["figures"]["fig11"]
    lengths: list[int] = data["workload"]["n"]
    for d in data["workload"]["d"]:
        volumes = {n: _volumes(machine, n=n, d=d) for n in lengths}
        for dataflow in _FIG11:
            rows = [_ratio(volumes[n], dataflow, Dataflow.ATTENIO, n=n, d=d) for n in lengths]
            yield from rows
            yield ReproducedRatio(
                d=d,
                n=GEOMEAN,
                dataflow=dataflow,
                over=Dataflow.ATTENIO,
                value=geometric_mean([row.value for row in rows]),
                counted=geometric_mean([row.counted for row in rows]),
                published=printed["geomean_words_over_attenio"][str(d)][dataflow.value],
            )
        for n in lengths:
            number = printed["flat_words_over_standard"][str(d)].get(str(n))
            if number is not None:
                yield _ratio(volumes[n], Dataflow.FLAT, Dataflow.STANDARD, n=n, d=d, published=number)


_Volumes = dict[Dataflow, tuple[float, int]]


def _volumes(machine: Machine, *, n: int, d: int) -> _Volumes:
    """For each dataflow of the figure the paper's volume and the exact count."""
    workload = Workload(n=n, d=d, dtype="fp16")
    fast_words = machine.slowest_boundary.fast_words(workload.dtype)
    volumes = {}
    for dataflow in (Dataflow.ATTENIO, *_FIG11):
        plan = published_plan(workload, machine, dataflow)
        assert plan is not None, f"published tiles of {dataflow.value} fit the paper's own machine"
        volumes[dataflow] = (paper_volume_words(dataflow, n=n, d=d, fast_words=fast_words), plan.moved_words)
    return volumes


def _ratio(
    volumes: _Volumes, dataflow: Dataflow, over: Dataflow, *, n: int, d: int, published: float | None = None
) -> ReproducedRatio:
    (value, counted), (value_below, counted_below) = volumes[dataflow], volumes[over]
    return ReproducedRatio(
        d=d,
        n=n,
        dataflow=dataflow,
        over=over,
        value=value / value_below,
        counted=counted / counted_below,
        published=published,
    )


def geometric_mean(values: list[float]) -> float:
    """The n-th root of the product of n values."""
    return math.exp(sum(map(math.log, values)) / len(values))
