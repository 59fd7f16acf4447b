"""What comes out of a standard operator where its attributes, not its kernel, tell the shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import FLOAT, DType, dtype
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def results_of(
    op_type: str, inputs: Sequence[TensorSpec | None], attributes: Mapping[str, Any]
) -> tuple[TensorSpec, ...]:
    """Descriptions of all results; empty where this table doesn't tell."""
    rule = _RULES.get(op_type) or _RULES.get(op_type.removesuffix("D"))
    given = [spec for spec in inputs if spec is not None]
    if rule is None or (not given and op_type != "Fill"):
        return ()
    return tuple(rule(given, attributes))


def _spec(shape: Sequence[int], kind: DType) -> TensorSpec:
    return TensorSpec(tuple(int(size) for size in shape), kind)


def _numbers(found: object) -> list[int] | None:
    if isinstance(found, int) and not isinstance(found, bool):
        return [found]
    return [int(each) for each in found] if isinstance(found, list | tuple) else None


def _reduced(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Without the axes, or with them as one element; all axes where none are named."""
    x = given[0]
    named = _numbers(attributes.get("axes", attributes.get("axis")))
    axes = {axis % max(1, x.rank) for axis in named} if named else set(range(x.rank))
    keep = bool(attributes.get("keep_dims"))
    shape = [
        1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes
    ]
    return [_spec(shape, x.dtype)]


def _reduced_and_kept(
    given: Sequence[TensorSpec], attributes: Mapping[str, Any]
) -> list[TensorSpec]:
    return [*_reduced(given, attributes), _spec(given[0].shape, given[0].dtype)]


def _number(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    return [_spec((), given[0].dtype)]


def _joined(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    axis = int(attributes.get("concat_dim", 0)) % max(1, given[0].rank)
    shape = list(given[0].shape)
    shape[axis] = sum(spec.shape[axis] for spec in given)
    return [_spec(shape, given[0].dtype)]


def _parts(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    x = given[0]
    axis = int(attributes.get("split_dim", 0)) % max(1, x.rank)
    count = int(attributes.get("num_split", 1))
    sizes = _numbers(attributes.get("size_splits")) or [x.shape[axis] // max(1, count)] * count
    return [_spec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes]


def _unpacked(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    x = given[0]
    axis = int(attributes.get("axis", 0)) % max(1, x.rank)
    return [_spec((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)] * x.shape[axis]


def _as_said(name: str) -> Callable[..., list[TensorSpec]]:
    """An attribute is the shape; -1 keeps an axis."""

    def rule(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
        shape = _numbers(attributes.get(name))
        if shape is None:
            return []
        before = (1,) * (len(shape) - given[0].rank) + given[0].shape
        kept = [old if new == -1 else new for new, old in zip(shape, before, strict=False)]
        return [_spec(kept, given[0].dtype)]

    return rule


def _filled(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    shape = _numbers(attributes.get("dims"))
    return [] if shape is None else [_spec(shape, given[0].dtype if given else FLOAT)]


def _tiled(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    times = _numbers(attributes.get("multiples"))
    if times is None:
        return []
    before = (1,) * (len(times) - given[0].rank) + given[0].shape
    return [_spec([a * b for a, b in zip(before, times, strict=False)], given[0].dtype)]


def _cut(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    begin, end = (_numbers(attributes.get(name)) for name in ("begin", "end"))
    if begin is None or end is None:
        return []
    steps = _numbers(attributes.get("strides")) or [1] * len(end)
    shape = [
        len(range(size)[first:last:step])
        for size, first, last, step in zip(given[0].shape, begin, end, steps, strict=False)
    ]
    return [_spec((*shape, *given[0].shape[len(shape) :]), given[0].dtype)]


def _padded(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    around = _numbers(attributes.get("paddings"))
    if around is None or len(around) != 2 * given[0].rank:
        return []
    pairs = zip(given[0].shape, around[::2], around[1::2], strict=True)
    return [_spec([before + size + after for size, before, after in pairs], given[0].dtype)]


def _converted(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    wanted = attributes.get("dst_type")
    return [] if wanted is None else [_spec(given[0].shape, dtype(str(wanted)))]


def _like(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    return [_spec(given[0].shape, given[0].dtype)]


def _sums_of_rows(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    return [_spec(given[0].shape[-1:], FLOAT)] * 2


def _bias(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    return [_spec(given[0].shape[-1:], given[0].dtype)]


_RULES: dict[str, Callable[..., list[TensorSpec]]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), _reduced),
    "SquareSumV1": _reduced,
    "SquareSumV2": _reduced_and_kept,
    "L2Loss": _number,
    "BiasAddGrad": _bias,
    **dict.fromkeys(("Concat", "ConcatV2"), _joined),
    **dict.fromkeys(("Split", "SplitV"), _parts),
    "Unpack": _unpacked,
    **dict.fromkeys(("BroadcastTo", "Expand"), _as_said("shape")),
    "StridedSliceGrad": _as_said("shape"),
    "Slice": _as_said("size"),
    "StridedSlice": _cut,
    "Tile": _tiled,
    **dict.fromkeys(("Pad", "PadV3"), _padded),
    "Fill": _filled,
    "Cast": _converted,
    **dict.fromkeys(
        (
            "DropOutDoMask",
            "DropoutDoMask",
            "NPUClearFloatStatus",
            "NPUGetFloatStatus",
            "OnesLike",
            "ReluGradV2",
            "ZerosLike",
        ),
        _like,
    ),
    "LayerNormBetaGammaBackpropV2": _sums_of_rows,
}
