"""Functions that create, read and destroy tensors, scalars, arrays and executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.capi.runtime.handles import Handles, WrongHandleError
from npusim.capi.runtime.objects import Scalar, Tensor
from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.tables import Functions
from npusim.values.dtypes import DTYPES, from_acl
from npusim.values.errors import ArgumentError
from npusim.values.formats import Format
from npusim.values.status import StatusCode
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.capi.runtime.session import Session

DESCRIBING = Functions()

_NULL = StatusCode.ACLNN_ERR_PARAM_NULLPTR
_INVALID = StatusCode.ACLNN_ERR_PARAM_INVALID

# More than any operator takes; beyond, the count is garbage and reading the sizes would crash.
_MOST_DIMENSIONS = 25
_MOST_ENTRIES = 1 << 24


@DESCRIBING.entry("aclCreateTensor")
def create_tensor(
    session: Session,
    sizes: Any,
    rank: int,
    kind: int,
    strides: Any,
    offset: int,
    layout: int,
    storage_sizes: Any,
    storage_rank: int,
    address: int,
) -> int:
    """A tensor; null where sizes are missing or negative, or dtype or format don't exist."""
    shape = _numbers(session, sizes, rank, "viewDims", most=_MOST_DIMENSIONS)
    steps = _numbers(session, strides, rank, "stride", most=_MOST_DIMENSIONS) if strides else None
    storage = _numbers(session, storage_sizes, storage_rank, "storageDims", most=_MOST_DIMENSIONS)
    if layout not in Format._value2member_map_:
        raise ArgumentError(f"there is no aclFormat {layout}")
    if offset < 0:
        raise ArgumentError(f"offset can't be negative, got {offset}")
    spec = TensorSpec(shape, from_acl(kind), Format(layout), steps)
    return session.tables.tensors.add(Tensor(spec, offset, storage, address))


@DESCRIBING.entry("aclCreateScalar")
def create_scalar(session: Session, address: int, kind: int) -> int:
    """A scalar with a copy of the value; null without one."""
    if not address:
        raise Refusal(_NULL, "value is a null pointer")
    dtype = from_acl(kind)
    if dtype.numpy is None:
        raise ArgumentError(f"scalars can't be {dtype}")
    value = np.zeros(1, dtype.numpy)
    session.host.read(address, value.view(np.uint8), "value")
    return session.tables.scalars.add(Scalar(complex(value[0]), dtype))


@DESCRIBING.entry("aclCreateIntArray")
def create_int_array(session: Session, values: Any, count: int) -> int:
    """An array of integers with a copy of the values."""
    return session.tables.int_arrays.add(_numbers(session, values, count, "value"))


@DESCRIBING.entry("aclCreateFloatArray")
def create_float_array(session: Session, values: Any, count: int) -> int:
    """An array of floats with a copy of the values."""
    return session.tables.float_arrays.add(_numbers(session, values, count, "value", np.float32))


@DESCRIBING.entry("aclCreateBoolArray")
def create_bool_array(session: Session, values: Any, count: int) -> int:
    """An array of booleans with a copy of the values; any byte but 0 is true."""
    flags = _numbers(session, values, count, "value", np.uint8)
    return session.tables.bool_arrays.add(tuple(bool(each) for each in flags))


@DESCRIBING.entry("aclCreateTensorList")
def create_tensor_list(session: Session, values: Any, count: int) -> int:
    """A list that owns its tensors."""
    handles = _numbers(session, values, count, "value", np.uint64)
    for handle in handles:
        session.tables.tensors.get(handle)
    return session.tables.tensor_lists.add(handles)


@DESCRIBING.entry("aclCreateScalarList")
def create_scalar_list(session: Session, values: Any, count: int) -> int:
    """A list that owns its scalars."""
    handles = _numbers(session, values, count, "value", np.uint64)
    for handle in handles:
        session.tables.scalars.get(handle)
    return session.tables.scalar_lists.add(handles)


def _destroyer(name: str) -> Any:
    def destroy(session: Session, handle: int) -> None:
        """Ends an object; null is accepted, an object that has ended is 161002."""
        if handle:
            table: Handles[Any] = getattr(session.tables, name)
            _checked(table, handle)
            table.remove(handle)

    return destroy


for _function, _table in (
    ("aclDestroyTensor", "tensors"),
    ("aclDestroyScalar", "scalars"),
    ("aclDestroyIntArray", "int_arrays"),
    ("aclDestroyFloatArray", "float_arrays"),
    ("aclDestroyBoolArray", "bool_arrays"),
    ("aclDestroyAclOpExecutor", "executors"),
):
    DESCRIBING[_function] = _destroyer(_table)


@DESCRIBING.entry("aclDestroyTensorList")
def destroy_tensor_list(session: Session, handle: int) -> None:
    """Ends a list and the tensors in it."""
    _destroy_list(session.tables.tensor_lists, session.tables.tensors, handle)


@DESCRIBING.entry("aclDestroyScalarList")
def destroy_scalar_list(session: Session, handle: int) -> None:
    """Ends a list and the scalars in it."""
    _destroy_list(session.tables.scalar_lists, session.tables.scalars, handle)


