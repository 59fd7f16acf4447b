"""Reads a model from a file: ONNX, torch.export, a YAML list of calls, or a profiler's table."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from npusim.model.profile_files import PROFILES
from npusim.reading.files import kind_of, opened
from npusim.values.errors import FileError, UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.graph_model import Compilation, NetworkModel, ProgramModel
    from npusim.model.step import Step

NETWORKS: Final = (".onnx", ".pt2")
"""Endings of files that are compiled for a product."""

_HINT = (
    "Give an ONNX file, a .pt2 file of torch.export, a YAML list of calls, an op_summary_*.csv of "
    "msprof, a kernel_details.csv of torch_npu, or the folder of either."
)


class ModelFile(Protocol):
    """A model as a file has it: it can be unfolded into a step.

    `batch` is the one that the file states (None: it has no batch axis, so only its own step can be
    timed).
    """

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def batch(self) -> int | None:
        """The batch of the file, None where it has no batch axis."""
        ...

    def at(self, batch: int | None = None, chip: Profile | None = None) -> Step:
        """The step for a batch; ArgumentError where the model has no batch axis.

        Networks are compiled for a chip, others don't ask which it is.
        """
        ...


@dataclass(frozen=True)
class FixedModel:
    """A model with one step and no batch axis."""

    step: Step

    @property
    def name(self) -> str:
        """The model's name."""
        return self.step.name

    @property
    def batch(self) -> int | None:
        """None: there is no batch axis."""
        return None

    def at(self, batch: int | None = None, chip: Profile | None = None) -> Step:
        """The one step; ArgumentError for any batch."""
        del chip
        from npusim.values.errors import ArgumentError

        if batch is not None:
            raise ArgumentError(
                say(
                    "{name} has no batch axis: a profile holds one step at the batch it ran with"
                ).format(name=self.name),
                say(
                    "Write the model as a YAML list of calls with {B} for the "
                    "batch, or profile it at each batch."
                ),
            )
        return self.step


def read_model(
    path: str | PathLike[str],
    *,
    step: str = "",
    device_id: str = "",
    how: Compilation | None = None,
) -> ModelFile:
    """The model in a file, by its ending, or in a profiler's folder.

    `step` and `device_id` pick the Step Id and the device of a profile, `how` says how a network is
    compiled. Raises FileError for a file that can't be read or isn't a model, UsageError for `how`
    with a file that isn't a network.
    """
    file = Path(path)
    ending = file.suffix.lower()
    if how is None and (kind_of(file) == "folder" or ending in PROFILES):
        from npusim.model.profile_table import read_profile

        return FixedModel(read_profile(file, step, device_id))
    with opened(file, say(_HINT)):
        pass  # what isn't there has no ending worth a word
    if how is not None or ending in NETWORKS:
        return read_compiled(file, how)
    if ending in (".yaml", ".yml"):
        from npusim.model.call_list import read_calls

        return read_calls(file)
    raise FileError(file, f"npusim model doesn't read {ending or 'such'} files", say(_HINT))


def read_compiled(file: Path, how: Compilation | None = None) -> NetworkModel | ProgramModel:
    """The network in a file, to be compiled for a product; raises as `read_model`."""
    ending = file.suffix.lower()
    if ending == ".onnx":
        from npusim.model.graph_model import read_network

        return read_network(file, how)
    if ending == ".pt2":
        from npusim.graph.aten.reader import read_program as load
        from npusim.model.graph_model import read_program

        return read_program(load(file), how)
    raise UsageError(
        say("{file} lists operators; only networks are compiled").format(file=file),
        say("Give an ONNX or .pt2 file, or leave out what is said about shapes, passes and modes."),
    )
