"""A model to ask about: read once, timed on any device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Self

from npusim.model.cache_state import ORDER
from npusim.model.graph_model import Compilation
from npusim.model.reading import ModelFile, read_model
from npusim.model.retiming import retime
from npusim.runtime.device import Device

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.results import StepResult


class Model:
    """A network, a list of calls or a profiler's table, as `npusim model` reads them.

    ``npusim.Model.read("resnet50.onnx").estimate("310p3", batch=8)``
    """

    def __init__(self, file: ModelFile) -> None:
        self._file = file

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        precision: str | None = None,
        fuse: bool = True,
        without: Collection[str] = (),
        step: str = "",
    ) -> Self:
        """The model in a file.

        `shapes` are those of a network's inputs, `precision` is ATC's precision mode (force_fp16 or
        origin), `without` names passes of the graph compiler that shouldn't run, `fuse` is False
        for none that fuses. `step` picks the Step Id of a profile. Raises FileError for what isn't
        a model, UnknownNameError for modes and passes, UsageError for what only networks take.
        """
        how = None
        if shapes or precision is not None or not fuse or without:
            sizes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
            modes = {} if precision is None else {"precision": precision}
            how = Compilation(sizes, fuse=fuse, without=tuple(without), **modes)
        return cls(read_model(path, step=step, how=how))

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self._file.name

    @property
    def batch(self) -> int | None:
        """The batch of the file, None where it has no batch axis."""
        return self._file.batch

    def estimate(
        self,
        device: Device | Profile | str,
        *,
        batch: int | None = None,
        l2: str = ORDER,
        host_dispatch_us: float | None = None,
        measured_on: Profile | str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> StepResult:
        """One step on a device, in microseconds: latency, items a second, memory, operators.

        `l2` is what operators find in L2 (``order`` follows the step), `host_dispatch_us` what the
        host needs to launch one operator, `measured_on` the chip that a profile comes from;
        `progress` hears how many of how many operators are timed. Raises ArgumentError for a batch
        that the model hasn't got, FileError for a node that can't be compiled.
        """
        npu = device if isinstance(device, Device) else Device(device)
        return retime(
            self._file.at(batch, npu.profile),
            npu.profile,
            l2=l2,
            measured_on=measured_on,
            host_dispatch_us=host_dispatch_us,
            progress=progress,
            memo=npu.memo,
        )

    def __repr__(self) -> str:
        return f"<Model {self.name}{'' if self.batch is None else f', batch {self.batch}'}>"
