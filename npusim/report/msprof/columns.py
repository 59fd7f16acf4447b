"""The columns of msopprof's CSVs, file by file in their order, for each of its two kinds of chip.

Source: Ascend/msopprof, csrc/op_profiling/profiling/device/data_parse/metric_csv_header.h.  Chips
with cube and vector cores of their own (A2, and A3 after it) have a row for each core of each
block; 310P has one row for the operator.  msopprof has no columns for 910A: an AI core of that chip
holds both units like one of a 310P, so it gets those, which is our choice.
"""

from __future__ import annotations

from typing import Final

MISSING: Final = "NA"
"""What msopprof prints for a value that it doesn't have (msprof prints another mark)."""

BASIC: Final = "OpBasicInfo"

_BLOCK = ("block_id", "sub_block_id")
_CUBE = ("aic_time(us)", "aic_total_cycles")
_VECTOR = ("aiv_time(us)", "aiv_total_cycles")
_DTYPES = ("fp32_ratio", "fp16_ratio", "int32_ratio", "int16_ratio", "misc_ratio", "fops")
_CACHE = (
    "write_cache_hit",
    "write_cache_miss_allocate",
    "r0_read_cache_hit",
    "r0_read_cache_miss_allocate",
    "r1_read_cache_hit",
    "r1_read_cache_miss_allocate",
    "write_hit_rate(%)",
    "read_hit_rate(%)",
    "total_hit_rate(%)",
)
_CONFLICTS = (
    "vec_total_cflt_ratio",
    "vec_bankgroup_cflt_ratio",
    "vec_bank_cflt_ratio",
    "vec_resc_cflt_ratio",
    "vec_mte_cflt_ratio",
)
_L0 = (
    "l0a_read_bw(GB/s)",
    "l0a_write_bw(GB/s)",
    "l0b_read_bw(GB/s)",
    "l0b_write_bw(GB/s)",
    "l0c_read_bw_cube(GB/s)",
    "l0c_write_bw_cube(GB/s)",
)
_UB = (
    "ub_read_bw_vector(GB/s)",
    "ub_write_bw_vector(GB/s)",
    "ub_read_bw_scalar(GB/s)",
    "ub_write_bw_scalar(GB/s)",
)
_ROUTES = (
    "GM_to_L1_datas(KB)",
    "GM_to_L1_bw_usage_rate(%)",
    "L1_to_GM_datas(KB)(estimate)",
    "L1_to_GM_bw_usage_rate(%)(estimate)",
    "L0C_to_L1_datas(KB)",
    "L0C_to_L1_bw_usage_rate(%)",
    "L0C_to_GM_datas(KB)",
    "L0C_to_GM_bw_usage_rate(%)",
    "GM_to_UB_datas(KB)",
    "GM_to_UB_bw_usage_rate(%)",
    "UB_to_GM_datas(KB)",
    "UB_to_GM_bw_usage_rate(%)",
)


