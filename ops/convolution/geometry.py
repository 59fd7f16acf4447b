"""What a convolution is of, in the numbers of its storage formats.

A feature map is NC1HWC0: its channels lie in C1 slices of C0 each, 32 bytes of them. A weight is
FRACTAL_Z, (groups * C1 * taps, N1, 16, C0): for every slice of input channels and tap of the window
the blocks of 16 output channels. Where there are at most four input channels, C04 has room for four
in a slice, and the taps follow each other without gaps. Groups are packed until their channels fill
slices, and a packed group's weight is block-diagonal. Sources: public format documents; ops-nn,
conv/common (packing of groups); TBE, conv2d (FRACTAL_Z_C04).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, isqrt, lcm, prod
from typing import TYPE_CHECKING, Protocol

from npusim.ascendc.windows import Padding, Window
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

C04 = 4  # channels of a slice of a first layer
_FEATURE_MAP, _WEIGHT = 5, 4  # axes of NC1HWC0 and of FRACTAL_Z
_PLANE = 2  # axes

Pair = tuple[int, int]


class Shaped(Protocol):
    """A tensor, or what describes one."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Geometry:
    """Images of ``slices`` slices of ``lanes`` channels become ``out_slices`` of ``out_lanes``.

    ``plane`` and ``out_plane`` are rows and columns before and after. ``groups`` are the packed
    ones, products side by side. The weight has ``weight_lanes`` of what is summed side by side.
    """

    images: int
    slices: int
    lanes: int
    plane: Pair
    out_slices: int
    out_lanes: int
    out_plane: Pair
    window: Window
    groups: int = 1
    weight_lanes: int = 16

    @classmethod
    def of(
        cls,
        op_type: str,
        x: Shaped,
        weight: Shaped,
        y: Shaped,
        attributes: Mapping[str, object],
    ) -> Geometry:
        """The geometry that feature maps and a weight in their storage formats show.

        Where ``attributes`` don't tell strides, padding and dilation, the least that the shapes
        allow are taken, and of the padding as much before as behind. Raises KernelError for
        tensors that don't belong together.
        """
        problem = f"{x.shape} and {weight.shape} don't make {y.shape}"
        ranks = len(x.shape), len(weight.shape), len(y.shape)
        if ranks != (_FEATURE_MAP, _WEIGHT, _FEATURE_MAP) or x.shape[0] != y.shape[0]:
            raise KernelError(op_type, f"{problem}: NC1HWC0 and FRACTAL_Z are needed")
        images, slices, *plane, lanes = x.shape
        _, out_slices, *out_plane, out_lanes = y.shape
        count, blocks, high, depth = weight.shape
        groups = ceil(out_slices * out_lanes / max(1, blocks * high))
        taps = _taps(x, weight, attributes)
        window = _window(taps, (plane[0], plane[1]), (out_plane[0], out_plane[1]), attributes)
        if window is None or slices % groups or out_slices * out_lanes % groups:
            raise KernelError(op_type, problem)
        found = cls(
            images,
            slices,
            lanes,
            (plane[0], plane[1]),
            out_slices,
            out_lanes,
            (out_plane[0], out_plane[1]),
            window,
            groups,
            depth,
        )
        if groups * found.depth != count * depth or window.taps != taps:
            raise KernelError(op_type, problem)
        return found

    @property
    def positions(self) -> int:
        """Positions of the window on one image: rows of its matrix."""
        return prod(self.out_plane)

    @property
    def is_line(self) -> bool:
        """Whether planes and the window have a single row, as those of sequences."""
        rows = {self.plane[0], self.out_plane[0], self.window.kernel[0]}
        return rows == {1} and self.window.padding.top == 0

    def upright(self) -> Geometry:
        """The same elements as planes of a single column, of which L1 gets a part."""
        old = self.window
        (_, taps), (_, stride), (_, apart) = old.kernel, old.stride, old.dilation
        around = Padding(old.padding.left, old.padding.right)
        window = Window((taps, 1), (stride, 1), (apart, 1), around)
        plane, out_plane = (self.plane[1], 1), (self.out_plane[1], 1)
        return replace(self, plane=plane, out_plane=out_plane, window=window)

    def laid_out(self) -> Geometry:
        """The same products where memory has what the windows see: a slice for every tap."""
        slices = self.slices * self.window.taps
        return replace(self, slices=slices, plane=self.out_plane, window=Window((1, 1)))

    def fits_load3d(self, profile: Profile) -> bool:
        """Whether load3d has fields for the window."""
        window, most = self.window, profile.cube.load3d
        return (
            max(window.kernel) <= most.longest_kernel
            and max(window.stride) <= most.longest_stride
            and max(window.dilation) <= most.longest_dilation
            and max(window.padding) <= most.longest_padding
        )

    def refuse_beyond(self, op_type: str, profile: Profile) -> None:
        """Raise KernelError for planes that are too wide; of rows windows see those in L1."""
        widest, most = max(self.plane[1], self.out_plane[1]), profile.cube.load3d.longest_plane
        if widest > most:
            wanted = f"planes of at most {most} on {profile.name}, not {widest}"
            raise KernelError(op_type, f"the window takes {wanted}")

    @property
    def group_slices(self) -> int:
        """Slices of input channels of a packed group."""
        return self.slices // self.groups

    @property
    def depth(self) -> int:
        """What a packed group's sums are over: its channels at every tap, and what fills up."""
        return round_up(self.group_slices * self.window.taps * self.lanes, self.weight_lanes)

    @property
    def out_channels(self) -> int:
        """Output channels of a packed group, with those that fill up the last slice."""
        return self.out_slices * self.out_lanes // self.groups


