"""A model of the accelerator compiled by Verilator, from the Verilog that others get: used where it is installed."""

import shutil
import subprocess
from pathlib import Path

from attenio.accelerator.rtl.build import TOP, write_verilog
from attenio.accelerator.rtl.cxxrtl_run import loop_text
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.installed import UNAVOIDABLE
from attenio.errors import InvalidInput


def need_verilator() -> None:
    """Refuse, in one line, what Verilator is missing for."""
    if shutil.which("verilator") is None or shutil.which("make") is None:
        raise InvalidInput("the runner verilator takes Verilator and make, and one of them is not there; leave it out")


def compile_verilated(design: Design, folder: Path, *, optimise: int = 0) -> Path:
    """The executable of a design and its driver."""
    need_verilator()
    parts = write_verilog(design, folder / "verilog")
    (folder / "driver.cc").write_text(loop_text(design, _PRELUDE.replace("TOP", TOP), str))
    options = ["--cc", "--exe", "--build", *(f"-Wno-{name}" for name in UNAVOIDABLE), "--top-module", TOP]
    # in one file, since headers that are compiled beforehand are not everywhere
    options += ["--output-split", "0", "-CFLAGS", f"-O{optimise}", "--Mdir", "objects", "-o", "../model", "driver.cc"]
    command = ["verilator", *options, *(f"verilog/{part['file']}" for part in parts.values())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if "rror" in line] or ["it said nothing"]
        raise InvalidInput(f"Verilator stopped: {told[0].strip()}; leave --runner verilator out")
    return folder / "model"


_PRELUDE = r"""
#include "VTOP.h"
#include <cstdint>
template<class T> static void put(T &to, const uint16_t *words, int count) {
  to = 0;
  for (int at = 0; at < count; at++) to |= T(words[at]) << 16 * at;
}
template<std::size_t N> static void put(VlWide<N> &to, const uint16_t *words, int count) {
  for (int at = 0; at < count; at++) {
    if (at % 2 == 0) to[at / 2] = words[at]; else to[at / 2] |= uint32_t(words[at]) << 16;
  }
}
template<class T> static void get(const T &from, uint16_t *words, int count) {
  for (int at = 0; at < count; at++) words[at] = from >> 16 * at;
}
template<std::size_t N> static void get(const VlWide<N> &from, uint16_t *words, int count) {
  for (int at = 0; at < count; at++) words[at] = from[at / 2] >> (16 * (at % 2));
}
template<class T> static bool bit(const T &v) { return v & 1; }
template<class T> static int number(const T &v) { return v; }
static VTOP top;
static void clock(bool high) { top.clk = high; top.eval(); }
static void reset(bool high) { top.rst = high; }
"""
