"""A model to ask about: read once, timed on any device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Self

from npusim.graph.aten.reader import Program
from npusim.graph.target import USUALLY_FAST
from npusim.hardware.profile import Profile
from npusim.model.cache_state import ORDER
from npusim.model.curve import Curve
from npusim.model.graph_model import Compilation, read_program
from npusim.model.reading import ModelFile, read_model
from npusim.model.retiming import retime
from npusim.model.streams import in_flight
from npusim.runtime.device import Device
from npusim.values.takes import CALL, FLAG, REAL, TEXT, WHOLE, each, maybe, of, path_or, takes

if TYPE_CHECKING:
    from npusim.graph.custom import Custom
    from npusim.model.results import StepResult


_DEVICE = of(Device, Profile, str)


class Model:
    """A network, a list of calls or a profiler's table, as `npusim model` reads them.

    ``npusim.Model.read("resnet50.onnx").estimate("310p3", batch=8)``
    """

    def __init__(self, file: ModelFile) -> None:
        self._file = file

    @classmethod
    @takes(
        model=path_or(Program), shapes=maybe(of(Mapping)), precision=maybe(TEXT),
        fuse=FLAG, without=each(TEXT), mode=maybe(TEXT), custom=maybe(of(Mapping)), step=TEXT,
        device_id=TEXT, aipp=FLAG, fast=each(TEXT),
    )  # fmt: skip
    def read(
        cls,
        model: str | PathLike[str] | Program,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        precision: str | None = None,
        fuse: bool = True,
        without: Collection[str] = (),
        mode: str | None = None,
        custom: Mapping[str, Custom] | None = None,
        aipp: bool = False,
        fast: Collection[str] = USUALLY_FAST,
        step: str = "",
        device_id: str = "",
    ) -> Self:
        """The model in a file, or a program of `npusim.graph.from_torch`.

        `shapes` are those of a network's inputs, `precision` is ATC's precision mode (force_fp16 or
        origin), `without` names passes of the graph compiler that shouldn't run, `fuse` is False
        for none that fuses. `mode` is om, eager or graph, `custom` says what operators of custom
        domains cost (`npusim.graph.custom.CustomCost`, or a function that returns one). With
        `aipp` images come in bytes; `fast` names operators in their faster implementation. `step`
        and `device_id` pick the Step Id and the device of a profile. Raises FileError for what
        isn't a model, UnknownNameError for modes and passes, UsageError for what only networks
        take.
        """
        sizes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        how = Compilation(
            sizes, precision or "", fuse, tuple(without), mode or "", custom or {}, aipp,
            tuple(fast),
        )  # fmt: skip
        if isinstance(model, Program):
            return cls(read_program(model, how))
        said = None if how == Compilation() else how
        return cls(read_model(model, step=step, device_id=device_id, how=said))

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self._file.name

    @property
    def batch(self) -> int | None:
        """The batch of the file, None where it has no batch axis."""
        return self._file.batch

    @takes(
        device=_DEVICE, batch=maybe(WHOLE), l2=TEXT, host_dispatch_us=maybe(REAL),
        measured_on=maybe(of(Profile, str)), streams=WHOLE, progress=maybe(CALL),
    )  # fmt: skip
    def estimate(
        self,
        device: Device | Profile | str,
        *,
        batch: int | None = None,
        l2: str = ORDER,
        host_dispatch_us: float | None = None,
        measured_on: Profile | str | None = None,
        streams: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> StepResult:
        """One step on a device, in microseconds: latency, items a second, memory, operators.

        `streams` are steps in flight at once, `l2` is what operators find in L2 (``order`` follows
        the step), `host_dispatch_us` what the host needs to launch one operator, `measured_on` the
        chip that a profile comes from; `progress` hears how many of how many operators are timed.
        Raises ArgumentError for a batch that the model hasn't got, FileError for a node that can't
        be compiled.
        """
        npu = device if isinstance(device, Device) else Device(device)
        result = retime(
            self._file.at(batch, npu.profile),
            npu.profile,
            l2=l2,
            measured_on=measured_on,
            host_dispatch_us=host_dispatch_us,
            progress=progress,
            memo=npu.memo,
        )
        return in_flight(result, npu.profile, streams)

    @takes(device=_DEVICE, batches=each(WHOLE), within_us=maybe(REAL), streams=WHOLE)
    def curve(
        self,
        device: Device | Profile | str,
        batches: Sequence[int],
        *,
        within_us: float | None = None,
        streams: int = 1,
    ) -> Curve:
        """The steps at several batches, and the best of them within a latency limit.

        Raises as `estimate` does.
        """
        npu = device if isinstance(device, Device) else Device(device)
        steps = [self.estimate(npu, batch=batch, streams=streams) for batch in batches]
        return Curve(tuple(steps), within_us)

    def __repr__(self) -> str:
        return f"<Model {self.name}{'' if self.batch is None else f', batch {self.batch}'}>"