def _each(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(prefix + name for name in names)


def _timed(prefix: str, *pipes: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{pipe}_{what}" for pipe in pipes for what in ("time(us)", "ratio"))


def _counted(prefix: str, *pipes: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{pipe}_{what}" for pipe in pipes for what in ("instructions", "ratio"))


SPLIT: Final[dict[str, tuple[str, ...]]] = {
    BASIC: (
        "Op Name",
        "Op Type",
        "Task Duration(us)",
        "Block Dim",
        "Mix Block Dim",
        "Device Id",
        "Pid",
        "Current Freq",
        "Rated Freq",
    ),
    "ArithmeticUtilization": (
        *_BLOCK,
        *_CUBE,
        "aic_cube_ratio",
        "aic_cube_fp16_ratio",
        "aic_cube_int8_ratio",
        "aic_cube_fops",
        "aic_cube_total_instr_number",
        "aic_cube_fp_instr_number",
        "aic_cube_int_instr_number",
        *_VECTOR,
        "aiv_vec_ratio",
        *_each("aiv_vec_", _DTYPES),
    ),
    "L2Cache": (*_BLOCK, *_CUBE, *_each("aic_", _CACHE), *_VECTOR, *_each("aiv_", _CACHE)),
    "Memory": (
        *_BLOCK,
        *_CUBE,
        "aic_l1_read_bw(GB/s)",
        "aic_l1_write_bw(GB/s)",
        "aic_main_mem_read_bw(GB/s)",
        "aic_main_mem_write_bw(GB/s)",
        *_counted("aic_", "mte1", "mte2", "mte3"),
        *_VECTOR,
        "aiv_ub_to_gm_bw(GB/s)",
        "aiv_gm_to_ub_bw(GB/s)",
        "aiv_main_mem_read_bw(GB/s)",
        "aiv_main_mem_write_bw(GB/s)",
        *_counted("aiv_", "mte2", "mte3"),
        "read_main_memory_datas(KB)",
        "write_main_memory_datas(KB)",
        *_ROUTES,
    ),
    "MemoryL0": (*_BLOCK, *_CUBE, *_each("aic_", _L0), *_VECTOR),
    "MemoryUB": (*_BLOCK, *_CUBE, *_VECTOR, *_each("aiv_", _UB)),
    "PipeUtilization": (
        *_BLOCK,
        *_CUBE,
        *_timed("aic_", "cube", "mte1", "mte2", "mte3"),
        "aic_mte3_active_bw(GB/s)",
        *_timed("aic_", "fixpipe"),
        "aic_fixpipe_active_bw(GB/s)",
        "aic_icache_miss_rate",
        *_timed("aic_", "scalar"),
        "aic_scalar_single_time(us)",
        "aic_scalar_dual_time(us)",
        "aic_scalar_mte1_stall_time(us)",
        "aic_scalar_mte2_stall_time(us)",
        "aic_scalar_mte3_stall_time(us)",
        "aic_scalar_cube_stall_time(us)",
        "aic_scalar_wait_ib_time(us)",
        "aic_scalar_wait_time(us)",
        *_VECTOR,
        *_timed("aiv_", "vec", "mte2"),
        "aiv_mte2_active_bw(GB/s)",
        *_timed("aiv_", "mte3"),
        "aiv_mte3_active_bw(GB/s)",
        "aiv_icache_miss_rate",
        *_timed("aiv_", "scalar"),
        "aiv_scalar_single_time(us)",
        "aiv_scalar_dual_time(us)",
        "aiv_scalar_mte2_stall_time(us)",
        "aiv_scalar_mte3_stall_time(us)",
        "aiv_scalar_stall_by_ub_time(us)",
        "aiv_scalar_vector_stall_time(us)",
        "aiv_scalar_wait_ib_time(us)",
        "aiv_scalar_wait_time(us)",
    ),
    "ResourceConflictRatio": (
        *_BLOCK,
        *_CUBE,
        "aic_cube_wait_ratio",
        "aic_mte1_wait_ratio",
        "aic_mte2_wait_ratio",
        "aic_mte3_wait_ratio",
        *_VECTOR,
        *_each("aiv_", _CONFLICTS),
        "aiv_vec_wait_ratio",
        "aiv_mte2_wait_ratio",
        "aiv_mte3_wait_ratio",
    ),
}

FUSED: Final[dict[str, tuple[str, ...]]] = {
    BASIC: tuple(name for name in SPLIT[BASIC] if name != "Mix Block Dim"),
    "ArithmeticUtilization": (
        *_CUBE,
        "aic_cube_ratio",
        "aic_cube_fp16_ratio",
        "aic_cube_int8_ratio",
        "aic_cube_fops",
        "aic_cube_total_instr_number",
        "aic_vec_ratio",
        *_each("aic_vec_", _DTYPES),
    ),
    "L2Cache": ("aic_l2_cache_hit_rate(%)",),
    "Memory": (
        *_CUBE,
        "aic_l1_read_bw(GB/s)",
        "aic_l1_write_bw(GB/s)",
        "aic_ub_to_gm_bw(GB/s)",
        "aic_gm_to_ub_bw(GB/s)",
        "aic_main_mem_read_bw(GB/s)",
        "aic_main_mem_write_bw(GB/s)",
        *_counted("aic_", "mte1", "mte2", "mte3"),
    ),
    "MemoryL0": (
        *_CUBE,
        *_each("aic_", _L0),
        "aic_l0c_read_bw(GB/s)",
        "aic_l0c_write_bw(GB/s)",
    ),
    "MemoryUB": (*_CUBE, *_each("aic_", _UB)),
    "PipeUtilization": (
        *_CUBE,
        *_timed("aic_", "cube", "scalar", "mte1", "mte2", "mte3"),
        "aic_icache_miss_rate",
        *_timed("aic_", "vec"),
    ),
    "ResourceConflictRatio": (
        *_CUBE,
        *_each("aic_", ("cube_wait_ratio", "vec_wait_ratio")),
        *_each("aic_", ("mte1_wait_ratio", "mte2_wait_ratio", "mte3_wait_ratio")),
        *_each("aic_", _CONFLICTS),
    ),
}


def columns_of(core_style: str) -> dict[str, tuple[str, ...]]:
    """The files and their columns for a chip whose profile has this `cores.style`."""
    return SPLIT if core_style == "split" else FUSED
