"""Programs that import Triton: their kernels are compiled as far as without CANN, and played."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any

from npusim.pyasc.answering import AnsweringModule
from npusim.pyasc.import_hooks import when_imported
from npusim.pyasc.session import session
from npusim.reading.kept import cache_folder
from npusim.triton.advising import advising, watch
from npusim.triton.driver import StandInDriver
from npusim.triton.front_half import without_device_compiler
from npusim.triton.later import later_names
from npusim.triton.trials import listen_to
from npusim.values.errors import UnknownNameError

_PLATFORM = ("tbe", "tbe.common", "tbe.common.platform")
_TESTED = ("3.2.0",)
_INFO, _CACHE = "TRITON_DISABLE_LINE_INFO", "TRITON_CACHE_DIR"


@contextmanager
def triton_on_npu(*, with_advice: bool = False) -> Iterator[None]:
    """While this is open, kernels of a program that imports Triton run on the session's chip.

    With advice launches are tried with other settings, too.
    """
    before = {name: os.environ.get(name) for name in (_INFO, _CACHE)}
    folder = cache_folder()
    os.environ[_INFO] = "0"
    if folder is not None:  # what we leave there no device could load
        os.environ[_CACHE] = str(folder / "triton")
    modules = {name: sys.modules.get(name) for name in _PLATFORM}
    sys.modules.update(_platform_modules())
    try:
        with (
            when_imported("triton", _attach),
            later_names(),
            advising() if with_advice else nullcontext(),
        ):
            yield
    finally:
        for name, module in modules.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _platform_modules() -> dict[str, ModuleType]:
    """CANN's module that programs ask for sizes of memories (tbe.common.platform)."""

    def get_soc_spec(key: str) -> str | int:
        profile = session().device.profile
        sizes = {f"{name.upper()}_SIZE": getattr(profile.buffers, f"{name}_bytes")
                 for name in ("ub", "l1", "l0a", "l0b", "l0c")}  # fmt: skip
        cores = profile.cores
        known: dict[str, str | int] = {
            **sizes,
            "SOC_VERSION": profile.name,
            "SHORT_SOC_VERSION": profile.name.rstrip("0123456789"),
            "CORE_NUM": cores.cube_cores or cores.most,
            "cube_core_cnt": cores.cube_cores or cores.most,
            "vector_core_cnt": cores.vector_cores or cores.most,
        }
        if key not in known:
            raise UnknownNameError("size of the platform", key, sorted(known))
        return known[key]

    made: dict[str, ModuleType] = {name: AnsweringModule(name, {}) for name in _PLATFORM}
    vars(made[_PLATFORM[-1]]).update(get_soc_spec=get_soc_spec, set_current_compile_soc_info=_done)
    vars(made["tbe"])["common"] = made["tbe.common"]
    vars(made["tbe.common"])["platform"] = made["tbe.common.platform"]
    return made


def _done(*arguments: object, **named: object) -> None:
    """The chip is the one of the session."""


def _attach(triton: Any) -> None:
    """The stand-in driver, and a compiler that stops where the device's begins."""
    backends = import_module("triton.backends").backends
    if "ascend" not in backends:
        return  # upstream's Triton: it says itself what it lacks
    if triton.__version__ not in _TESTED:
        sys.stderr.write(
            f"note: triton-ascend {triton.__version__} is not among the versions that npusim was "
            f"tried with ({', '.join(_TESTED)})\n"
        )
    without_device_compiler(backends["ascend"].compiler)
    driver = StandInDriver()
    import_module("triton.runtime.driver").driver.set_active(driver)
    listen_to(import_module("triton.runtime.autotuner").Autotuner)
    watch(import_module("triton.runtime.jit").JITFunction)
    testing: Any = import_module("triton.testing")
    testing.do_bench = driver.get_benchmarker()
    testing.do_bench_npu = driver.bench_us
