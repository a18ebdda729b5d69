"""Laws of the parts of an accelerator and of the files that state them."""

from pathlib import Path

import pytest

from attenio.catalogue import machine_named
from attenio.errors import InvalidInput
from attenio.parts import HbmParts

GOOD = """\
name: chip
levels:
  - {name: cache, capacity_bytes: 64KB}
  - {name: HBM, bandwidth_bytes_per_s: 128 GB/s}
flops_per_s: {fp16: 4.096 TFLOP/s}
accelerator:
  pe_lines: 64
  macs_per_line: 32
  exp_modules: 128
  kv_buffer_bytes: 256
  hbm:
    refresh_ns: 260
    refresh_interval_ns: 3900
"""


def written(tmp_path: Path, old: str, new: str) -> str:
    path = tmp_path / "chip.yaml"
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    return str(path)


def test_a_file_may_describe_an_accelerator(tmp_path: Path) -> None:
    parts = machine_named(written(tmp_path, "", "")).accelerator
    assert parts is not None
    assert parts.macs == 2048
    assert parts == machine_named("attenio-512k").accelerator


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("pe_lines: 64", "pe_lines: 0", "line 7: pe_lines is 0; it must be at least 1"),
        ("  exp_modules: 128\n", "", "line 7: exp_modules is missing; add 'exp_modules: ...'"),
        ("pe_lines: 64", "pe_line: 64", "line 7: unknown key 'pe_line'; did you mean pe_lines?"),
        ("macs_per_line: 32", "macs_per_line: 16", "line 6: accelerator has 64 lines of 16 MACs .* make them agree"),
        ("refresh_ns: 260", "refresh_ns: 3900", "line 12: refresh_ns is 3,900, no less than refresh_interval_ns"),
        ("kv_buffer_bytes: 256", "kv_buffer_bytes: 1MB", "line 6: kv_buffer_bytes is 1,048,576, more than the cache"),
        (", bandwidth_bytes_per_s: 128 GB/s", "", "line 6: level HBM of accelerator chip has no bandwidth_bytes_per_s"),
        ("128 GB/s", "0.4", "line 6: level HBM of accelerator chip moves 0.4 bytes a second; give at least 1"),
        ("64KB", "64KB, units: 4", "line 6: level cache of accelerator chip has 4 units, .* leave units out"),
        ("pe_lines: 64", "pe_lines: 64\n  clock_hz: 0.5", "line 8: clock_hz is 0.5; it must be at least 1"),
        ("pe_lines: 64", "pe_lines: 64\n  clock_hz: 10 THz", "line 8: clock_hz is 10,000,000,000,000; attenio counts"),
        ("pe_lines: 64", "pe_lines: 64\n  clock_hz: 1 GB/s", "line 8: clock_hz is '1 GB/s'; .* such as 1e9 or 1 GHz"),
    ],
)
def test_a_mistake_in_an_accelerator_is_one_line(tmp_path: Path, old: str, new: str, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        machine_named(written(tmp_path, old, new))


def test_a_page_holds_whole_bursts() -> None:
    with pytest.raises(InvalidInput, match="page_bytes is 1,000, not a multiple of burst_bytes 32"):
        HbmParts(page_bytes=1000)
