"""What Triton's runtime asks of a device: names, numbers of cores, launches, times."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from npusim.pyasc.session import session
from npusim.triton import grouping
from npusim.triton.launching import cores_for, launch, program_of, timing_only
from npusim.triton.trials import assumptions, refusals
from npusim.values.errors import KernelError, NpusimError

_BEFORE_VALUES = 6  # of a launcher's arguments behind the grid


class _Utils:
    """What the runtime asks of the driver's helper library."""

    def load_binary(self, _name: str, kernel: bytes, *_where: object) -> tuple[Any, ...]:
        """The kernel's text is its own handle."""
        return kernel, kernel, 0, 0

    def get_device_properties(self, _device: object) -> dict[str, int]:
        """The numbers of cores, by the names that programs ask for."""
        profile = session().device.profile
        return {
            "max_shared_mem": 1,
            "num_aicore": cores_for(profile, products=True),
            "num_vectorcore": cores_for(profile, products=False),
        }

    def get_arch(self) -> str:
        """The name of the chip."""
        return session().device.profile.name

    def get_aicore_num(self) -> int:
        """The number of cube cores."""
        return self.get_device_properties(0)["num_aicore"]

    def get_aivector_core_num(self) -> int:
        """The number of vector cores."""
        return self.get_device_properties(0)["num_vectorcore"]


class _Launcher:
    """One compiled kernel, ready to be launched."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._source, self._metadata, self._text = source, metadata, ""

    def __call__(self, x: int, y: int, z: int, *others: Any) -> None:
        """Launch it on a grid; the values come behind stream, handle, metadata and hooks."""
        function, values = others[1], others[_BEFORE_VALUES:]
        names = [each.name for each in self._source.fn.params if not each.is_constexpr]
        constants = {
            self._source.fn.arg_names[each] if isinstance(each, int) else each
            for each in self._source.constants
        }
        given = {
            name: value for name, value in zip(names, values, strict=True) if name not in constants
        }
        self._text = self._text or bytes(function).decode()
        launch(self._program(), (x, y, z), given)

    def _program(self) -> Any:
        options = {
            name: getattr(self._metadata, name)
            for name in ("multibuffer", "enable_auto_bind_sub_block")
            if hasattr(self._metadata, name)
        }
        options["grouped"] = grouping.is_asked()
        return program_of((self._metadata.hash, options["grouped"]), self._text, options)


class StandInDriver:
    """The driver of a chip that is simulated."""

    def __init__(self) -> None:
        self.utils = _Utils()

    @property
    def launcher_cls(self) -> Callable[[Any, Any], _Launcher]:
        """What makes a launcher of a compiled kernel."""
        return _launcher

    def get_current_target(self) -> Any:
        """The target of the compiler. Raises KernelError for products that Triton has none for."""
        profile = session().device.profile
        if profile.cores.style != "split":
            raise KernelError(
                "",
                f"{profile.name}: triton-ascend has no back end for it",
                "Triton kernels run on Atlas A2 and A3 (Ascend910B1 to B4, 910_93); pick one "
                "with -s, or write the kernel in Ascend C.",
            )
        target = import_module("triton.backends.compiler").GPUTarget
        return target("npu", profile.name, 0)

    def get_current_device(self) -> int:
        """There is one."""
        return 0

    def set_current_device(self, device: object) -> None:
        """There is one."""

    def get_current_stream(self, _device: object = None) -> int:
        """Kernels run one after the other whatever it is."""
        return 0

    def get_device_interface(self) -> Any:
        """torch.npu."""
        return sys.modules["torch"].npu  # type: ignore[attr-defined, unused-ignore]

    def get_empty_cache_for_benchmark(self) -> Any:
        """A tensor as large as L2; nothing has to be thrown out of it here."""
        torch = import_module("torch")
        return torch.empty(1, dtype=torch.int)

    def assemble_tensormap_to_arg(self, _maps: object, args: object) -> object:
        """There are no tensor maps."""
        return args

    def get_benchmarker(self) -> Callable[..., Any]:
        """do_bench: what the kernels of a function take, in milliseconds; one run tells."""

        def do_bench(
            fn: Callable[[], object],
            *_times: object,
            quantiles: Sequence[float] | None = None,
            return_mode: str = "mean",
            **_named: object,
        ) -> Any:
            taken_ms = _taken_us(fn) / 1e3
            if quantiles is not None:
                return taken_ms if len(quantiles) == 1 else [taken_ms] * len(quantiles)
            return [taken_ms] if return_mode == "all" else taken_ms

        return do_bench

    def bench_us(self, fn: Callable[[], object], *_times: object, **_named: object) -> float:
        """do_bench_npu: what a function's kernels take, in microseconds."""
        return _taken_us(fn)


def _launcher(source: Any, metadata: Any) -> _Launcher:
    return _Launcher(source, metadata)


def _taken_us(fn: Callable[[], object]) -> float:
    """Microseconds of all kernels that a function launches; their numbers aren't computed."""
    with timing_only() as launched:
        try:
            fn()
        except NpusimError as error:
            refusals.append(error.message)
            raise
    assumptions.extend(told for each in launched for told in each.assumptions)
    return sum(each.duration_us for each in launched)
