"""Parameters of pyasc's instructions: plain records with the defaults of its documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class BinaryRepeatParams:
    """Block and repeat strides of a target and two sources, in blocks of 32 bytes."""

    dst_blk_stride: int = 1
    src0_blk_stride: int = 1
    src1_blk_stride: int = 1
    dst_rep_stride: int = 8
    src0_rep_stride: int = 8
    src1_rep_stride: int = 8

    @property
    def strides(self) -> tuple[tuple[int, int], ...]:
        return (
            (self.dst_blk_stride, self.dst_rep_stride),
            (self.src0_blk_stride, self.src0_rep_stride),
            (self.src1_blk_stride, self.src1_rep_stride),
        )


@dataclass
class UnaryRepeatParams:
    """Block and repeat strides of a target and a source, in blocks of 32 bytes."""

    dst_blk_stride: int = 1
    src_blk_stride: int = 1
    dst_rep_stride: int = 8
    src_rep_stride: int = 8

    @property
    def strides(self) -> tuple[tuple[int, int], ...]:
        return (
            (self.dst_blk_stride, self.dst_rep_stride),
            (self.src_blk_stride, self.src_rep_stride),
        )


@dataclass
class CopyRepeatParams:
    """Block and repeat strides of a copy within UB, in blocks of 32 bytes."""

    dst_stride: int = 0
    src_stride: int = 0
    dst_repeat_size: int = 0
    src_repeat_size: int = 0

    @property
    def strides(self) -> tuple[tuple[int, int], ...]:
        return (self.dst_stride, self.dst_repeat_size), (self.src_stride, self.src_repeat_size)


@dataclass
class BrcbRepeatParams:
    """Strides of the blocks that numbers are spread over."""

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


@dataclass
class DataCopyParams:
    """Runs of ``block_len`` blocks of 32 bytes, with gaps of blocks between them."""

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0


@dataclass
class DataCopyExtParams:
    """Runs of ``block_len`` bytes; gaps in bytes in global memory, in blocks in UB."""

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    rsv: int = 0


@dataclass
class DataCopyPadExtParams:
    """What a padded copy puts around each run, in elements."""

    dtype: Any = None
    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: float = 0


@dataclass
class DataCopyPadParams:
    """What a padded copy puts around each run, in elements."""

    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: float = 0


@dataclass
class ShapeInfo:
    """The shape that a tensor is understood to have."""

    shape: Sequence[int] = ()
    original_shape: Sequence[int] | None = None
    data_format: Any = None


@dataclass
class GatherMaskParams:
    """Strides of a collecting copy, in blocks of 32 bytes."""

    src0_block_stride: int = 1
    repeat_times: int = 1
    src0_repeat_stride: int = 0
    src1_repeat_stride: int = 0


@dataclass
class GatherRepeatParams:
    """Strides of the blocks that a gather stores."""

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


@dataclass
class TransDataTo5HDParams:
    """Repeats of a transposition of 16 rows of blocks, and the strides from one to the next."""

    dst_high_half: bool = False
    src_high_half: bool = False
    repeat_times: int = 1
    dst_rep_stride: int = 0
    src_rep_stride: int = 0


@dataclass
class TransposeParamsExt:
    """A transposition of more than two axes."""

    n_size: int = 0
    c_size: int = 0
    h_size: int = 0
    w_size: int = 0
    transpose_type: Any = None


@dataclass
class MatmulType:
    """Where a matrix of a product is, how it lies there, and of what."""

    position: Any
    format: Any
    dtype: Any
    is_trans: bool = False
    layout: Any = None


@dataclass(init=False)
class MatmulConfig:
    """Settings of the high-level product, which schedules here don't depend on."""

    settings: dict[str, Any] = field(default_factory=dict)

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


@dataclass
class QuantConfig:
    """Counts of a quantisation."""

    calc_count: int = 0
    offset_count: int = 0
    scale_count: int = 0
    work_local_size: int = 0
