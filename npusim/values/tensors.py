"""Descriptions of tensors (shape, strides, dtype, format) without their data."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from npusim.values.dtypes import DType, dtype
from npusim.values.errors import ArgumentError, NpusimError, brief, expect
from npusim.values.formats import FRACTAL, Format, format_of
from npusim.values.language import say
from npusim.values.takes import takes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np


MOST_ELEMENTS: Final = 2**63 - 1
"""Of a tensor: what an int64 counts."""

MOST_AXES: Final = 1024
"""That a description takes; operators take 8."""

_MATRIX = 2  # axes
_BLOCK_AXES = 4  # of a matrix in blocks
_BLOCK_BITS = 32 * 8  # of a row of a block
_LANES = (8, 16, 32, 64)  # elements in a row of a block


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of `shape`, in elements; a dimension of size 0 counts as 1."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        if size > 1:
            step *= size
    return tuple(strides[::-1])


def broadcastable(shape: Sequence[int], to: Sequence[int]) -> bool:
    """True when a tensor of `shape` broadcasts to exactly the shape `to`."""
    if len(shape) > len(to):
        return False
    tail = to[len(to) - len(shape) :]
    return all(size in (1, wanted) for size, wanted in zip(shape, tail, strict=True))


@dataclass(frozen=True, init=False)
class TensorSpec:
    """Shape, dtype, storage format, strides and offset of a tensor; no data.

    `strides` and `offset` count elements; strides left out mean contiguous. A format left out
    (``UNDEFINED``) means whatever the operator wants. Any spelling of dtype and format is accepted
    and normalised. Raises `ArgumentError` for negative or ill-matched numbers.
    """

    shape: tuple[int, ...]
    dtype: DType
    format: Format
    strides: tuple[int, ...]
    offset: int

    @takes()
    def __init__(
        self,
        shape: Iterable[int],
        dtype: object,
        format: object = Format.UNDEFINED,  # noqa: A002 - the word of the operator pages
        strides: Iterable[int] | None = None,
        offset: int = 0,
    ) -> None:
        sizes = _integers("shape", shape)
        steps = contiguous_strides(sizes) if strides is None else _integers("strides", strides)
        if len(steps) != len(sizes):
            problem = say("{count} strides for {dimensions} dimensions").format(
                count=len(steps), dimensions=len(sizes)
            )
            raise ArgumentError(problem, say("Give one stride for each dimension."))
        (first,) = _integers("offset", (offset,))
        set_field = object.__setattr__
        set_field(self, "shape", sizes)
        set_field(self, "dtype", _dtype_of(dtype))
        set_field(self, "format", format_of(format))
        set_field(self, "strides", steps)
        set_field(self, "offset", first)

    @takes()
    def recast(self, wanted: DType) -> TensorSpec:
        """The same tensor in another dtype."""
        return TensorSpec(self.shape, wanted, self.format, self.strides, self.offset)

    @classmethod
    @takes()
    def of(
        cls,
        array: np.ndarray[Any, Any],
        *,
        dtype: object = None,
        format: object = Format.UNDEFINED,  # noqa: A002 - the word of the operator pages
    ) -> TensorSpec:
        """The description of a NumPy array; a strided view becomes a non-contiguous tensor.

        `dtype` says what raw void data (``V2``) holds; any other array must already have it.
        Raises `ArgumentError` for negative strides and for strides that cut through elements.
        """
        import numpy as np  # whoever has an array has it

        expect(array, (np.ndarray, np.generic), say("an array"))
        kind = _array_dtype(array, dtype)
        if array.size == 0:
            return cls(array.shape, kind, format)
        width = array.itemsize
        for step in array.strides:
            if step < 0:
                raise ArgumentError(
                    say("a tensor can't have a negative stride (an array read backwards)"),
                    say("Copy it first: np.ascontiguousarray(array)."),
                )
            if step % width:
                raise ArgumentError(
                    say(
                        "a stride of {step} bytes is not a multiple of the {width}-byte element"
                    ).format(step=step, width=width),
                    say("Copy it first: np.ascontiguousarray(array)."),
                )
        return cls(array.shape, kind, format, tuple(step // width for step in array.strides))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, packed; what a contiguous copy takes."""
        return self.dtype.nbytes(self.numel)

    @property
    def is_empty(self) -> bool:
        """True when some dimension is 0."""
        return 0 in self.shape

    @property
    def is_contiguous(self) -> bool:
        """True when the elements lie row-major without gaps (size-1 dimensions don't count)."""
        if self.is_empty:
            return True
        wanted = contiguous_strides(self.shape)
        return self.strides == wanted or all(
            size == 1 or step == want
            for size, step, want in zip(self.shape, self.strides, wanted, strict=True)
        )

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape in memory, which is another one for matrices in FRACTAL_NZ: that of the blocks.

        Their shape may be that of the blocks already. Blocks are 16 rows of 32 bytes; matrices that
        their strides say to be turned lie there as they were before that. Source: hicann/ops-nn
        matmul/mat_mul_v3 (aclnn_matmul, weights in NZ).
        """
        if self.format is not Format.FRACTAL_NZ or self.rank < _MATRIX or self.is_in_blocks:
            return self.shape
        *others, rows, columns = self.shape
        if self.is_turned:
            rows, columns = columns, rows
        lanes = _BLOCK_BITS // self.dtype.bits
        return (*others, -(-columns // lanes), -(-rows // FRACTAL), FRACTAL, lanes)

    @property
    def is_in_blocks(self) -> bool:
        """True for a tensor in FRACTAL_NZ whose shape is that of its blocks."""
        blocks = self.rank >= _BLOCK_AXES and self.format is Format.FRACTAL_NZ
        return blocks and self.shape[-2] == FRACTAL and self.shape[-1] in _LANES

    @property
    def is_turned(self) -> bool:
        """True for matrices whose columns follow each other in memory, as strides say."""
        if self.rank < _MATRIX:
            return False
        (rows, columns), (down, right) = self.shape[-2:], self.strides[-2:]
        return down == 1 and right == rows and min(rows, columns) > 1

    @cached_property
    def storage_bytes(self) -> int:
        """Bytes from the start of the storage to the end of the last element."""
        if self.is_empty:
            return 0
        if self.stored != self.shape:
            return self.dtype.nbytes(self.offset + math.prod(self.stored))
        pairs = zip(self.shape, self.strides, strict=True)
        last = self.offset + sum((size - 1) * step for size, step in pairs)
        return self.dtype.nbytes(last + 1)

    def addressable(self) -> TensorSpec:
        """This tensor; ArgumentError where it has more elements than 64 bits count."""
        if self.numel > MOST_ELEMENTS or max(self.shape, default=0) > MOST_ELEMENTS:
            raise ArgumentError(
                say("{value} has more than {most_elements:,} elements (2^63 - 1)").format(
                    value=self, most_elements=MOST_ELEMENTS
                )
            )
        return self

    def contiguous(self) -> TensorSpec:
        """The same tensor after a contiguous copy."""
        return TensorSpec(self.shape, self.dtype, self.format)

    def __str__(self) -> str:
        text = f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        if self.format not in (Format.ND, Format.UNDEFINED):
            text += f":{self.format.name}"
        if not self.is_contiguous:
            text += f" strides {list(self.strides)}"
        return f"{text} offset {self.offset}" if self.offset else text


_MOST_DIGITS = 40  # of a size in words; Python reads no number of thousands of digits
_TENSOR_TEXT = re.compile(
    r"\s*(?P<dtype>[\w.:]+?)\s*\[(?P<shape>[\d\s,]*)\]\s*(?::\s*(?P<format>\w+))?\s*"
)


def parse_tensor(text: str) -> TensorSpec:
    """A contiguous tensor from text: ``bf16[2,64,4096]``, ``float32[4]:NCHW``, ``fp16[]`` (0-D)."""
    found = _TENSOR_TEXT.fullmatch(text)
    sizes = [part.strip() for part in found["shape"].split(",")] if found else [""]
    if sizes[-1] == "":
        sizes.pop()
    if found is None or not all(part.isdecimal() for part in sizes):
        raise ArgumentError(
            say("can't read {text!r} as a tensor").format(text=text),
            say("Write DTYPE[SIZE,SIZE,...] or DTYPE[...]:FORMAT, e.g. bf16[2,64,4096]."),
        )
    if any(len(part) > _MOST_DIGITS for part in sizes):
        raise ArgumentError(
            say("a size of {sizes} digits is no size").format(sizes=max(map(len, sizes)))
        )
    shape = [int(part) for part in sizes]
    return TensorSpec(shape, found["dtype"], found["format"] or "UNDEFINED").addressable()


# `dtype` is a parameter name above, as on the operator pages; there the function goes by this name.
_dtype_of = dtype


def _integers(what: str, values: Iterable[int]) -> tuple[int, ...]:
    try:
        numbers = tuple(map(operator.index, islice(values, MOST_AXES + 1)))
    except TypeError:
        raise ArgumentError(
            say("{what} must be whole numbers, got {values}").format(
                what=what, values=brief(values)
            )
        ) from None
    if len(numbers) > MOST_AXES:
        raise ArgumentError(
            say("{what} has more than {most_axes} entries").format(what=what, most_axes=MOST_AXES)
        )
    if numbers and min(numbers) < 0:
        raise ArgumentError(
            say("{what} can't be negative, got {numbers}").format(what=what, numbers=list(numbers))
        )
    return numbers


def _array_dtype(array: np.ndarray[Any, Any], told: object) -> DType:
    if told is None:
        return _dtype_of(array.dtype)
    kind = _dtype_of(told)
    if array.dtype.name.startswith("void"):
        if array.itemsize != kind.itemsize:
            raise ArgumentError(
                say("{itemsize}-byte raw elements can't hold {name}").format(
                    itemsize=array.itemsize, name=kind.name
                )
            )
        return kind
    try:
        actual = _dtype_of(array.dtype)
    except NpusimError as error:
        problem = say("the array is not {name}: {message}").format(
            name=kind.name, message=error.message
        )
        raise ArgumentError(problem, error.remedy) from None
    if actual is not kind:
        problem = say("the array holds {name}, not {expected}").format(
            name=actual.name, expected=kind.name
        )
        raise ArgumentError(problem, say("Convert it with astype."))
    return kind
