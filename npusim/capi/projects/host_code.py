"""A project's host code at work: its tiling, its inference, and what both ask about the chip."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from npusim.capi.kernel_calls import OP_CALL, OP_HOST
from npusim.capi.projects.described import Described, described
from npusim.capi.runtime import kernel_hosts
from npusim.values.dtypes import from_acl
from npusim.values.errors import RejectedError
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    import numpy as np

    from npusim.capi.runtime.session import Session
    from npusim.hardware.profile import Profile

OTHERS = "others.so"
"""Beside a project's host code: what it names of other products' code, as nothing."""
_FAILED, _BROKE = 1, 2
_MOST_AXES = 25


# What stands for a parameter: a tensor, a list of tensors, or nothing.
Given = TensorSpec | tuple[TensorSpec, ...] | None


class HostCodeError(Exception):
    """The tiling or inference of a project refuses a call, or breaks; the message says which."""


@dataclass(frozen=True)
class Tiling:
    """What a tiling function returns: blocks, key, workspace in bytes, and the data as bytes."""

    blocks: int
    key: int
    workspace_bytes: int
    data: bytes


class HostCode:
    """The library of a project's op_host."""

    def __init__(self, library: Path) -> None:
        self._ffi: Any = import_module("cffi").FFI()  # it has no types
        self._ffi.cdef(OP_CALL + OP_HOST)
        lazily: int = self._ffi.RTLD_LAZY  # what other products' parts define needn't be there
        others = library.with_name(OTHERS)
        loaded = others if others.exists() else library
        self._lib: Any = self._ffi.dlopen(str(loaded), lazily)
        self._session: Session | None = None
        self._answers = (
            self._ffi.callback("int64_t(int)", self._chip),
            self._ffi.callback("int(const int64_t *, int32_t *)", self._matmul),
        )
        self._lib.npusim_op_answers(*self._answers)

    def _chip(self, what: int) -> int:
        """A number of the chip; an OpDef that asks is for all chips."""
        return 0 if self._session is None else kernel_hosts.chip(self._session, what)

    def _matmul(self, given: Any, found: Any) -> int:
        """The blocks of a matrix product; -1 for an OpDef that asks."""
        if self._session is None:
            return -1
        return kernel_hosts.matmul_tiling(self._session, given, found)

    def _asked_for(self, profile: Profile) -> None:
        """Let host code ask about a chip."""
        asked = SimpleNamespace(npu=SimpleNamespace(profile=profile))
        self._session = cast("Session", asked)

    def operators(self, added: Sequence[str] = ()) -> tuple[Described, ...]:
        """The operators that it adds, for the products that are ``added`` too.

        Raises RejectedError for what isn't simulated.
        """
        told = self._ffi.string(self._lib.npusim_op_describe()).decode()
        if not told:
            raise RejectedError(f"the constructor of an OpDef doesn't end: {self._message()}")
        found = []
        for place, each in enumerate(json.loads(told)):
            try:
                found.append(described(place, each, added))
            except ValueError as problem:
                raise RejectedError(f"{each['name']}: {problem}") from None
        return tuple(found)

    def tile(
        self,
        op: Described,
        profile: Profile,
        inputs: Sequence[Given],
        outputs: Sequence[TensorSpec],
        attributes: Mapping[str, Any],
        values: Sequence[np.ndarray[Any, Any] | None] = (),
    ) -> Tiling:
        """What the tiling function makes of a call: an input is a list where the OpDef says so.

        ``values`` go with the inputs. Raises HostCodeError.
        """
        self._asked_for(profile)
        call, kept = self._call(op, inputs, outputs, attributes, values)
        self._run(self._lib.npusim_op_tile, call, f"the tiling function of {op.name}")
        del kept
        if not call.blocks:
            raise HostCodeError(f"the tiling function of {op.name} doesn't call SetBlockDim")
        data = bytes(self._ffi.buffer(call.tiling, call.tiling_bytes))
        return Tiling(call.blocks, call.key, call.workspace_bytes, data)

    def infer(
        self,
        op: Described,
        profile: Profile,
        inputs: Sequence[Given],
        attributes: Mapping[str, Any],
        values: Sequence[np.ndarray[Any, Any] | None] = (),
    ) -> tuple[TensorSpec, ...]:
        """The outputs as the project infers them; a list has as many as the first list of inputs.

        ``values`` go with the inputs. Raises HostCodeError.
        """
        self._asked_for(profile)
        most = max((len(each) for each in inputs if isinstance(each, tuple)), default=1)
        made = [
            TensorSpec((), dtype)
            for tensor, dtype in zip(op.outputs, self._dtypes(op, inputs), strict=True)
            for _ in range(most if tensor.many else 1)
        ]
        call, kept = self._call(op, inputs, made, attributes, values)
        self._run(self._lib.npusim_op_infer, call, f"the inference of {op.name}")
        found = [call.tensors[call.inputs + place] for place in range(len(made))]
        del kept
        return tuple(
            TensorSpec(tuple(each.dims[0 : each.rank]), from_acl(each.dtype)) for each in found
        )

    def _dtypes(self, op: Described, inputs: Sequence[Given]) -> Sequence[Any]:
        """The dtypes of the outputs by the combination that the inputs belong to."""
        count = len(op.inputs)
        given = [_first(each) for each in inputs]
        for each in op.combinations:
            if all(spec is None or spec.dtype is d for spec, d in zip(given, each, strict=False)):
                return each[count:]
        return op.combinations[0][count:]

    def _call(
        self,
        op: Described,
        inputs: Sequence[Given],
        outputs: Sequence[TensorSpec],
        attributes: Mapping[str, Any],
        values: Sequence[np.ndarray[Any, Any] | None],
    ) -> tuple[Any, list[Any]]:
        """A call as C takes it, and what it points to."""
        counts = [len(each) if isinstance(each, tuple) else 1 for each in inputs]
        flat = [one for each in inputs for one in (each if isinstance(each, tuple) else (each,))]
        valued = [
            valued.valued
            for valued, count in zip(op.inputs, counts, strict=True)
            for _ in range(count)
        ]
        tensors = self._ffi.new("npusim_op_tensor_t[]", max(1, len(flat) + len(outputs)))
        among = self._ffi.new("int32_t[]", counts or [0])
        kept: list[Any] = [tensors, among, op.name]
        for place, spec in enumerate((*flat, *outputs)):
            tensors[place].format = Format.ND
            tensors[place].dtype = -1 if spec is None else spec.dtype.acl
            if spec is None:
                continue
            if spec.rank > _MOST_AXES:
                raise HostCodeError(f"a tensor has {spec.rank} axes")
            tensors[place].present, tensors[place].rank = 1, spec.rank
            tensors[place].format = spec.format
            for axis, size in enumerate(spec.shape):
                tensors[place].dims[axis] = size
            data = values[place] if place < len(values) else None
            if data is not None and valued[place]:
                held = self._ffi.from_buffer(data.tobytes())
                kept.append(held)
                tensors[place].data = held
        given = self._ffi.new("npusim_op_attribute_t[]", max(1, len(op.attributes)))
        for place, parameter in enumerate(op.attributes):
            value = attributes.get(parameter.name, parameter.default)
            if value is not None:
                self._give(given[place], value, kept)
        call = self._ffi.new("npusim_op_call_t *")
        call.op, call.inputs, call.outputs = op.place, len(flat), len(outputs)
        call.parameters, call.counts = len(counts), among
        call.attributes, call.tensors, call.values = len(op.attributes), tensors, given
        kept.append(given)
        return call, kept

    def _give(self, into: Any, value: Any, kept: list[Any]) -> None:
        into.given = 1
        if isinstance(value, str):
            kept.append(self._ffi.new("char[]", value.encode()))
            into.text = kept[-1]
        elif isinstance(value, tuple | list):
            kept.append(self._ffi.new("int64_t[]", [int(each) for each in value] or [0]))
            into.list, into.count = kept[-1], len(value)
        else:
            into.whole, into.real = int(value), float(value)

    def _run(self, function: Any, call: Any, what: str) -> None:
        status = function(call)
        if status == _FAILED:
            why = self._message()
            raise HostCodeError(f"{what} returns that it failed{f': {why}' if why else ''}")
        if status == _BROKE:
            raise HostCodeError(f"{what} broke: {self._message()}")

    def _message(self) -> str:
        return str(self._ffi.string(self._lib.npusim_op_message()).decode(errors="replace"))


def _first(given: Given) -> TensorSpec | None:
    """A tensor, or the first one of a list."""
    return next(iter(given), None) if isinstance(given, tuple) else given


@cache
def host_code(library: Path) -> HostCode:
    """The library of a project, loaded once."""
    return HostCode(library)
