"""The front half of triton-ascend's compiler: everything up to where CANN's compiler begins."""

from __future__ import annotations

import re
import subprocess
from typing import Any

from npusim.values.errors import KernelError

_DONE = "_npusim_stops_here"
_ERROR = re.compile(r'(?:loc\()?"?([^"\s(]+\.py)"?:(\d+):\d+\)?: error: (.*)')


def without_device_compiler(backend: Any) -> None:
    """Lets the backend's last stage hand over what the stage before has made."""
    if getattr(backend, _DONE, False):
        return
    original = backend.add_stages

    def add_stages(self: Any, stages: dict[str, Any], options: Any) -> None:
        original(self, stages, options)
        if self.target.backend != "npu":
            return
        if "ttadapter" not in stages:
            raise KernelError(
                "", "force_simt_only kernels are for Ascend 950", "Leave compile_mode out."
            )
        lower = stages["ttadapter"]
        stages["ttadapter"] = lambda source, metadata: _lowered(lower, source, metadata)
        stages["npubin"] = _handed_over

    backend.add_stages = add_stages
    setattr(backend, _DONE, True)


def _lowered(lower: Any, source: Any, metadata: Any) -> Any:
    """The linalg text; what the front half itself refuses is told with its line."""
    try:
        return lower(source, metadata)
    except subprocess.CalledProcessError as error:
        text = (error.stderr or b"").decode(errors="replace")
        found = _ERROR.search(text)
        name = re.search(r"tt\.func public @(\w+)", str(source))
        told = found[3] if found else text.strip().splitlines()[0] if text.strip() else "no reason"
        site = f"{found[1]}:{found[2]}" if found else ""
        raise KernelError(
            name[1] if name else "",
            f"triton-ascend's own lowering (triton-adapter-opt) refuses it: {told}",
            "It does so on a machine with CANN, too.",
            site=site,
        ) from None


def _handed_over(text: str, metadata: dict[str, Any]) -> bytes:
    """The last stage: what launches ask of metadata, and the text as it is."""
    name = re.search(r"func\.func @(\w+)", text)
    mode = re.search(r'mix_mode = "(\w+)"', text)
    metadata["kernel_name"] = name[1] if name else "kernel"
    metadata["mix_mode"] = mode[1] if mode else "aiv"
    metadata["name"] = f"{metadata['kernel_name']} {metadata['mix_mode']}"
    metadata["shared"] = 1
    metadata["tensor_kinds"] = []
    metadata["required_ub_bits"] = 0
    return text.encode()