@DESCRIBING.entry("aclGetViewShape")
def view_shape(session: Session, tensor: int, sizes: Any, rank: Any) -> None:
    """Sizes in a new array, which the caller frees."""
    _give_array(session, _tensor(session, tensor, sizes, rank).spec.shape, sizes, rank)


@DESCRIBING.entry("aclGetStorageShape")
def storage_shape(session: Session, tensor: int, sizes: Any, rank: Any) -> None:
    """Sizes of the storage in a new array, which the caller frees."""
    _give_array(session, _tensor(session, tensor, sizes, rank).storage, sizes, rank)


@DESCRIBING.entry("aclGetViewStrides")
def view_strides(session: Session, tensor: int, strides: Any, count: Any) -> None:
    """Strides in a new array, which the caller frees."""
    _give_array(session, _tensor(session, tensor, strides, count).spec.strides, strides, count)


@DESCRIBING.entry("aclGetViewOffset")
def view_offset(session: Session, tensor: int, offset: Any) -> None:
    """The offset in elements."""
    offset[0] = _tensor(session, tensor, offset).offset


@DESCRIBING.entry("aclGetFormat")
def tensor_format(session: Session, tensor: int, layout: Any) -> None:
    """The format."""
    layout[0] = int(_tensor(session, tensor, layout).spec.format)


@DESCRIBING.entry("aclGetDataType")
def tensor_dtype(session: Session, tensor: int, kind: Any) -> None:
    """The data type."""
    kind[0] = _tensor(session, tensor, kind).spec.dtype.acl


def _sizer(name: str) -> Any:
    def count(session: Session, handle: int, size: Any) -> None:
        """The number of entries."""
        if not handle or not size:
            raise Refusal(_NULL, f"{'size' if handle else 'the array'} is a null pointer")
        size[0] = len(_checked(getattr(session.tables, name), handle))

    return count


for _function, _table in (
    ("aclGetIntArraySize", "int_arrays"),
    ("aclGetFloatArraySize", "float_arrays"),
    ("aclGetBoolArraySize", "bool_arrays"),
    ("aclGetTensorListSize", "tensor_lists"),
    ("aclGetScalarListSize", "scalar_lists"),
):
    DESCRIBING[_function] = _sizer(_table)


@DESCRIBING.entry("aclSetAclOpExecutorRepeatable")
def make_repeatable(session: Session, executor: int) -> None:
    """Lets an executor be executed any number of times; the caller destroys it."""
    if not executor:
        raise Refusal(_NULL, "executor is a null pointer")
    _checked(session.tables.executors, executor).is_repeatable = True


@DESCRIBING.entry("aclDataTypeSize")
def dtype_size(session: Session, kind: int) -> int:
    """Bytes of one element; 0 for what is no data type."""
    del session
    return next((each.itemsize for each in DTYPES if each.acl == kind), 0)


@DESCRIBING.entry("aclFloat16ToFloat")
def half_to_float(session: Session, bits: int) -> float:
    """The value of a half-precision number."""
    del session
    return float(np.uint16(bits).view(np.float16))


@DESCRIBING.entry("aclFloatToFloat16")
def float_to_half(session: Session, value: float) -> int:
    """The nearest half-precision number."""
    del session
    with np.errstate(over="ignore"):
        return int(np.float32(value).astype(np.float16).view(np.uint16))


def _numbers(
    session: Session,
    values: Any,
    count: int,
    name: str,
    kind: type[np.generic] = np.int64,
    most: int = _MOST_ENTRIES,
) -> tuple[Any, ...]:
    """A copy of `count` numbers of C. Refusal 161001 for a null pointer that should have some."""
    if count == 0:
        return ()
    if not values:
        raise Refusal(_NULL, f"{name} is a null pointer, {count} entries should be there")
    if count > most:
        raise Refusal(_INVALID, f"{name} with {count} entries is too long")
    copied = np.empty(count, kind)
    address = int(session.ffi.cast("uintptr_t", values))
    session.host.read(address, copied.view(np.uint8), name)
    return tuple(copied.tolist())


def _tensor(session: Session, handle: int, *results: Any) -> Tensor:
    if not handle or not all(results):
        raise Refusal(_NULL, "the tensor or a pointer for the result is null")
    found: Tensor = _checked(session.tables.tensors, handle)
    return found


def _checked(table: Handles[Any], handle: int) -> Any:
    try:
        return table.get(handle)
    except WrongHandleError as wrong:
        raise Refusal(_INVALID, wrong.message) from None


def _destroy_list(lists: Handles[Any], members: Handles[Any], handle: int) -> None:
    if handle:
        _checked(lists, handle)
        for member in lists.remove(handle):
            try:
                members.remove(member)
            except WrongHandleError:
                continue  # the program has destroyed this one itself


def _give_array(session: Session, numbers: tuple[int, ...], array: Any, count: Any) -> None:
    address = session.lib.npusim_new_array(8 * len(numbers))
    array[0] = session.ffi.cast("int64_t *", address)
    for index, number in enumerate(numbers):
        array[0][index] = number
    count[0] = len(numbers)
