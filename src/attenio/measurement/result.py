"""What a bench found: every sample of every contender, beside what the machine could do."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from attenio.plain_values import plain_fields
from attenio.workload import Workload

OURS = "attenio"
# The same with gradients that repeat to the bit.
OURS_REPEATING = "attenio deterministic"


@dataclass(frozen=True, kw_only=True)
class Roof:
    """What this device did in the same run: square products, on a GPU in the workload's type, and copies."""

    flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, kw_only=True)
class Timing:
    """All samples of one contender and its largest error against float64, or why it refused."""

    name: str
    samples_ms: tuple[float, ...] = ()
    max_abs_error: float | None = None
    refused: str | None = None

    @property
    def median_ms(self) -> float | None:
        """The middle sample."""
        return median(self.samples_ms) if self.samples_ms else None


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Contenders for one workload on one device, ours first."""

    workload: Workload
    device: str
    software: dict[str, str | None]
    roof: Roof
    timings: tuple[Timing, ...]

    @property
    def device_name(self) -> str:
        """What the device calls itself."""
        return self.software.get("device_name") or self.device

    def tflop_per_s(self, timing: Timing) -> float | None:
        """Required operations by the middle sample's time."""
        return None if timing.median_ms is None else self.workload.flops / timing.median_ms / 1e9

    def gb_per_s(self, timing: Timing) -> float | None:
        """Inputs and outputs, each once, by the middle sample's time."""
        return None if timing.median_ms is None else self._bytes / timing.median_ms / 1e6

    def share_of_roof(self, timing: Timing) -> float | None:
        """The time that the roof leaves, over the time taken; the roof is raised to what the fastest contender did."""
        share = self._share(timing)
        return None if share is None else share / self.roof_raised

    @property
    def roof_raised(self) -> float:
        """How far the fastest contender was above the products and copies: they were no roof then. 1 where none was."""
        return max([1.0, *(share for each in self.timings if (share := self._share(each)) is not None)])

    def _share(self, timing: Timing) -> float | None:
        if timing.median_ms is None:
            return None
        least = max(self.workload.flops / self.roof.flops_per_s, self._bytes / self.roof.bytes_per_s)
        return least * 1e3 / timing.median_ms

    @property
    def ratio_to_best_peer(self) -> float | None:
        """The best peer's median over ours: above 1 ours is faster."""
        times = {each.name: each.median_ms for each in self.timings if each.median_ms is not None}
        ours = times.pop(OURS, None)
        return min(times.values()) / ours if ours and times else None

    @property
    def _bytes(self) -> int:
        return self.workload.compulsory_words * self.workload.dtype.bytes

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers; every sample is kept."""
        return {
            "workload": str(self.workload),
            "device": self.device,
            **self.software,
            "roof": asdict(self.roof),
            **plain_fields(self, "roof_raised", "ratio_to_best_peer"),
            "contenders": [
                {
                    **plain_fields(each, "name", "median_ms"),
                    "tflop_per_s": self.tflop_per_s(each),
                    "gb_per_s": self.gb_per_s(each),
                    "share_of_roof": self.share_of_roof(each),
                    **plain_fields(each, "max_abs_error", "refused", "samples_ms"),
                }
                for each in self.timings
            ],
        }
