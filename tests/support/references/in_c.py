"""The same calls through the library that C++ programs link, loaded into this process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.capi.declarations import arguments_of
from npusim.capi.library import LIBRARY, installation
from npusim.operators.oracle import contract_of
from npusim.values.dtypes import dtype
from npusim.values.formats import Format
from npusim.values.layouts import blocks_of
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from support.references.row import Array

_PLAIN = {
    "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "int8_t": ctypes.c_int8,
    "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32, "int": ctypes.c_int,
    "bool": ctypes.c_bool, "float": ctypes.c_float, "double": ctypes.c_double,
}  # fmt: skip
_ARRAYS = {"IntArray": ctypes.c_int64, "FloatArray": ctypes.c_float, "BoolArray": ctypes.c_bool}
_TO_DEVICE, _TO_HOST = 1, 2
_US_IN_MS = 1000

_size, _address = ctypes.c_size_t, ctypes.c_void_p


class Done(NamedTuple):
    """What a call gave: the first phase's code, tensors by name, and the time on the device."""

    code: int
    tensors: Mapping[str, Array]
    duration_us: float


class CLibrary:
    """The C functions of all interfaces; NPUSIM_SOC says on which chip, once for the process."""

    def __init__(self) -> None:
        path = installation().lib / LIBRARY
        self._functions = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self.done("aclInit", None)
        self.done("aclrtSetDevice", 0)

    def call(self, api: str, values: Mapping[str, Any]) -> Done:
        """Both phases, results among the values; what isn't there is null or nought."""
        given = _Arguments(self, values, _in_blocks(api))
        words = [given.word(kind, name) for kind, name in arguments_of(api)]
        size, executor = ctypes.c_uint64(), _address()
        first = getattr(self._functions, f"{api}GetWorkspaceSize")
        code = first(*words, ctypes.byref(size), ctypes.byref(executor))
        duration_us = 0.0 if code else self._executed(api, size.value, executor)
        found = {name: each.back(self) for name, each in given.placed.items()}
        for end, handle in given.endings:
            self.done(end, _address(handle))
        return Done(code, found, duration_us)

    def _executed(self, api: str, size: int, executor: Any) -> float:
        """The second phase on a stream of its own, and its time."""
        stream, begin, end, took_ms = _address(), _address(), _address(), ctypes.c_float()
        self.done("aclrtCreateStream", ctypes.byref(stream))
        for event in (begin, end):
            self.done("aclrtCreateEvent", ctypes.byref(event))
        workspace = self.allocated(size) if size else 0
        self.done("aclrtRecordEvent", begin, stream)
        self.done(api, _address(workspace), ctypes.c_uint64(size), executor, stream)
        self.done("aclrtRecordEvent", end, stream)
        self.done("aclrtSynchronizeStream", stream)
        self.done("aclrtEventElapsedTime", ctypes.byref(took_ms), begin, end)
        for event in (begin, end):
            self.done("aclrtDestroyEvent", event)
        self.done("aclrtDestroyStream", stream)
        if workspace:
            self.done("aclrtFree", _address(workspace))
        return took_ms.value * _US_IN_MS

    def allocated(self, size: int) -> int:
        """The address of a block on the device."""
        address = _address()
        self.done("aclrtMalloc", ctypes.byref(address), _size(size), 0)
        return address.value or 0

    def made(self, name: str, *given: Any) -> int:
        """The handle that a function creates."""
        function = getattr(self._functions, name)
        function.restype = _address
        handle: int = function(*given)
        assert handle, f"{name}: {self._said()}"
        return handle

    def done(self, name: str, *given: Any) -> None:
        """A call that must not be refused."""
        code = getattr(self._functions, name)(*given)
        assert not code, f"{name}: {code} {self._said()}"

    def _said(self) -> str:
        function = self._functions.aclGetRecentErrMsg
        function.restype = ctypes.c_char_p
        return (function() or b"").decode()


class _Placed(NamedTuple):
    """A caller's array and where it lies on the device."""

    address: int
    array: Array

    def there(self, library: CLibrary) -> None:
        """Copy the array to the device, with what stands between its elements."""
        data = _storage(self.array)
        if data.size:
            size, source = _size(data.size), _address(data.ctypes.data)
            library.done("aclrtMemcpy", _address(self.address), size, source, size, _TO_DEVICE)

    def back(self, library: CLibrary) -> Array:
        """The tensor as it is on the device, in an array of its own."""
        found = twin(self.array)
        data = _storage(found)
        if data.size:
            size, target = _size(data.size), _address(data.ctypes.data)
            library.done("aclrtMemcpy", target, size, _address(self.address), size, _TO_HOST)
        return found


