"""Functions of the host alone: what tensors take in the formats of the cube, and packed scales."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.tables import Functions
from npusim.library.packed_scales import packed_scales
from npusim.values.dtypes import FLOAT16, DType, from_acl
from npusim.values.formats import Format
from npusim.values.layouts import storage_shape
from npusim.values.status import StatusCode
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.capi.runtime.session import Session

STORAGE = Functions()

_NULL = StatusCode.ACLNN_ERR_PARAM_NULLPTR
_INVALID = StatusCode.ACLNN_ERR_PARAM_INVALID
_NOT_DONE = StatusCode.ACLNN_ERR_RUNTIME_ERROR
_IMAGE, _MATRIX = 4, 2  # axes
_CAST_RANKS = range(2, 7)
_BLOCKED: dict[int, set[Format]] = {
    Format.ND: {Format.FRACTAL_NZ},
    Format.NCL: {Format.FRACTAL_NZ},
    Format.NCHW: {Format.FRACTAL_NZ, Format.NC1HWC0, Format.FRACTAL_Z},
    Format.NHWC: {Format.NC1HWC0},
    Format.HWCN: {Format.FRACTAL_Z},
    Format.NCDHW: {Format.FRACTAL_NZ, Format.NDC1HWC0, Format.FRACTAL_Z_3D},
    Format.NDHWC: {Format.NDC1HWC0},
}
"""Formats of the cube that a plain one is cast to, and back."""
_CHANNELS_SECOND = {
    Format.NHWC: (0, 3, 1, 2),
    Format.HWCN: (3, 2, 0, 1),
    Format.NDHWC: (0, 4, 1, 2, 3),
}


@STORAGE.entry("aclnnCalculateMatmulWeightSize")
def matmul_weight_size(session: Session, shape: int, size: Any) -> None:
    """Elements of a float16 matrix in FRACTAL_NZ."""
    _matrix(session, shape, FLOAT16, size)


@STORAGE.entry("aclnnCalculateMatmulWeightSizeV2")
def matmul_weight_size_v2(session: Session, shape: int, kind: int, size: Any) -> None:
    """Elements of a matrix in FRACTAL_NZ."""
    _matrix(session, shape, from_acl(kind), size)


@STORAGE.entry("aclnnCalculateConvolutionWeightSize")
def convolution_weight_size(
    session: Session, shape: int, transposed: bool, groups: int, kind: int, size: Any
) -> None:
    """Elements of a filter in FRACTAL_Z; 161002 for groups, whose layout isn't known here."""
    sizes = _sizes(session, shape, size)
    if len(sizes) != _IMAGE or groups != 1 or transposed:
        raise Refusal(_INVALID, "weights of four axes, one group and no transposition are known")
    size[0] = prod(storage_shape(sizes, from_acl(kind), Format.FRACTAL_Z))


@STORAGE.entry("aclnnNpuFormatCastCalculateSizeAndFormat")
def format_cast_shape(
    session: Session, tensor: int, form: int, kind: int, shape: Any, size: Any, actual: Any
) -> None:
    """The shape of a tensor in another format; a dtype of -1 is the tensor's own.

    361001 for empty tensors and formats without a cast. Source: hicann/ops-math
    conversion/npu_format_cast (op_api).
    """
    if not (tensor and shape and size and actual):
        raise Refusal(_NULL, "the tensor or a pointer for the result is null")
    spec = session.tables.tensors.get(tensor).spec
    dtype = spec.dtype if kind < 0 else from_acl(kind)
    if spec.rank not in _CAST_RANKS:
        raise Refusal(_INVALID, f"a tensor has 2 to 6 axes here, not {spec.rank}")
    if not spec.numel:
        raise Refusal(_NOT_DONE, "an empty tensor has no other format")
    if form in _BLOCKED.get(spec.format, ()):
        found = _blocked(spec, dtype, Format(form))
    elif spec.format in _BLOCKED.get(form, ()):
        found = spec.shape
    else:
        raise Refusal(_NOT_DONE, f"{spec.format} isn't cast to the format {form}")
    shape[0] = _array(session, "int64_t *", found)
    size[0], actual[0] = len(found), form


@STORAGE.entry("aclnnTransQuantParam")
def pack_scales(
    session: Session,
    scales: Any,
    scale_count: int,
    offsets: Any,
    offset_count: int,
    packed: Any,
    size: Any,
) -> None:
    """Scales cut to 19 bits and offsets of 9 bits in one number each.

    Source: hicann/ops-nn quant/trans_quant_param (page).
    """
    if not (scales and packed and size):
        raise Refusal(_NULL, "the scales or a pointer for the result is null")
    count = max(scale_count, offset_count)
    numbers = np.array([scales[i % scale_count] for i in range(count)], np.float32)
    given = None
    if offsets and offset_count:
        given = np.array([offsets[i % offset_count] for i in range(count)], np.float32)
    words = packed_scales(numbers, given)
    packed[0] = _array(session, "uint64_t *", words.tolist())
    size[0] = count


def _blocked(spec: TensorSpec, dtype: DType, form: Format) -> tuple[int, ...]:
    """The shape of blocks; 161002 for another number of axes than the tensor's format has."""
    if form is Format.FRACTAL_NZ:
        return TensorSpec(spec.shape, dtype, form).stored
    if spec.rank != len(spec.format.name):
        raise Refusal(_INVALID, f"{spec.format} has {len(spec.format.name)} axes, not {spec.rank}")
    order = _CHANNELS_SECOND.get(spec.format, range(spec.rank))
    return storage_shape([spec.shape[axis] for axis in order], dtype, form)


def _matrix(session: Session, shape: int, kind: DType, size: Any) -> None:
    sizes = _sizes(session, shape, size)
    if len(sizes) < _MATRIX:
        raise Refusal(_INVALID, f"a weight has at least two axes, not {len(sizes)}")
    size[0] = prod(storage_shape(sizes, kind, Format.FRACTAL_NZ))


def _sizes(session: Session, shape: int, size: Any) -> tuple[int, ...]:
    if not (shape and size):
        raise Refusal(_NULL, "the shape or a pointer for the result is null")
    return session.tables.int_arrays.get(shape)


def _array(session: Session, kind: str, numbers: Any) -> Any:
    """A new array, which the caller frees."""
    found = session.ffi.cast(kind, session.lib.npusim_new_array(8 * len(numbers)))
    for index, number in enumerate(numbers):
        found[index] = number
    return found
