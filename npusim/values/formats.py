"""The storage formats of aclnn tensors (aclFormat)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from npusim.values.errors import UnknownNameError, brief

FRACTAL: Final = 16
"""Rows and columns of a fractal of half types."""

C0: Final = FRACTAL
"""Channels of a pixel of NC1HWC0, but for those of eight bits, which have 32."""


class Format(IntEnum):
    """aclFormat; the numbers are those of hicann/runtime include/external/acl/acl_base_rt.h."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    C1HWNCOC0 = 25
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    @property
    def is_private(self) -> bool:
        """True for what only kernels store: blocks, whose axes aren't those of the tensor.

        The others say how axes are called, and interfaces take them for ND.
        """
        return self.name.startswith(("FRACTAL", "NC1HWC0", "NDC1HWC0", "C1HWNCOC0"))

    def __str__(self) -> str:
        return self.name


_BY_NAME = {**Format.__members__, "NZ": Format.FRACTAL_NZ, "5HD": Format.NC1HWC0}
_PREFIXES = ("ACLFORMAT::", "GE::", "ACL_FORMAT_", "FORMAT_", "ACL_")


def format_of(value: object) -> Format:
    """The `Format` behind a name (``NCHW``, ``ACL_FORMAT_NCHW``), a number or a `Format`."""
    if isinstance(value, Format):
        return value
    if isinstance(value, int) and value in Format._value2member_map_:
        return Format(value)
    word = value if isinstance(value, str) else brief(value)
    name = word.strip().upper()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    if name not in _BY_NAME:
        raise UnknownNameError("format", word, list(Format.__members__))
    return _BY_NAME[name]