def _storage(array: Array) -> Array:
    """The bytes of an array from its first to its last element, whatever its strides."""
    size = TensorSpec.of(array).storage_bytes
    return np.frombuffer((ctypes.c_char * size).from_address(array.ctypes.data), np.uint8)


def twin(array: Array) -> Array:
    """An array of the same strides in memory of its own, with what stands between the elements."""
    data = bytearray(_storage(array).tobytes())
    return np.ndarray(array.shape, array.dtype, data or bytearray(array.itemsize), 0, array.strides)


@cache
def _in_blocks(api: str) -> frozenset[str]:
    """The tensors that an interface takes in FRACTAL_NZ alone."""
    contract = contract_of(api, {})
    found = contract.parameters if contract else ()
    return frozenset(each.name for each in found if each.formats[0] is Format.FRACTAL_NZ)


@dataclass
class _Arguments:
    """The arguments of one call as C takes them, and what has to be ended behind it."""

    library: CLibrary
    values: Mapping[str, Any]
    blocked: frozenset[str]
    placed: dict[str, _Placed] = field(default_factory=dict)
    endings: list[tuple[str, int]] = field(default_factory=list)

    def word(self, kind: str, name: str) -> Any:
        """One argument: a handle, a text or a number."""
        bare, value = kind.replace("const", "").replace("*", "").strip(), self.values.get(name)
        if "*" not in kind:
            return self._plain(bare, value)
        if bare == "aclTensorList":
            members = takewhile(self.values.__contains__, (f"{name}{at}" for at in count()))
            return self._list("aclCreateTensorList", [self._tensor(each) for each in members])
        if value is None:
            return None
        if bare == "char":
            return ctypes.c_char_p(value.encode())
        if bare == "aclTensor":
            return _address(self._tensor(name))
        if bare == "aclScalar":
            return _address(self._scalar(value))
        if bare == "aclScalarList":
            return self._list("aclCreateScalarList", [self._scalar(each) for each in value])
        kind = bare.removeprefix("acl")
        numbers = (_ARRAYS[kind] * len(value))(*value)
        return _address(self._kept(f"aclCreate{kind}", numbers, ctypes.c_uint64(len(value))))

    def _plain(self, kind: str, value: Any) -> Any:
        if kind.startswith("acl"):
            return ctypes.c_int(value if isinstance(value, int) else dtype(value or "FLOAT").acl)
        return _PLAIN[kind](value or 0)

    def _kept(self, create: str, *given: Any) -> int:
        handle = self.library.made(create, *given)
        self.endings.append((create.replace("Create", "Destroy"), handle))
        return handle

    def _list(self, create: str, handles: Sequence[int]) -> Any:
        members = (ctypes.c_uint64 * len(handles))(*handles)
        made = self._kept(create, members, ctypes.c_uint64(len(handles))) if handles else None
        return _address(made)

    def _scalar(self, value: complex) -> int:
        """A number as C++ writes it: a truth value, a whole number or a double."""
        held = np.asarray(value)
        return self._kept("aclCreateScalar", _address(held.ctypes.data), dtype(held.dtype).acl)

    def _tensor(self, name: str) -> int:
        """The tensor of an array with its strides, on a block of the device of its own."""
        array, form = self.values[name], Format.ND
        spec = TensorSpec.of(array)
        if name in self.blocked:
            form = Format.FRACTAL_NZ
            spec = TensorSpec(spec.shape, spec.dtype, form)
            array = blocks_of(array, spec.stored)
        self.placed[name] = placed = _Placed(self.library.allocated(spec.storage_bytes or 1), array)
        placed.there(self.library)
        axes, rank = ctypes.c_int64 * spec.rank, ctypes.c_uint64(spec.rank)
        storage = (ctypes.c_int64 * 1)(spec.storage_bytes // spec.dtype.itemsize)
        handle = self._kept(
            "aclCreateTensor", axes(*spec.shape), rank, spec.dtype.acl, axes(*spec.strides),
            ctypes.c_int64(0), int(form), storage, ctypes.c_uint64(1),
            _address(placed.address),
        )  # fmt: skip
        self.endings.append(("aclrtFree", placed.address))
        return handle
