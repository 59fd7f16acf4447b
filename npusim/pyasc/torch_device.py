"""A device named ``npu`` for programs that have torch: its tensors live on the CPU.

torch is the program's own. As soon as it has imported it, ``device="npu"`` means the host's memory,
which is where kernels find their arguments, and ``torch.npu`` and ``torch_npu`` answer what
programs ask a card: streams and events (whose times are the simulated ones), counts, names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, Self

from npusim.pyasc.answering import AnsweringModule
from npusim.pyasc.import_hooks import when_imported
from npusim.pyasc.session import session

NAME = "npu"
_STAND_INS = ("torch_npu", "torch_npu.npu", "torch.npu")
_NPU = re.compile(rf"{NAME}(:\d+)?")


@contextmanager
def npu_for_torch() -> Iterator[None]:
    """While this is open, a program that imports torch finds the device."""
    with ExitStack() as opened:
        finder = _Finder(opened)
        before = {name: sys.modules.get(name) for name in _STAND_INS}
        sys.meta_path.insert(0, finder)
        try:
            with when_imported("torch", finder.attach):
                yield
        finally:
            sys.meta_path.remove(finder)
            for name, earlier in before.items():
                sys.modules.pop(name, None)
                if earlier is not None:
                    sys.modules[name] = earlier


class _Finder(MetaPathFinder):
    """Finds the stand-in for torch_npu."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torch_npu":  # whoever imports it may not have imported torch yet
            import torch  # type: ignore[import-not-found, unused-ignore]  # noqa: F401

            made = sys.modules.get(name)
            return None if made is None else ModuleSpec(name, _Made(made))
        return None

    def attach(self, torch: Any) -> None:
        """The device, its modules, and the mode that sends its tensors to the CPU."""
        npu = _npu_module(torch)
        if torch.utils.backend_registration._privateuse1_backend_name != NAME:
            torch.utils.rename_privateuse1_backend(NAME)
            torch._register_device_module(NAME, npu)
            torch.Tensor.npu = torch.nn.Module.npu = _there
        torch.npu = npu
        self._opened.enter_context(_default_device_on_cpu(torch))
        self._opened.enter_context(_generators_on_cpu(torch))
        around = AnsweringModule("torch_npu", {"npu": npu})
        sys.modules.update(dict(zip(_STAND_INS, (around, npu, npu), strict=True)))
        self._opened.enter_context(_on_cpu(torch))


@contextmanager
def _default_device_on_cpu(torch: Any) -> Iterator[None]:
    """Inside, tensors of a program whose default device is ours are the CPU's."""
    original = torch.set_default_device

    def set_default_device(device: Any) -> None:
        original(_moved(device, torch))

    torch.set_default_device = set_default_device
    try:
        yield
    finally:
        torch.set_default_device = original


@contextmanager
def _generators_on_cpu(torch: Any) -> Iterator[None]:
    """Inside, random generators of ours are the CPU's."""
    original = torch.Generator

    class Generator(original):  # type: ignore[misc, valid-type, unused-ignore]
        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, device=_moved(device, torch))

    torch.Generator = Generator
    try:
        yield
    finally:
        torch.Generator = original


def _moved(value: Any, torch: Any) -> Any:
    """The CPU where a value is our device, by name, number or as torch has it; else the value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "cpu"
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == NAME else value
    return "cpu" if isinstance(value, str) and _NPU.fullmatch(value) else value


class _Made(Loader):
    """Gives a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """It has all its names."""


def _there(held: Any, *arguments: object, **named: object) -> Any:
    """What a tensor or a module is on the device: itself."""
    return held


def _on_cpu(torch: Any) -> Any:
    """A mode of torch in which what is asked of the device is asked of the CPU."""
    from torch.overrides import TorchFunctionMode  # type: ignore[import-not-found, unused-ignore]

    class OnCpu(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = dict(kwargs or {})
            named.pop("pin_memory", None)  # all memory is the host's
            if function in (torch.Tensor.pin_memory, torch.Tensor.is_pinned):
                return args[0] if function is torch.Tensor.pin_memory else True
            if "device" in named:
                named["device"] = _moved(named["device"], torch)
            if function is torch.Tensor.to:
                args = tuple(_moved(each, torch) for each in args)
            return function(*args, **named)

    return OnCpu()


class Stream:
    """A stream: kernels run one after the other whatever it is."""

    npu_stream = 0

    def __init__(self, *options: object, **named: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def synchronize(self) -> None:
        """All has been done."""

    def query(self) -> bool:
        """All has been done."""
        return True

    def wait_stream(self, stream: object) -> None:
        """The other one has done all, too."""

    def wait_event(self, event: object) -> None:
        """It has been recorded."""

    def record_event(self, event: Event | None = None) -> Event:
        """An event behind what has been launched."""
        recorded = event or Event()
        recorded.record()
        return recorded


class Event:
    """A moment of the simulated time: the end of all that has been launched when it is recorded."""

    def __init__(self, *options: object, **named: object) -> None:
        self._at_us = 0.0

    def record(self, stream: object = None) -> None:
        """This is the moment."""
        self._at_us = sum(each.result.duration_us for each in session().launched)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds that the kernels took that were launched between both."""
        return (end._at_us - self._at_us) / 1e3

    def synchronize(self) -> None:
        """It has passed."""

    def wait(self, stream: object = None) -> None:
        """It has passed."""

    def query(self) -> bool:
        """It has passed."""
        return True


def _npu_module(torch: Any) -> AnsweringModule:
    """``torch.npu``."""

    def done(*arguments: object, **named: object) -> None:
        """Nothing is left to be done."""

    def stream(*arguments: object) -> Stream:
        return Stream()

    def device_name(device: object = None) -> str:
        return session().device.profile.name

    def properties(device: object = None) -> SimpleNamespace:
        profile = session().device.profile
        return SimpleNamespace(
            name=profile.name,
            total_memory=profile.memory.capacity_bytes,
            L2_cache_size=profile.memory.l2_bytes,
            cube_core_num=profile.cores.cube_cores or profile.cores.most,
            vector_core_num=profile.cores.vector_cores or profile.cores.most,
        )

    names = ("set_device", "synchronize", "empty_cache", "init", "reset_peak_memory_stats",
             "set_compile_mode", "set_stream", "config")  # fmt: skip
    return AnsweringModule(
        "torch.npu",
        dict.fromkeys(names, done)
        | {
            "utils": AnsweringModule("torch.npu.utils", dict.fromkeys(names, done)),
            "is_available": lambda: True,
            "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16, torch.float32],
            "is_initialized": lambda: True,
            "_is_in_bad_fork": lambda: False,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "get_device_name": device_name,
            "get_device_properties": properties,
            "mem_get_info": lambda device=None: (properties().total_memory,) * 2,
            "device": Stream,  # a context, too, within which nothing is different
            "manual_seed": torch.manual_seed,
            "manual_seed_all": done,
            "current_stream": stream,
            "default_stream": stream,
            "stream": stream,
            "Stream": Stream,
            "Event": Event,
        },
    )
