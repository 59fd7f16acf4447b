"""The modules that pyasc programs import, put together: ``asc`` and what is in it."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from npusim.pyasc import (
    advanced,
    basic,
    enums,
    framework,
    interpolation,
    jit,
    matmul,
    params,
    tensors,
    tilings,
    values,
)
from npusim.pyasc.answering import AnsweringModule
from npusim.pyasc.session import session
from npusim.pyasc.torch_device import npu_for_torch


def _chip_sizes() -> dict[str, str]:
    return {
        "TOTAL_L1_SIZE": "l1_bytes",
        "TOTAL_L0C_SIZE": "l0c_bytes",
        "DEFAULT_C0_SIZE": "block_bytes",
        "ONE_BLK_SIZE": "block_bytes",
    }


def _property(name: str) -> values.Int:
    return values.Int(getattr(session().device.profile.buffers, name))


def _public(module: ModuleType) -> dict[str, Any]:
    """What a module of ours defines."""
    return {
        name: each
        for name, each in vars(module).items()
        if not name.startswith("_")
        and (
            getattr(each, "__module__", "") == module.__name__
            or (module is enums and isinstance(each, type))
        )
    }


def _asc() -> dict[str, Any]:
    """The names of ``asc`` itself."""
    found: dict[str, Any] = {}
    for module in (enums, params, values, tensors, framework, basic, interpolation):
        found |= _public(module)
    for name in ("pipes_of", "pipe_of", "position_of", "fields_of", "Backend", "Platform"):
        found.pop(name, None)
    types = {name: each for name, each in vars(values.KnownTypes).items() if name[0] != "_"}
    found |= types
    found |= _chip_sizes()
    found["property"] = _property
    found["jit"] = jit.jit
    found["range"] = found["static_range"] = builtins.range
    found["ceildiv"] = lambda a, b: values.Int(a).ceildiv(b)
    found["static_assert"] = _static_assert
    found["number"] = lambda value, dtype: value
    return found


def _static_assert(condition: object, message: str = "") -> None:
    assert condition, message


def _runtime() -> dict[str, Any]:
    """The names of ``asc.lib.runtime``."""
    nothing = dict.fromkeys(("set_device", "reset_device", "use_model", "use_npu", "synchronize",
                             "acl_init", "acl_finalize", "set_soc_version"), _done)  # fmt: skip
    return nothing | {
        "current_stream": lambda: None,
        "create_stream": lambda *options: None,
        "destroy_stream": _done,
        "current_platform": _platform,
        "get_soc_version": lambda: SimpleNamespace(value=_platform()),
        "is_available": lambda: True,
        "is_model": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
    }


def _done(*arguments: object, **named: object) -> None:
    """Nothing is left to be done."""


def _platform() -> str:
    return session().device.profile.name


def _config() -> dict[str, Any]:
    """The names of ``asc.runtime.config``; the chip is that of ``npusim exec``."""
    return {
        "Backend": enums.Backend,
        "Platform": enums.Platform,
        "KernelType": enums.KernelType,
        "set_platform": _done,
    }


def _host() -> dict[str, Any]:
    return {
        "TPosition": enums.TPosition,
        "CubeFormat": enums.CubeFormat,
        "DataType": tilings.DTypes,
        "MatrixTraverse": enums.MatrixTraverse,
        "ScheduleType": enums.ScheduleType,
        "DequantType": enums.DequantType,
        "MatrixMadType": enums.MatrixMadType,
        "MultiCoreMatmulTiling": tilings.MultiCoreMatmulTiling,
        "MatmulApiTiling": tilings.MatmulApiTiling,
        "get_ascendc_platform": tilings.get_ascendc_platform,
    }


def _adv() -> dict[str, Any]:
    return {
        **_public(advanced),
        "Matmul": matmul.Matmul,
        "register_matmul": matmul.register_matmul,
        "TCubeTiling": matmul.TCubeTiling,
        "MatmulType": params.MatmulType,
        "MatmulConfig": params.MatmulConfig,
        "QuantConfig": params.QuantConfig,
    }


def _tree() -> dict[str, dict[str, Any]]:
    dtype = {"KnownTypes": values.KnownTypes, "DataType": values.DataType}
    struct = {each.__name__: each for each in (values.Field, values.Struct, values.StructField)}
    return {
        "asc": _asc(),
        "asc.adv": _adv(),
        "asc.lib": {},
        "asc.lib.runtime": _runtime(),
        "asc.lib.host": _host(),
        "asc.runtime": {},
        "asc.runtime.config": _config(),
        "asc.language": {},
        "asc.language.core": {},
        "asc.language.core.dtype": dtype,
        "asc.language.core.struct": struct,
    }


@contextmanager
def provided() -> Iterator[None]:
    """Programs find the modules while this is open."""
    made: dict[str, ModuleType] = {}
    for name, names in _tree().items():
        module = made[name] = AnsweringModule(name, names)
        parent, _, last = name.rpartition(".")
        if parent:
            vars(made[parent])[last] = module
    before: dict[str, ModuleType | None] = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        with npu_for_torch():
            yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = earlier
