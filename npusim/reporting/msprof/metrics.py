"""What msopprof would count on the cores of a task, as far as the simulation knows it.

A column that isn't modelled is missing from the rows, so that the file shows the profiler's mark
for it: bank conflicts, stalls of the scalar unit by cause, the instruction cache, vector FLOPs.
Known only for the whole task and repeated for each core: the share of its traffic that L2 served.
"Main memory" is what a core sees behind its bus, L2 included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from npusim.values.dtypes import dtype

if TYPE_CHECKING:
    from npusim.runtime.work import Step, TaskWork

Row = dict[str, float | int | str]

# Pipes by the names that msopprof's columns have for them.
_PIPES = {
    "CUBE": "cube",
    "VECTOR": "vec",
    "SCALAR": "scalar",
    "MTE1": "mte1",
    "MTE2": "mte2",
    "MTE3": "mte3",
    "FIXP": "fixpipe",
}
_VECTOR_DTYPES = {"float32": "fp32", "float16": "fp16", "int32": "int32", "int16": "int16"}
_CUBE_DTYPES = {"float16": "fp16", "bfloat16": "fp16", "int8": "int8"}
_ROUTES = {
    "gm_to_l1": "GM_to_L1_datas(KB)",
    "l1_to_gm": "L1_to_GM_datas(KB)(estimate)",
    "l0c_to_gm": "L0C_to_GM_datas(KB)",
    "gm_to_ub": "GM_to_UB_datas(KB)",
    "ub_to_gm": "UB_to_GM_datas(KB)",
}
_SHAPE = re.compile(r"(\w+) (\d+(?:x\d+)+)")
_L0C_ITEMSIZE = 4  # the accumulator holds FLOAT or INT32


@dataclass(frozen=True, slots=True)
class _Counters:
    """What one core counts, or all of them together; `steps` come with the number of cores."""

    time_us: float
    cycles: float
    clock_mhz: float
    busy: Mapping[str, float]
    steps: tuple[tuple[Step, int], ...]

    def times(self, pipe: str) -> int:
        """Instructions of a pipe."""
        return sum(step.times * cores for step, cores in self.steps if step.pipe == pipe)

    def moved(self, *, pipe: str = "", path: str = "", write: bool | None = None) -> int:
        """Bytes that instructions asked global memory for: of one pipe, path or direction."""
        return sum(
            step.bytes * cores
            for step, cores in self.steps
            if pipe in ("", step.pipe) and path in ("", step.path) and write in (None, step.write)
        )

    def gbps(self, nbytes: float) -> float:
        """Bytes as bandwidth over the whole time."""
        return nbytes / self.time_us / 1e3 if self.time_us else 0.0


def split_rows(work: TaskWork) -> list[Row]:
    """A row for each core, by block and then cube before vector; chips with cores of both kinds."""
    found = [(place, group) for group in work.cores for place in group.places]
    found.sort(key=lambda pair: (pair[0].block, pair[0].unit))
    known: dict[int, Row] = {}  # cores in lockstep differ only in their names
    rows: list[Row] = []
    for place, group in found:
        if id(group) not in known:
            alone = tuple((step, 1) for step in group.steps)
            time_us = group.cycles / work.clock_mhz
            counters = _Counters(time_us, group.cycles, work.clock_mhz, group.busy, alone)
            prefix = "aic_" if group.kind == "cube" else "aiv_"
            known[id(group)] = _prefixed(prefix, counters, work) | _routes(counters)
        named: Row = {"block_id": place.block, "sub_block_id": place.unit}
        rows.append(named | known[id(group)])
    return rows


def fused_row(work: TaskWork) -> Row:
    """The single row of an operator on chips whose cores hold both units.

    The time is that of the slowest core, cycles are summed over all cores and ratios are of that
    sum, as msprof defines them.
    """
    busy: dict[str, float] = {}
    for group in work.cores:
        for pipe, taken in group.busy.items():
            busy[pipe] = busy.get(pipe, 0.0) + taken * len(group.places)
    steps = tuple((step, len(group.places)) for group in work.cores for step in group.steps)
    cycles = sum(group.cycles * len(group.places) for group in work.cores)
    time_us = max((group.cycles for group in work.cores), default=0.0) / work.clock_mhz
    counters = _Counters(time_us, cycles, work.clock_mhz, busy, steps)
    row = _prefixed("aic_", counters, work)
    if "aic_total_hit_rate(%)" in row:
        row["aic_l2_cache_hit_rate(%)"] = row["aic_total_hit_rate(%)"]
    return row


def _prefixed(prefix: str, counters: _Counters, work: TaskWork) -> Row:
    values: Row = {"time(us)": counters.time_us, "total_cycles": round(counters.cycles)}
    values |= _pipes(counters) | _vector(counters) | _cube(counters) | _bandwidths(counters)
    if work.l2_hit_ratio is not None:
        values["total_hit_rate(%)"] = 100 * work.l2_hit_ratio
    return {prefix + name: value for name, value in values.items()}


def _pipes(counters: _Counters) -> Row:
    row: Row = {}
    for pipe, name in _PIPES.items():
        busy = counters.busy.get(pipe, 0.0)
        ratio = busy / counters.cycles if counters.cycles else 0.0
        row[f"{name}_ratio"] = ratio
        row[f"{name}_time(us)"] = ratio * counters.time_us
        row[f"{name}_instructions"] = counters.times(pipe)
        active_us = busy / counters.clock_mhz
        moved = counters.moved(pipe=pipe)
        row[f"{name}_active_bw(GB/s)"] = moved / active_us / 1e3 if active_us else 0.0
    return row


def _vector(counters: _Counters) -> Row:
    """Shares of the time by the dtype that an instruction works on; conversions are misc."""
    row: Row = {f"vec_{name}_ratio": 0.0 for name in (*_VECTOR_DTYPES.values(), "misc")}
    for step, cores in counters.steps:
        if step.pipe == "VECTOR":
            kind = _VECTOR_DTYPES.get(step.detail.partition(" ")[0], "misc")
            share = step.cycles * cores / counters.cycles
            row[f"vec_{kind}_ratio"] = float(row[f"vec_{kind}_ratio"]) + share
    return row


def _cube(counters: _Counters) -> Row:
    """What the cube multiplied, and what it moved between itself and L0, from the tiles' shapes."""
    counts = {"fp": 0, "int": 0}
    cycles = {"fp16": 0.0, "int8": 0.0}
    flops = moved_a = moved_b = moved_c = 0.0
    loaded = {"ca": 0.0, "cb": 0.0}
    for step, cores in counters.steps:
        times = step.times * cores
        if (found := _SHAPE.match(step.detail)) is None:
            continue
        kind, dims = found[1], tuple(map(int, found[2].split("x")))
        if step.name == "mad":
            m, k, n = dims
            size = dtype(kind).itemsize
            counts["int" if "int" in kind else "fp"] += times
            if kind in _CUBE_DTYPES:
                cycles[_CUBE_DTYPES[kind]] += step.cycles * cores
            flops += 0 if "int" in kind else 2.0 * m * k * n * times
            moved_a += m * k * size * times
            moved_b += k * n * size * times
            moved_c += m * n * _L0C_ITEMSIZE * times
        elif step.name.startswith("load_cbuf_to_"):
            loaded[step.name[-2:]] += prod(dims) * dtype(kind).itemsize * times
    row: Row = {f"cube_{kind}_ratio": taken / counters.cycles for kind, taken in cycles.items()}
    row |= {f"cube_{kind}_instr_number": count for kind, count in counts.items()}
    row["cube_total_instr_number"] = sum(counts.values())
    row["cube_fops"] = round(flops)
    row["l0a_read_bw(GB/s)"], row["l0a_write_bw(GB/s)"] = map(
        counters.gbps, (moved_a, loaded["ca"])
    )
    row["l0b_read_bw(GB/s)"], row["l0b_write_bw(GB/s)"] = map(
        counters.gbps, (moved_b, loaded["cb"])
    )
    row["l0c_write_bw_cube(GB/s)"] = counters.gbps(moved_c)
    row["l1_read_bw(GB/s)"] = counters.gbps(sum(loaded.values()))
    return row


def _bandwidths(counters: _Counters) -> Row:
    moved = {
        "gm_to_ub": counters.moved(path="gm_to_ub"),
        "ub_to_gm": counters.moved(path="ub_to_gm"),
        "l1_write": counters.moved(path="gm_to_l1"),
        "main_mem_read": counters.moved(write=False),
        "main_mem_write": counters.moved(write=True),
    }
    return {f"{name}_bw(GB/s)": counters.gbps(nbytes) for name, nbytes in moved.items()}


def _routes(counters: _Counters) -> Row:
    """Kibibytes by route, and by direction."""
    row: Row = {column: counters.moved(path=path) / 1024 for path, column in _ROUTES.items()}
    row["read_main_memory_datas(KB)"] = counters.moved(write=False) / 1024
    row["write_main_memory_datas(KB)"] = counters.moved(write=True) / 1024
    return row
