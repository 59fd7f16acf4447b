"""``asc.lib.host``: how a matrix product is cut for several cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.hardware.profile import Profile
from npusim.library.matmul_tiling import MatmulTiling
from npusim.pyasc.session import session
from npusim.pyasc.values import DataType
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.pyasc.matmul import TCubeTiling

_BLOCKS_IN_UB = 3  # of results that UB has room for, with two on their way out
_GRAIN = 16  # rows and columns of a fractal of results


class DTypes:
    """Types by their names in graphs: ``DT_FLOAT16``."""

    DT_FLOAT = DataType("float32")
    DT_FLOAT16 = DataType("float16")
    DT_BF16 = DT_BFLOAT16 = DataType("bfloat16")
    DT_INT8 = DataType("int8")
    DT_INT32 = DataType("int32")


class MatmulApiTiling:
    """A product on one core: blocks that fill its memories."""

    def __init__(self, platform: object = None) -> None:
        self._platform = platform
        self._cores = 1
        self._shape = [0, 0, 0]
        self._original = [0, 0, 0]
        self._single = [-1, -1, -1]
        self._fixed = [-1, -1, -1]
        self._dtype = DTypes.DT_FLOAT16
        self._bias = self._into_ub = False
        self._order = 0
        self.result: TCubeTiling | None = None

    def set_a_type(self, pos: Any, type: Any, data_type: DataType, is_trans: bool = False) -> int:
        self._dtype = data_type
        return 0

    def set_c_type(self, pos: Any, type: Any, data_type: DataType) -> int:
        self._into_ub = pos.name in ("VECCALC", "VECIN", "VECOUT")
        return 0

    def set_shape(self, m: int, n: int, k: int) -> int:
        self._shape = [int(m), int(n), int(k)]
        return 0

    def set_org_shape(self, m: int, n: int, k: int, k_b: int | None = None) -> int:
        self._original = [int(m), int(n), int(k)]
        return 0

    def enable_bias(self, is_bias_in: bool = True) -> int:
        self._bias = bool(is_bias_in)
        return 0

    def set_bias(self, is_bias_in: bool = True) -> int:
        return self.enable_bias(is_bias_in)

    def set_fix_split(self, base_m_in: int = -1, base_n_in: int = -1, base_k_in: int = -1) -> int:
        self._fixed = [int(base_m_in), int(base_n_in), int(base_k_in)]
        return 0

    def set_traverse(self, traverse: Any) -> int:
        self._order = int(getattr(traverse, "name", "") == "FIRSTN")
        return 0

    def __getattr__(self, name: str) -> Any:
        """Settings that the blocks here don't depend on."""
        if name.startswith(("set_b_", "set_bias_", "set_buffer_", "set_double_")):
            return lambda *values, **named: 0
        if name.startswith(("set_matmul_config", "set_mad_", "set_split_", "set_align_")):
            return lambda *values, **named: 0
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def get_tiling(self, tiling: TCubeTiling) -> int:
        """Fill in the tiling; 0 as the library says for success, -1 for a product of nothing."""
        m, n, k = self._shape
        if min(m, n, k) < 1:
            return -1
        base_m, base_n, base_k = self._base(m, n, k)
        single_m, single_n, used = self._parts(m, n)
        base_m, base_n = (
            min(base_m, round_up(single_m, _GRAIN)),
            min(base_n, round_up(single_n, _GRAIN)),
        )
        values = {
            "used_core_num": used, "m": m, "n": n, "k_a": k, "k_b": k,
            "single_core_m": single_m, "single_core_n": single_n, "single_core_k": k,
            "base_m": base_m, "base_n": base_n, "base_k": base_k,
            "step_m": 1, "step_n": 1, "step_ka": 1, "step_kb": 1, "depth_a1": 2, "depth_b1": 2,
            "is_bias": int(self._bias), "iterate_order": self._order, "db_l0a": 2, "db_l0b": 2,
            "db_l0c": 1,
        }  # fmt: skip
        for name, value in values.items():
            setattr(tiling, name, value)
        self.result = tiling
        return 0

    def _base(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        given = self._platform
        profile = given if isinstance(given, Profile) else session().device.profile
        dtype = self._dtype.inner
        own = MatmulTiling.of(profile, dtype, m, n, k)
        room = profile.buffers.ub_bytes // _BLOCKS_IN_UB // FLOAT.itemsize
        wide = (
            min(own.base_n, room // own.base_m // _GRAIN * _GRAIN) if self._into_ub else own.base_n
        )
        base_m, base_n = (
            fixed if fixed > 0 else mine
            for fixed, mine in zip(self._fixed, (own.base_m, wide), strict=False)
        )
        if self._fixed[2] > 0:
            return base_m, base_n, self._fixed[2]
        half = min(profile.buffers.l0a_bytes, profile.buffers.l0b_bytes) // 2
        lanes = profile.buffers.block_bytes // dtype.itemsize
        most = half // (max(base_m, base_n) * dtype.itemsize) // lanes * lanes
        if most < 1:
            raise ArgumentError(
                f"blocks of {base_m} x {base_n} don't fit into L0", "Set smaller ones."
            )
        return base_m, base_n, min(most, round_up(k, lanes))

    def _parts(self, m: int, n: int) -> tuple[int, int, int]:
        """The part of C of each core, and how many cores have one.

        Of all ways to cut rows and columns, the one whose largest part takes the fewest fractals,
        then the one that loads the least.
        """
        if self._single[0] > 0 and self._single[1] > 0:
            parts = -(-m // self._single[0]) * -(-n // self._single[1])
            return self._single[0], self._single[1], parts
        found = []
        grain_m, grain_n = (fixed if fixed > 0 else _GRAIN for fixed in self._fixed[:2])
        for high in range(1, self._cores + 1):
            single_m = min(m, round_up(-(-m // high), grain_m))
            single_n = min(n, round_up(-(-n // (self._cores // high)), grain_n))
            used = -(-m // single_m) * -(-n // single_n)
            work = round_up(single_m, _GRAIN) * round_up(single_n, _GRAIN)
            found.append((work, single_m + single_n, single_m, single_n, used))
        _, _, single_m, single_n, used = min(found)
        return single_m, single_n, used


class MultiCoreMatmulTiling(MatmulApiTiling):
    """A product on several cores: a part of C for each of them."""

    def set_dim(self, dim: int) -> int:
        self._cores = int(dim)
        return 0

    def set_single_shape(
        self, single_m_in: int = -1, single_n_in: int = -1, single_k_in: int = -1
    ) -> int:
        self._single = [int(single_m_in), int(single_n_in), int(single_k_in)]
        return 0

    def get_core_num(self) -> tuple[int, int, int]:
        """The cores in use, and in how many parts rows and columns are cut."""
        t = self.result
        if t is None:
            return 0, 0, 0
        return (
            int(t.used_core_num),
            -(-int(t.m) // int(t.single_core_m)),
            -(-int(t.n) // int(t.single_core_n)),
        )


def get_ascendc_platform() -> object:
    """The chip that the program runs on."""
    return session().device.profile
