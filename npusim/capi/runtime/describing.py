"""Functions that create, read and destroy tensors, scalars, arrays and executors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
def create_tensor(session: Session, *words: Any) -> int:
    """A tensor; null where sizes are missing or negative, or dtype or format don't exist."""
    return session.tables.tensors.add(_described(session, *words))


@DESCRIBING.entry("aclInitTensor")
def init_tensor(session: Session, handle: int, *words: Any) -> None:
    """Describes a tensor anew; one that is part of a call planned before stays what it was."""
    _checked(session.tables.tensors, handle)
    session.tables.tensors.replace(handle, _described(session, *words))


def _described(
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
) -> Tensor:
    """A tensor as C tells it. Raises ArgumentError, and Refusal for null pointers."""
    shape = _numbers(session, sizes, rank, "viewDims", most=_MOST_DIMENSIONS)
    steps = _numbers(session, strides, rank, "stride", most=_MOST_DIMENSIONS) if strides else None
    storage = _numbers(session, storage_sizes, storage_rank, "storageDims", most=_MOST_DIMENSIONS)
    if layout not in Format._value2member_map_:
        raise ArgumentError(f"there is no aclFormat {layout}")
    if offset < 0:
        raise ArgumentError(f"offset can't be negative, got {offset}")
    spec = TensorSpec(shape, from_acl(kind), Format(layout), steps)
    return Tensor(spec, offset, storage, address)


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


def _maker(name: str, kind: type[np.generic], members: str = "") -> Any:
    def create(session: Session, values: Any, count: int) -> int:
        """An array with a copy of the values, or a list that owns its members."""
        numbers = _numbers(session, values, count, "value", kind)
        for handle in numbers if members else ():
            getattr(session.tables, members).get(handle)
        given: int = getattr(session.tables, name).add(numbers)
        return given

    return create


DESCRIBING |= {
    "aclCreateIntArray": _maker("int_arrays", np.int64),
    "aclCreateFloatArray": _maker("float_arrays", np.float32),
    "aclCreateBoolArray": _maker("bool_arrays", np.bool_),
    "aclCreateTensorList": _maker("tensor_lists", np.uint64, "tensors"),
    "aclCreateScalarList": _maker("scalar_lists", np.uint64, "scalars"),
}


def _destroyer(name: str, members: str = "") -> Any:
    def destroy(session: Session, handle: int) -> None:
        """Ends an object, and the members of a list.

        Null is accepted, an object that has ended is 161002.
        """
        if handle:
            table: Handles[Any] = getattr(session.tables, name)
            _checked(table, handle)
            ended = table.remove(handle)
            for member in ended if members else ():
                with suppress(WrongHandleError):  # the program has destroyed this one itself
                    getattr(session.tables, members).remove(member)

    return destroy


DESCRIBING |= {
    "aclDestroyTensor": _destroyer("tensors"),
    "aclDestroyScalar": _destroyer("scalars"),
    "aclDestroyIntArray": _destroyer("int_arrays"),
    "aclDestroyFloatArray": _destroyer("float_arrays"),
    "aclDestroyBoolArray": _destroyer("bool_arrays"),
    "aclDestroyTensorList": _destroyer("tensor_lists", "tensors"),
    "aclDestroyScalarList": _destroyer("scalar_lists", "scalars"),
    "aclDestroyAclOpExecutor": _destroyer("executors"),
}


def _reader(read: Callable[[Tensor], Any]) -> Any:
    def give(session: Session, handle: int, result: Any, count: Any = True) -> None:
        """What is known of a tensor: a number, or numbers in a new array that the caller frees."""
        if not (handle and result and count):
            raise Refusal(_NULL, "the tensor or a pointer for the result is null")
        found = read(_checked(session.tables.tensors, handle))
        if not isinstance(found, tuple):
            result[0] = found
            return
        address = session.lib.npusim_new_array(8 * len(found))
        result[0] = session.ffi.cast("int64_t *", address)
        for index, number in enumerate(found):
            result[0][index] = number
        count[0] = len(found)

    return give


DESCRIBING |= {
    "aclGetViewShape": _reader(lambda tensor: tensor.spec.shape),
    "aclGetStorageShape": _reader(lambda tensor: tensor.storage),
    "aclGetViewStrides": _reader(lambda tensor: tensor.spec.strides),
    "aclGetViewOffset": _reader(lambda tensor: tensor.offset),
    "aclGetFormat": _reader(lambda tensor: int(tensor.spec.format)),
    "aclGetDataType": _reader(lambda tensor: tensor.spec.dtype.acl),
}


def _sizer(name: str) -> Any:
    def count(session: Session, handle: int, size: Any) -> None:
        """The number of entries."""
        if not handle or not size:
            raise Refusal(_NULL, f"{'size' if handle else 'the array'} is a null pointer")
        size[0] = len(_checked(getattr(session.tables, name), handle))

    return count


DESCRIBING |= {
    "aclGetIntArraySize": _sizer("int_arrays"),
    "aclGetFloatArraySize": _sizer("float_arrays"),
    "aclGetBoolArraySize": _sizer("bool_arrays"),
    "aclGetTensorListSize": _sizer("tensor_lists"),
    "aclGetScalarListSize": _sizer("scalar_lists"),
}


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


def _checked(table: Handles[Any], handle: int) -> Any:
    try:
        return table.get(handle)
    except WrongHandleError as wrong:
        raise Refusal(_INVALID, wrong.message) from None
