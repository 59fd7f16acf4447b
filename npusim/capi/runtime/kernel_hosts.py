"""What the host's side of a kernel asks: numbers of the chip, and how a product is cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from npusim.pyasc.tilings import MultiCoreMatmulTiling
from npusim.pyasc.values import DataType
from npusim.values.dtypes import from_acl

if TYPE_CHECKING:
    from npusim.capi.runtime.session import Session

# Numbers that platform_ascendc.h asks for, and the sizes of memories from 10 on.
_WHOLE_BYTES = {29: 2}  # a product of int4 is cut as one of int8
_CUBES, _VECTORS, _SOC, _ARCHITECTURE, _MEMORIES = 0, 1, 2, 3, 10
_SIZES = (
    "l0a_bytes",
    "l0b_bytes",
    "l0c_bytes",
    "l1_bytes",
    "l2",
    "ub_bytes",
    "hbm",
    "fixpipe_buffer_bytes",
    "bias_table_bytes",
)
_SOCS = {"910B": (1, 2201), "910": (0, 1001), "310P": (2, 2002)}  # numbers of SocVersion, NpuArch


def chip(session: Session, what: int) -> int:
    """A number of the chip: cores, generation, bytes of a memory; 0 for what it doesn't have."""
    profile = session.npu.profile
    if what == _CUBES:
        return profile.cores.cube_cores or profile.cores.ai_cores
    if what == _VECTORS:
        return profile.cores.vector_cores
    if what in (_SOC, _ARCHITECTURE):
        found = next((told for name, told in _SOCS.items() if name in profile.name.upper()), (6, 0))
        return found[what == _ARCHITECTURE]
    name = _SIZES[what - _MEMORIES]
    if name == "l2":
        return int(profile.memory.l2_bytes)
    return int(getattr(profile.buffers, name, 0) or 0)


def matmul_tiling(session: Session, given: Any, found: Any) -> int:
    """The blocks of a product (MultiCoreMatmulTiling::GetTiling); 0, or -1 for one of nothing."""
    numbers = [int(given[place]) for place in range(27)]
    tiling = MultiCoreMatmulTiling(session.npu.profile)
    tiling.set_dim(numbers[0])
    tiling.set_shape(*numbers[1:4])
    tiling.set_org_shape(*numbers[4:7])
    tiling.set_single_shape(*numbers[7:10])
    tiling.set_fix_split(*numbers[10:13])
    a, b, c, bias = (_dtype(numbers[place]) for place in (13, 18, 19, 20))
    forms = [SimpleNamespace(name="NZ" if numbers[place] else "ND") for place in (23, 24, 25)]
    tiling.set_a_type(None, forms[0], a, bool(numbers[21]))
    place_b = SimpleNamespace(name="TSCM" if numbers[26] else "GM")
    tiling.set_b_type(place_b, forms[1], b, bool(numbers[22]))
    tiling.set_c_type(SimpleNamespace(name="VECCALC" if numbers[15] else "GM"), forms[2], c)
    tiling.set_bias_type(None, None, bias)
    tiling.enable_bias(bool(numbers[14]))
    tiling.enable_multi_core_split_k(bool(numbers[17]))
    made: Any = SimpleNamespace()
    if tiling.get_tiling(made):
        return -1
    values = (
        made.used_core_num, made.single_core_m, made.single_core_n, made.single_core_k,
        made.base_m, made.base_n, made.base_k, made.depth_a1, made.step_ka, made.db_l0c,
        made.depth_b1, made.step_kb, made.m, made.n, made.k_a,
    )  # fmt: skip
    for place, value in enumerate(values):
        found[place] = int(value)
    return 0


def _dtype(number: int) -> DataType:
    return DataType.of(from_acl(_WHOLE_BYTES.get(number, number)))
