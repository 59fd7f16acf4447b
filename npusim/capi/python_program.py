"""Programs in Python, told as programs in C++ are: calls, times, a timeline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from npusim.capi.running import Run
from npusim.capi.tracing import TimedCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.runtime.device import Device
    from npusim.runtime.listening import Heard, Operand

_STREAM = "default"


def run_python(words: Sequence[str], device: Device, *, with_advice: bool = False) -> Run:
    """Runs ``words`` (a .py file, or -m and a module, and arguments) with pyasc's modules.

    Launches of Triton kernels are tried with other settings, too, where advice is wanted.
    """
    from npusim.pyasc.running import run_program
    from npusim.triton.programs import triton_on_npu

    around = partial(triton_on_npu, with_advice=with_advice)
    code, session = run_program(words, device, around)
    run = Run(" ".join(words[:2] if words[0] == "-m" else words[:1]), code, device.profile.name)
    start_us = 0.0
    for launched in session.launched:
        run.calls.append(_call(launched, start_us))
        run.timed.append(TimedCall(_STREAM, start_us, launched.result, launched.advice))
        start_us += launched.result.duration_us
    return run


def _call(launched: Heard, start_us: float) -> dict[str, Any]:
    result = launched.result
    tensors = [_tensor(each, "in") for each in launched.read]
    tensors += [_tensor(each, "out") for each in launched.written]
    return {
        "op": result.op,
        "block_dim": launched.blocks,
        "stream": _STREAM,
        "start_us": start_us,
        "duration_us": result.duration_us,
        "band_us": list(result.band_us),
        "cycles": result.cycles,
        "bound": result.bound,
        "assumptions": list(result.assumptions),
        "tensors": {f"{each['io']} {each['name']}": each for each in tensors},
    }


def _tensor(memory: Operand, io: str) -> dict[str, Any]:
    return {
        "name": memory.name,
        "shape": list(memory.shape),
        "dtype": str(memory.kind),
        "io": io,
    }
