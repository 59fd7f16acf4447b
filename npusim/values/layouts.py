"""The shape of a tensor in memory: formats split axes into blocks of what an instruction takes.

Sources: the format pages of hiascend.com (NC1HWC0, FRACTAL_Z, FRACTAL_NZ); C0 is 32 bytes of
8-bit elements, else 16 elements.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from npusim.values.formats import FRACTAL, Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.values.dtypes import DType


def c0(dtype: DType) -> int:
    """Channels in a block."""
    return 32 if dtype.bits == 8 else FRACTAL


def storage_shape(shape: Sequence[int], dtype: DType, form: Format) -> tuple[int, ...]:
    """The shape in memory of a tensor that is ``shape`` to the network.

    NC1HWC0 and FRACTAL_Z are of NCHW, NDC1HWC0 and FRACTAL_Z_3D of NCDHW, FRACTAL_NZ of matrices
    in its last two axes; any other format leaves the shape as it is.
    """
    block = c0(dtype)
    if form is Format.NC1HWC0:
        images, channels, height, width = shape
        return (images, -(-channels // block), height, width, block)
    if form is Format.NDC1HWC0:
        images, channels, depth, height, width = shape
        return (images, depth, -(-channels // block), height, width, block)
    if form in (Format.FRACTAL_Z, Format.FRACTAL_Z_3D):
        filters, channels, *window = shape
        return (-(-channels // block) * prod(window), -(-filters // FRACTAL), FRACTAL, block)
    if form is Format.FRACTAL_NZ:
        *others, rows, columns = (1, *shape) if len(shape) == 1 else shape
        return (*others, -(-columns // block), -(-rows // FRACTAL), FRACTAL, block)
    return tuple(shape)


def blocks_of(matrices: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Matrices in FRACTAL_NZ, in blocks of this ``shape``; zeros fill up the last ones."""
    import numpy as np

    *outer, across, down, rows, lanes = shape
    whole = np.zeros((*outer, down * rows, across * lanes), matrices.dtype)
    whole[..., : matrices.shape[-2], : matrices.shape[-1]] = matrices
    apart = whole.reshape(*outer, down, rows, across, lanes)
    return np.ascontiguousarray(np.moveaxis(apart, -2, len(outer)))
