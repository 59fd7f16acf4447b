"""``asc.lib.host``: how a matrix product is cut for several cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.hardware.profile import Profile
from npusim.library.matmul_cores import Cut, cut_for_cores
from npusim.library.matmul_product import HostProduct, Room
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
        self._shape = [-1, -1, -1]
        self._original = [-1, -1, -1]
        self._single = [-1, -1, -1]
        self._fixed = [-1, -1, -1]
        self._dtype = self._dtype_b = self._dtype_c = DTypes.DT_FLOAT16
        self._dtype_bias = DTypes.DT_FLOAT
        self._turned = [False, False]
        self._blocked = [False, False, False]
        self._bias = self._into_ub = self._holds_b = self._splits_k = False
        self._order = 0
        self.result: TCubeTiling | None = None

    def set_a_type(self, pos: Any, type: Any, data_type: DataType, is_trans: bool = False) -> int:
        self._dtype, self._turned[0] = data_type, bool(is_trans)
        self._blocked[0] = _is_blocked(type)
        return 0

    def set_b_type(self, pos: Any, type: Any, data_type: DataType, is_trans: bool = False) -> int:
        self._dtype_b, self._turned[1] = data_type, bool(is_trans)
        self._blocked[1] = _is_blocked(type)
        self._holds_b = getattr(pos, "name", "") == "TSCM"
        return 0

    def set_c_type(self, pos: Any, type: Any, data_type: DataType) -> int:
        self._into_ub = pos.name in ("VECCALC", "VECIN", "VECOUT")
        self._dtype_c, self._blocked[2] = data_type, _is_blocked(type)
        return 0

    def set_bias_type(self, pos: Any, type: Any, data_type: DataType) -> int:
        self._dtype_bias = data_type
        return 0

    def enable_multi_core_split_k(self, flag: bool = True) -> int:
        self._splits_k = bool(flag)
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
        if name.startswith(("set_buffer_", "set_double_", "set_sparse", "set_dequant_")):
            return lambda *values, **named: 0
        if name.startswith(("set_matmul_config", "set_mad_", "set_split_", "set_align_")):
            return lambda *values, **named: 0
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def get_tiling(self, tiling: TCubeTiling) -> int:
        """Fill in the tiling; 0 as the library says for success, -1 for a product of nothing."""
        whole = [
            told if told > 0 else own for told, own in zip(self._original, self._shape, strict=True)
        ]
        m, n, k = (told if told > 0 else own for told, own in zip(self._shape, whole, strict=True))
        if min(m, n, k) < 1:
            return -1
        cut = self._cut((m, n, k), (whole[0], whole[1], whole[2]))
        part = (cut.single_m, cut.single_n, cut.single_k)
        base_m, base_n, base_k = cut.blocks or self._base(*part)
        step_a, step_b = cut.steps or (1, 1)
        values = {
            "used_core_num": cut.used, "m": whole[0], "n": whole[1], "k_a": whole[2],
            "k_b": whole[2], "single_core_m": cut.single_m, "single_core_n": cut.single_n,
            "single_core_k": cut.single_k, "base_m": base_m, "base_n": base_n, "base_k": base_k,
            "step_m": 1, "step_n": 1, "step_ka": step_a, "step_kb": step_b,
            "depth_a1": 2 * step_a, "depth_b1": 2 * step_b, "is_bias": int(self._bias),
            "iterate_order": self._order, "db_l0a": 2, "db_l0b": 2, "db_l0c": 1,
        }  # fmt: skip
        for name, value in values.items():
            setattr(tiling, name, value)
        self.result = tiling
        return 0

    def _base(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """The block of a core's part; those that go to UB leave room there for more of them."""
        profile, dtype = self._profile(), self._dtype.inner
        own = MatmulTiling.of(profile, dtype, m, n, k)
        fixed_m, fixed_n, fixed_k = self._fixed
        base_m = min(fixed_m if fixed_m > 0 else own.base_m, round_up(m, _GRAIN))
        base_n = own.base_n
        if self._into_ub:
            room = profile.buffers.ub_bytes // _BLOCKS_IN_UB // FLOAT.itemsize
            base_n = min(base_n, room // base_m // _GRAIN * _GRAIN)
        base_n = min(fixed_n if fixed_n > 0 else base_n, round_up(n, _GRAIN))
        if fixed_k > 0:
            return base_m, base_n, fixed_k
        half = min(profile.buffers.l0a_bytes, profile.buffers.l0b_bytes) // 2
        lanes = profile.buffers.block_bytes // dtype.itemsize
        most = half // (max(base_m, base_n) * dtype.itemsize) // lanes * lanes
        if most < 1:
            raise ArgumentError(
                f"blocks of {base_m} x {base_n} don't fit into L0", "Set smaller ones."
            )
        return base_m, base_n, min(most, round_up(k, lanes))

    def _cut(self, shape: tuple[int, int, int], whole: tuple[int, int, int]) -> Cut:
        """The part of each core: what was set, or the library's cut."""
        if max(self._single) > 0:
            m, n, k = (
                own if own > 0 else told for own, told in zip(self._single, shape, strict=True)
            )
            return Cut(m, n, k, self._cores)
        types = (self._dtype, self._dtype_b, self._dtype_c, self._dtype_bias)
        a_bits, b_bits, c_bits, bias_bits = (each.inner.bits for each in types)
        product = HostProduct(
            shape[0], shape[1], shape[2], whole, a_bits, b_bits, c_bits,
            bias_bits if self._bias else 0, self._turned[0], self._turned[1],
            blocked_in=any(self._blocked[:2]), blocked_out=self._blocked[2],
            holds_b=self._holds_b, splits_k=self._splits_k, has_shape=max(self._shape[:2]) > 0,
            fixed=(self._fixed[0], self._fixed[1]),
        )  # fmt: skip
        return cut_for_cores(product, self._cores, Room.of(self._profile()))

    def _profile(self) -> Profile:
        given = self._platform
        return given if isinstance(given, Profile) else session().device.profile


def _is_blocked(form: object) -> bool:
    return getattr(form, "name", "") == "NZ"


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
