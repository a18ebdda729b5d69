"""A run of the compiled model: a driver in C++, and the files through which words and times pass."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attenio.accelerator.rtl.build import TOP
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.geometry import Words
from attenio.accelerator.rtl.streams import Streams
from attenio.accelerator.step import Engine
from attenio.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class RawRun:
    """What a run gave: (engine, place, begin, end) of steps, words of outputs, cycles, and whether sums were late."""

    steps: list[tuple[int, int, int, int]]
    outputs: Words
    cycles: int
    late: bool
    seconds: float


def run_model(model: Path, design: Design, given: Streams, most_cycles: int) -> RawRun:
    """Run an executable on words until the program is over."""
    folder = model.parent
    given.queries.tofile(folder / "queries.bin")
    given.kv.tofile(folder / "kv.bin")
    begun = time.perf_counter()
    done = subprocess.run([str(model), str(most_cycles)], cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise InvalidInput(f"the compiled model stopped: {done.stderr.strip() or done.returncode}")
    cycles, late = map(int, done.stdout.split())
    return raw_run(folder, design, (cycles, bool(late)), seconds)


def raw_run(folder: Path, design: Design, told: tuple[int, bool], seconds: float) -> RawRun:
    """What a run left in its folder, with the cycles and the flag that it told."""
    lines, macs = design.hardware.pe.lines, design.hardware.pe.macs_per_line
    steps = np.fromfile(folder / "steps.bin", dtype=np.int64).reshape(-1, 4).tolist()
    return RawRun(
        steps=[(engine, place, begin, end) for engine, place, begin, end in steps],
        outputs=np.fromfile(folder / "outputs.bin", dtype=np.uint16).reshape(-1, lines, macs),
        cycles=told[0],
        late=told[1],
        seconds=seconds,
    )


def driver_text(design: Design, *, waves: bool) -> str:
    """The main loop of a model of CXXRTL."""
    prelude = _PRELUDE.format(
        top=f"cxxrtl_design::{_member(TOP)}",
        vcd_include="#include <cxxrtl/cxxrtl_vcd.h>" if waves else "",
        clk=_member("clk"),
        rst=_member("rst"),
    )
    sample = "    waves.sample(cycle); wave_file << waves.buffer; waves.buffer.clear();" if waves else ""
    return loop_text(design, prelude, _member, waves=(_VCD_BEGIN if waves else "", sample))


def loop_text(design: Design, prelude: str, member: Callable[[str], str], *, waves: tuple[str, str] = ("", "")) -> str:
    """The main loop: a clock, words in, words and times out.

    The prelude has the model as ``top``, ``clock`` and ``reset``, and functions that read and write its ports.
    """
    lines, macs, arriving = design.hardware.pe.lines, design.hardware.pe.macs_per_line, design.arriving
    engines = [engine.name.lower() for engine in Engine]
    put_queries = "\n".join(
        f"  put(top.{member(f'queries_{line}')}, beat + {line * macs}, {macs});" for line in range(lines)
    )
    get_outputs = "\n".join(
        f"  get(top.{member(f'outputs_{line}')}, beat + {line * macs}, {macs});" for line in range(lines)
    )
    trace = "\n".join(
        f"    note({number}, bit(top.{member(f'{name}_active')}), bit(top.{member(f'{name}_first')}),"
        f" bit(top.{member(f'{name}_last')}), number(top.{member(f'{name}_place')}), cycle);"
        for number, name in enumerate(engines)
    )
    finished = " && ".join(f"bit(top.{member(f'{name}_finished')})" for name in engines)
    ports = {name: member(name) for name in ("kv", "take_queries", "take_kv", "give_outputs", "late")}
    loop = _LOOP.format(
        beat=lines * macs,
        arriving=arriving,
        put_queries=put_queries,
        get_outputs=get_outputs,
        trace=trace,
        finished=finished,
        vcd_begin=waves[0],
        vcd_sample=waves[1],
        **ports,
    )
    return prelude + loop


def _member(name: str) -> str:
    return "p_" + name.replace("_", "__")


_VCD_BEGIN = """  cxxrtl::debug_items items; top.debug_info(&items, nullptr, "");
  cxxrtl::vcd_writer waves; waves.timescale(1, "ns"); waves.add_without_memories(items);
  std::ofstream wave_file("waves.vcd");"""

_PRELUDE = r"""
#include "model.cc"
#include <cstdint>
{vcd_include}
template<class T> static void put(T &to, const uint16_t *words, int count) {{
  for (int at = 0; at < count; at++) {{
    if (at % 2 == 0) to.data[at / 2] = words[at]; else to.data[at / 2] |= uint32_t(words[at]) << 16;
  }}
}}
template<size_t N> static const cxxrtl::value<N> &now(const cxxrtl::value<N> &v) {{ return v; }}
template<size_t N> static const cxxrtl::value<N> &now(const cxxrtl::wire<N> &w) {{ return w.curr; }}
template<class T> static void get(const T &from, uint16_t *words, int count) {{
  for (int at = 0; at < count; at++) words[at] = now(from).data[at / 2] >> (16 * (at % 2));
}}
template<class T> static bool bit(const T &v) {{ return now(v).data[0] & 1; }}
template<class T> static int number(const T &v) {{ return now(v).data[0]; }}
static {top} top;
static void clock(bool high) {{ top.{clk}.set<bool>(high); top.step(); }}
static void reset(bool high) {{ top.{rst}.set<bool>(high); }}
"""

_LOOP = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>
using Words = std::vector<uint16_t>;
static Words read(const char *name) {{
  std::ifstream in(name, std::ios::binary | std::ios::ate);
  Words words(in.tellg() / 2);
  in.seekg(0); in.read((char *)words.data(), words.size() * 2);
  return words;
}}
static std::vector<int64_t> steps;
static int64_t begun[3];
static void note(int engine, bool active, bool first, bool last, int place, int64_t cycle) {{
  if (!active) return;
  if (first) begun[engine] = cycle;
  if (last) for (int64_t each : {{(int64_t)engine, (int64_t)place, begun[engine], cycle + 1}}) steps.push_back(each);
}}
static void put_queries(const uint16_t *beat) {{
{put_queries}
}}
static void get_outputs(uint16_t *beat) {{
{get_outputs}
}}
int main(int, char **argv) {{
  const int64_t most = atoll(argv[1]);
  Words queries = read("queries.bin"), kv = read("kv.bin"), outputs;
  queries.resize(queries.size() + {beat}); kv.resize(kv.size() + {arriving});
  size_t query = 0, word = 0;
{vcd_begin}
  put_queries(queries.data()); put(top.{kv}, kv.data(), {arriving});
  auto tick = [&] {{ clock(false); clock(true); }};
  reset(true); tick(); reset(false); tick();
  int64_t cycle = 0;
  for (; cycle < most && !({finished}); cycle++) {{
{vcd_sample}
{trace}
    bool take_queries = bit(top.{take_queries}), take_kv = bit(top.{take_kv});
    if (bit(top.{give_outputs})) {{
      outputs.resize(outputs.size() + {beat});
      get_outputs(outputs.data() + outputs.size() - {beat});
    }}
    tick();
    if (take_queries) {{ query += {beat}; if (query + {beat} <= queries.size()) put_queries(queries.data() + query); }}
    if (take_kv) word += {arriving};
    if (take_kv && word + {arriving} <= kv.size()) put(top.{kv}, kv.data() + word, {arriving});
  }}
  std::ofstream("steps.bin", std::ios::binary).write((char *)steps.data(), steps.size() * 8);
  std::ofstream("outputs.bin", std::ios::binary).write((char *)outputs.data(), outputs.size() * 2);
  printf("%lld %d\n", (long long)cycle, (int)bit(top.{late}));
  return 0;
}}
"""
