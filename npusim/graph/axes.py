"""The axes of a model's inputs, bound to sizes: a batch, or shapes that the user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from npusim.graph.onnx_file import value_sizes
from npusim.values.errors import ArgumentError, FileError
from npusim.values.language import say
from npusim.values.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from npusim.graph.onnx_file import OnnxFile


_MOST: Final = 2**31 - 1
"""Of a batch; what an index of 32 bits counts."""


def bind(file: OnnxFile, batch: int | None, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
    """Give every axis of every input of a file a size; returns the batch, None without one.

    Raises as `sizes_of` does.
    """
    inputs = {each.name: _axes(file.path, each) for each in file.inputs()}
    sizes, found = sizes_of(file.path, inputs, batch, shapes)
    for value in file.inputs():
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes[value.name], strict=True):
            dim.Clear()
            dim.dim_value = size
    return found


def must_fit(file: OnnxFile, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse shapes of values within the model that contradict what follows from its inputs."""
    for value in (*file.graph.value_info, *file.graph.output):
        sizes, shape = value_sizes(value), shapes.get(value.name)
        if sizes is None or shape is None:
            continue
        is_open = None in sizes and len(sizes) == len(shape) and min(shape) > 0
        if not is_open or any(b not in (a, None) for a, b in zip(shape, sizes, strict=True)):
            raise ArgumentError(
                say("{name} is [{sizes}], not [{shape}]").format(
                    name=value.name, sizes=spelled(sizes), shape=",".join(map(str, shape))
                ),
                say("Only sizes that depend on data can be given."),
            )


def spelled(sizes: list[int | None] | None) -> str:
    """Sizes with commas, N for those that are open."""
    if sizes is None:
        return "N,..."
    return ",".join("N" if size is None else str(size) for size in sizes)


def sizes_of(
    path: Path,
    inputs: Mapping[str, list[int | str]],
    batch: int | None,
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[dict[str, tuple[int, ...]], int | None]:
    """The shape of every input, and the batch; None where no axis is one.

    An axis that is a name in the file gets the size of that name everywhere. The batch is the first
    axis of the inputs, where the file leaves it open: 1 unless `batch` says otherwise.

    Raises ArgumentError for shapes and batches that don't fit, FileError for axes that stay open.
    """
    if batch is not None and not 1 <= batch <= _MOST:
        raise ArgumentError(
            say("the batch is {batch}; it must be 1 to {most:,}").format(batch=batch, most=_MOST)
        )
    sizes = _from_shapes(inputs, shapes)
    firsts = [axes[0] for axes in inputs.values() if axes]
    open_firsts = {axis for axis in firsts if isinstance(axis, str) and axis not in sizes}
    if batch is not None and not open_firsts:
        _must_be(path, batch, firsts, sizes)
    sizes |= dict.fromkeys(open_firsts, batch or 1)
    bound = {name: _bound(path, name, axes, sizes) for name, axes in inputs.items()}
    found = {sizes[axis] if isinstance(axis, str) else axis for axis in firsts}
    return bound, batch or (found.pop() if len(found) == 1 else None)


def _axes(path: Path, value: Any) -> list[int | str]:
    """Sizes and names of the axes; an axis without either is named after its place."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        raise FileError(
            path, say("its input {name} is no tensor with a rank").format(name=value.name)
        )
    found: list[int | str] = []
    for place, dim in enumerate(value.type.tensor_type.shape.dim):
        fixed = dim.HasField("dim_value") and dim.dim_value > 0
        found.append(dim.dim_value if fixed else dim.dim_param or f"{value.name}[{place}]")
    return found


def _from_shapes(
    inputs: Mapping[str, list[int | str]], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """The sizes of named axes, as the user's shapes say."""
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            hint = did_you_mean(name, list(inputs)) or f"Its inputs: {', '.join(inputs)}."
            raise ArgumentError(say("the model has no input {name}").format(name=name), hint)
        axes = inputs[name]
        fits = len(axes) == len(shape) and all(
            isinstance(axis, str) or axis == size for axis, size in zip(axes, shape, strict=True)
        )
        if not fits or min(shape, default=1) < 1:
            given = ",".join(map(str, shape))
            raise ArgumentError(
                say("the input {name} is [{axes}], not [{given}]").format(
                    name=name, axes=",".join(map(str, axes)), given=given
                ),
                say("Only axes that the file names or leaves open can be given a size."),
            )
        for axis, size in zip(axes, shape, strict=True):
            if isinstance(axis, str) and sizes.setdefault(axis, size) != size:
                raise ArgumentError(
                    say("the axis {axis} is {sizes} and {size}").format(
                        axis=axis, sizes=sizes[axis], size=size
                    )
                )
    return sizes


def _must_be(path: Path, batch: int, firsts: list[int | str], sizes: Mapping[str, int]) -> None:
    fixed = [sizes[axis] if isinstance(axis, str) else axis for axis in firsts]
    if batch not in fixed:
        held = fixed[0] if fixed else say("no batch at all")
        raise ArgumentError(
            say("{name} has its batch fixed at {held}, it can't be {batch}").format(
                name=path.name, held=held, batch=batch
            ),
            say("Export the model with a dynamic first axis."),
        )


def _bound(
    path: Path, name: str, axes: list[int | str], sizes: Mapping[str, int]
) -> tuple[int, ...]:
    open_axes = [axis for axis in axes if isinstance(axis, str) and axis not in sizes]
    if open_axes:
        like = ",".join("?" if axis in open_axes else str(sizes.get(str(axis), axis))
                        for axis in axes)  # fmt: skip
        raise FileError(
            path,
            say("leaves {count} axes of its input {name} open: {open_axes}").format(
                count=len(open_axes), name=name, open_axes=", ".join(open_axes)
            ),
            say("Say what they are: --shape {name}={like} with numbers.").format(
                name=name, like=like
            ),
        )
    return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in axes)