def lanes_of(profile: Profile, dtype: DType) -> int:
    """C0: channels that lie side by side, 32 bytes of them."""
    return profile.buffers.block_bytes // dtype.itemsize


def told_window(kernel: tuple[int, ...], attributes: Mapping[str, object]) -> Window:
    """The window that attributes tell; one that keeps the size of planes where they don't."""
    stride = _pair(attributes, "strides", "stride") or (1, 1)
    dilation = _pair(attributes, "dilations", "dilation") or (1, 1)
    plain = Window((kernel[0], kernel[1]), stride, dilation)
    padding = _padding(attributes)
    if padding is None:
        rows, columns = plain.extent
        padding = Padding((rows - 1) // 2, rows // 2, (columns - 1) // 2, columns // 2)
    return replace(plain, padding=padding)


def out_plane(x: Shaped, weight: Shaped, attributes: Mapping[str, object]) -> Pair | None:
    """Rows and columns of the result where ``attributes`` tell the stride and the padding."""
    taps = _taps(x, weight, attributes)
    stride, padding = _pair(attributes, "strides", "stride"), _padding(attributes)
    if stride is None or padding is None or min(*stride, taps) < 1:
        return None
    kernel = _pair(attributes, "kernel_size", "ksize") or _kernel(taps)
    dilation = _pair(attributes, "dilations", "dilation") or (1, 1)
    return Window(kernel, stride, dilation, padding).positions((x.shape[2], x.shape[3]))


def packed_groups(channels: int, out_channels: int, groups: int, lanes: int) -> int:
    """Groups that share a block-diagonal weight, so that slices are full on both sides.

    Source: ops-nn, conv/conv3d_v2, the enlarged group of its tiling.
    """
    of_group, out_of_group = channels // groups, out_channels // groups
    full = lcm(of_group, lanes) // of_group
    out_full = lcm(out_of_group, lanes) // out_of_group
    return min(lcm(full, out_full), groups)


def pack_of(shape: tuple[int, ...], groups: int, lanes: int, high: int) -> int:
    """Groups that share a weight (out channels, channels of a group, taps...) of whole slices.

    More than are needed for that where the last pack would have slices that feature maps lack.
    """
    out_channels, of_group, *_ = shape
    out_of_group = out_channels // groups
    least = packed_groups(of_group * groups, out_channels, groups, max(lanes, high))
    slices, out_slices = (ceil(each * groups / lanes) for each in (of_group, out_of_group))

    def fills_slices(packed: int) -> bool:
        packs, rows = ceil(groups / packed), round_up(out_of_group * packed, high)
        even = slices % packs == 0 == out_slices % packs
        whole = slices * lanes == packs * of_group * packed
        out_whole = out_slices * lanes == packs * out_of_group * packed
        return even and whole and out_whole and ceil(out_slices * lanes / rows) == packs

    return next(each for each in range(least, groups + 1) if each == groups or fills_slices(each))


def feature_map(shape: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """The storage shape, NC1HWC0, of a feature map in NCHW."""
    images, channels, *plane = shape
    return (images, ceil(channels / lanes), *plane, lanes)


def weight(
    shape: tuple[int, ...], lanes: int, high: int, *, groups: int = 1, c04: bool = False
) -> tuple[int, ...]:
    """The storage shape, FRACTAL_Z, of a weight (out channels, channels of a group, taps...).

    A fractal has ``high`` output channels.
    """
    out_channels, of_group, *kernel = shape
    taps = prod(kernel)
    if c04:
        return (ceil(taps * C04 / lanes), ceil(out_channels / high), high, lanes)
    packed = pack_of(shape, groups, lanes, high)
    slices = ceil(of_group * packed / lanes)
    blocks = ceil(out_channels // groups * packed / high)
    return (ceil(groups / packed) * slices * taps, blocks, high, lanes)


def _taps(x: Shaped, weight: Shaped, attributes: Mapping[str, object]) -> int:
    """The taps of a window; where four channels lie in a slice, the last fractal may lack some."""
    count, *_, depth = weight.shape
    held = x.shape[1] * x.shape[4]
    most = count * depth // max(1, held)
    told = _pair(attributes, "kernel_size", "ksize")
    if x.shape[4] >= depth or held != C04:
        return most
    possible = range(most, max(0, (count - 1) * depth // held), -1)
    squares = (each for each in possible if isqrt(each) ** 2 == each)
    return prod(told) if told else next(squares, most)


def _window(
    taps: int, plane: Pair, out_plane: Pair, attributes: Mapping[str, object]
) -> Window | None:
    """The window of so many taps; None where no window leads from one plane to the other."""
    kernel = _pair(attributes, "kernel_size", "ksize") or _kernel(max(1, taps))
    dilation = _pair(attributes, "dilations", "dilation") or (1, 1)
    plain = Window(kernel, dilation=dilation)
    stride = _pair(attributes, "strides", "stride")
    if stride is None:
        stride = (_stride(plane[0], out_plane[0]), _stride(plane[1], out_plane[1]))
    padding = _padding(attributes)
    if padding is None:
        rows, columns = (
            _around(plane[axis], out_plane[axis], stride[axis], plain.extent[axis])
            for axis in range(_PLANE)
        )
        padding = Padding(*rows, *columns)
    window = Window(kernel, stride, dilation, padding)
    if min(*kernel, *stride, *dilation) < 1 or min(padding) < 0:
        return None
    return window if window.positions(plane) == out_plane else None


def _kernel(taps: int) -> Pair:
    """As square as so many taps can be."""
    rows = next(each for each in range(isqrt(taps), 0, -1) if taps % each == 0)
    return rows, taps // rows


def _stride(size: int, out_size: int) -> int:
    """The stride that makes about so many positions of so many elements."""
    return max(1, round(size / max(1, out_size)))


def _around(size: int, out_size: int, stride: int, extent: int) -> Pair:
    """Zeros before and behind an axis: as for windows around the middle, as far as that fits.

    At least one tap sees the plane.
    """
    least = max(0, (out_size - 1) * stride + extent - size)
    wanted = min(max(least, extent - 1), least + stride - 1, 2 * (extent - 1))
    return wanted // 2, wanted - wanted // 2


def _pair(attributes: Mapping[str, object], *names: str) -> Pair | None:
    """Rows and columns of an attribute: one number, two, or four in the order NCHW."""
    value = next((attributes[name] for name in names if name in attributes), None)
    sizes = [value, value] if isinstance(value, int) else value
    if not isinstance(sizes, list | tuple) or not sizes:
        return None
    two = [sizes[0], sizes[0]] if len(sizes) == 1 else list(sizes[-_PLANE:])
    return int(two[0]), int(two[1])


def _padding(attributes: Mapping[str, object]) -> Padding | None:
    """Top, bottom, left and right; two numbers are those of rows and of columns."""
    value = next((attributes[name] for name in ("pads", "padding") if name in attributes), None)
    sizes = [value] if isinstance(value, int) else value
    if not isinstance(sizes, list | tuple) or len(sizes) not in (1, 2, 4):
        return None
    numbers = [int(each) for each in sizes]
    if len(numbers) < 4:
        rows, columns = numbers[0], numbers[-1]
        numbers = [rows, rows, columns, columns]
    return Padding(*numbers)
