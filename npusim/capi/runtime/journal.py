"""What a program leaves for `npusim exec`: one line of JSON per simulated call or refusal.

Lines are written as things happen, so that a program that ends early has told all it did.
"""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.runtime.call import Executor
    from npusim.runtime.results import Result
    from npusim.values.errors import DeviceFault
    from npusim.values.status import Status

# What the environment tells a program on the simulator.
# The chip: any of its names, or the path of a profile.
SOC_VARIABLE = "NPUSIM_SOC"
DEFAULT_SOC = "Ascend910B3"

# Set to anything: say at aclFinalize what was never given back; say every refusal as it happens.
LEAKS_VARIABLE = "NPUSIM_LEAKS"
LOG_VARIABLE = "NPUSIM_LOG"

# Set to anything: cubes of kernels in C++ compute no numbers.
PRODUCTS_VARIABLE = "NPUSIM_WITHOUT_PRODUCTS"

# Where its journal goes, and whether with timelines.
FOLDER_VARIABLE = "NPUSIM_JOURNAL"
TRACE_VARIABLE = "NPUSIM_JOURNAL_TRACE"
FILE = "journal.jsonl"


class Journal:
    """Writes to a folder, or nowhere."""

    def __init__(self, folder: Path | None = None, *, traces: bool = False) -> None:
        self._folder = folder
        self._traces = traces
        self._calls = 0

    @classmethod
    def from_environment(cls) -> Journal:
        """The journal that `npusim exec` asks for, if it does."""
        folder = os.environ.get(FOLDER_VARIABLE)
        if not folder:
            return cls()
        return cls(Path(folder), traces=bool(os.environ.get(TRACE_VARIABLE)))

    @property
    def is_kept(self) -> bool:
        """Whether somebody will read it."""
        return self._folder is not None

    def begin(self, soc: str) -> None:
        """Notes the chip."""
        self._write({"kind": "chip", "soc": soc})

    def call(self, executor: Executor, stream: str, start_us: float, result: Result) -> None:
        """Notes a call that has run."""
        if self._folder is None:
            return
        from npusim.operators.contract import TensorArg
        from npusim.reporting.renderers import jsonout

        call = executor.call
        tensors = {
            parameter.name: jsonout.spec(argument.spec) | {"io": parameter.io}
            for parameter in call.contract.parameters
            if isinstance(argument := call.arguments.get(parameter.name), TensorArg)
        }
        self.ran(tensors, stream, start_us, result)

    def ran(
        self, tensors: Mapping[str, object], stream: str, start_us: float, result: Result
    ) -> None:
        """Notes what has run, with a description of each of its tensors."""
        if self._folder is None:
            return
        from npusim.reporting.renderers import jsonout

        entry: dict[str, Any] = {
            "kind": "call",
            "op": result.op,
            "stream": stream,
            "start_us": start_us,
        }
        entry |= {"tensors": dict(tensors)} | jsonout.result(result)
        if self._traces:
            name = f"{os.getpid()}-{self._calls}.pickle"
            bare = replace(result, outputs=None)
            (self._folder / name).write_bytes(pickle.dumps(bare))
            entry["timeline"] = name
        self._calls += 1
        self._write(entry)

    def fault(self, op: str, stream: str, start_us: float, fault: DeviceFault) -> None:
        """Notes a call that stopped the device."""
        entry = {"kind": "fault", "op": op, "stream": stream, "start_us": start_us}
        entry |= {"code": fault.code, "name": fault.name}
        self._write(entry | {"message": fault.message, "remedy": fault.remedy})

    def problem(self, where: str, status: Status) -> None:
        """Notes a function that returned a code."""
        entry = {"kind": "problem", "where": where, "code": status.code, "name": status.name}
        self._write(entry | {"message": status.message, "remedy": status.remedy})

    def _write(self, entry: dict[str, Any]) -> None:
        if self._folder is None:
            return
        from npusim.reporting.renderers import jsonout

        line = json.dumps(jsonout.plain(entry), allow_nan=False)
        with (self._folder / FILE).open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
