"""npusim simulates Ascend NPUs.

Will an operator run, how long does it take, how many cards are needed.
"""

import os

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from npusim.ascendc.decorated import kernel
    from npusim.cluster.collectives import collective
    from npusim.hardware.naming import load_profile
    from npusim.hardware.profile import Profile
    from npusim.model.calibrating import calibrate
    from npusim.model.judging import judge
    from npusim.model.model import Model
    from npusim.reporting.asking import report, trace
    from npusim.runtime.device import Device
    from npusim.runtime.ranking import rank
    from npusim.runtime.results import Result
    from npusim.runtime.timeline import Slice, TaskResult, Timeline
    from npusim.serving.asking import plan, recommend
    from npusim.sweeping.asking import sweep
    from npusim.validation.asking import validate
    from npusim.values.errors import AclnnError, DeviceFault, NotModelledError, NpusimError
    from npusim.values.status import Status
    from npusim.values.tensors import TensorSpec
    from npusim.values.version import __version__

# Where the public names live. They are imported when first used: `import npusim` alone costs next
# to nothing, so that the command line is soon ready for Ctrl-C.
_HOMES = {
    "AclnnError": "npusim.values.errors",
    "Device": "npusim.runtime.device",
    "DeviceFault": "npusim.values.errors",
    "Model": "npusim.model.model",
    "NotModelledError": "npusim.values.errors",
    "NpusimError": "npusim.values.errors",
    "Profile": "npusim.hardware.profile",
    "Result": "npusim.runtime.results",
    "Slice": "npusim.runtime.timeline",
    "Status": "npusim.values.status",
    "TaskResult": "npusim.runtime.timeline",
    "TensorSpec": "npusim.values.tensors",
    "Timeline": "npusim.runtime.timeline",
    "__version__": "npusim.values.version",
    "calibrate": "npusim.model.calibrating",
    "collective": "npusim.cluster.collectives",
    "judge": "npusim.model.judging",
    "kernel": "npusim.ascendc.decorated",
    "load_profile": "npusim.hardware.naming",
    "plan": "npusim.serving.asking",
    "rank": "npusim.runtime.ranking",
    "recommend": "npusim.serving.asking",
    "report": "npusim.reporting.asking",
    "sweep": "npusim.sweeping.asking",
    "trace": "npusim.reporting.asking",
    "validate": "npusim.validation.asking",
}

# Public packages, which `import npusim` alone gives too: to write, and to register.
_PACKAGES = ("ascendc", "hardware", "operators")

__all__ = [
    "AclnnError",
    "Device",
    "DeviceFault",
    "Model",
    "NotModelledError",
    "NpusimError",
    "Profile",
    "Result",
    "Slice",
    "Status",
    "TaskResult",
    "TensorSpec",
    "Timeline",
    "__version__",
    "calibrate",
    "collective",
    "judge",
    "kernel",
    "load_profile",
    "plan",
    "rank",
    "recommend",
    "report",
    "sweep",
    "trace",
    "validate",
]

# In a clone, ops/ and hw_profiles/ stand beside this folder and not in it. Python started there
# finds this folder first, installed or not, so it has to look for sub-packages beside it too.
_FOLDER, _ABOVE = __path__[0], os.path.dirname(__path__[0])  # noqa: PTH120 - pathlib takes its time
if not os.path.exists(f"{_FOLDER}/ops") and os.path.isfile(f"{_ABOVE}/ops/__init__.py"):  # noqa: PTH110, PTH113
    __path__.append(_ABOVE)


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"npusim.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'npusim' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
