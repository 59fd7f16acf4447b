"""Convolutions of volumes: Conv3D, a convolution of planes for each step along the depth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.library.operands import GmMatrix
from npusim.library.unfolded import Unfolded
from npusim.ops.convolution.forward import Conv2D
from npusim.ops.convolution.geometry import Geometry
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.library.epilogue import Epilogue
    from npusim.library.matmul import Product
    from npusim.library.operands import Factor
    from npusim.ops.convolution.tiling import Share

_VOLUMES = 6  # axes of NDC1HWC0


class Run(NamedTuple):
    """Results one after the other that see equally many planes, and the first tap that does.

    ``plane`` is the first plane of the first of them, counted through all volumes.
    """

    image: int
    images: int
    plane: int
    tap: int
    taps: int


@dataclass(frozen=True, slots=True)
class Depth:
    """Planes of a volume before and after, and how the kernel moves over them."""

    planes: int
    results: int
    kernel: int
    stride: int
    before: int
    dilation: int = 1

    def runs(self, first: int, count: int) -> Iterator[Run]:
        """Results ``first`` to ``first + count``, through all volumes."""
        found: Run | None = None
        for image in range(first, first + count):
            volume, result = divmod(image, self.results)
            start = result * self.stride - self.before
            tap, end = max(0, -start), min(self.kernel, self.planes - start)
            plane = volume * self.planes + start + tap
            if found is not None:
                after = found.plane + found.images * self.stride
                if (found.tap, found.taps, after) == (tap, end - tap, plane):
                    found = found._replace(images=found.images + 1)
                    continue
                yield found
            found = Run(image, 1, plane, tap, end - tap)
        if found is not None:
            yield found

    def back(self, first: int, count: int) -> Iterator[Run]:
        """Planes ``first`` to ``first + count`` of all volumes, and the results that saw them.

        The tap is the last one that did, ``plane`` the first result; planes that none saw are left
        out.
        """
        found: Run | None = None
        for image in range(first, first + count):
            volume, plane = divmod(image, self.planes)
            place = plane + self.before
            begin = max(0, -(-(place - self.kernel + 1) // self.stride))
            results = min(self.results - 1, place // self.stride) - begin + 1
            if results < 1:
                continue
            tap, start = place - begin * self.stride, volume * self.results + begin
            if found is not None:
                after = found.image + found.images, found.plane + found.images
                if self.stride == 1 and (found.tap, found.taps, *after) == (
                    tap, results, image, start
                ):  # fmt: skip
                    found = found._replace(images=found.images + 1)
                    continue
                yield found
            found = Run(image, 1, start, tap, results)
        if found is not None:
            yield found


def kind_of_runs(shares: Iterable[Share], runs: Callable[[Share], Iterable[Run]]) -> Hashable:
    """What tells blocks apart: channels, positions and runs of their shares."""
    return tuple(
        (
            share.columns,
            share.row,
            share.rows,
            *((run.images, run.tap, run.taps) for run in runs(share)),
        )
        for share in shares
    )


class Conv3D(Conv2D):
    """y = the convolution of x in NDC1HWC0 with a weight in FRACTAL_Z_3D, and a bias per channel.

    Planes that lie one behind the other are further slices of channels; zeros before and behind a
    volume aren't multiplied.
    """

    op_type: str = "Conv3D"
    may_gather = False

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        weight: GlobalTensor,
        y: GlobalTensor,
        depth: Depth,
        attributes: Mapping[str, object],
        *,
        bias: GlobalTensor | None = None,
        epilogue: Epilogue | None = None,
        hf32: bool = False,
        op_type: str = "Conv3D",
    ) -> None:
        volumes, planes, slices, *rest = x.shape
        self.depth, self.slices = depth, slices
        seen = replace(x, shape=(volumes * depth.results, depth.kernel * slices, *rest))
        result = as_images(y)
        geometry = Geometry.of("Conv3D", seen, weight, result, attributes)
        if geometry.groups > 1:
            raise KernelError("Conv3D", "groups aren't modelled")
        flat = x.view(1, volumes * planes * slices, *rest)
        super().__init__(
            profile,
            flat,
            weight,
            result,
            geometry,
            bias=bias,
            epilogue=epilogue,
            hf32=hf32,
            op_type=op_type,
        )

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x, the weight and perhaps a bias to y; the window's depth from the attributes."""
        bias = task.inputs[2] if len(task.inputs) > 2 else None
        return cls.with_parts(task, bias)

    @classmethod
    def with_parts(
        cls, task: Task, bias: GlobalTensor | None, epilogue: Epilogue | None = None
    ) -> tuple[Kernel, ...]:
        """The same with what is fused behind it, on planes as images."""
        x, weight, y = task.present(2, 1)
        if len(x.shape) != _VOLUMES or len(y.shape) != _VOLUMES or x.shape[0] != y.shape[0]:
            raise task.refused(f"{x.shape} and {y.shape} aren't NDC1HWC0")
        depth, attributes = along_depth(task, x, weight, y)
        hf32 = bool(task.first("enable_hf32", "hf32"))
        kernel = cls(task.profile, x, weight, y, depth, attributes, bias=bias, epilogue=epilogue,
            hf32=hf32, op_type=task.op_type)  # fmt: skip
        return (kernel,)

    def block_kind(self, block_idx: int) -> Hashable:
        """Runs, channels and positions of a core."""
        return kind_of_runs(self.tiling.shares(block_idx), self._runs)

    def products(self, share: Share) -> Iterator[Product]:
        """A run after the other, of the taps that see planes."""
        geometry, weight = self.geometry, self.weight
        each = self.slices * geometry.window.taps  # of the weight's first axis, for a plane
        for run in self._runs(share):
            product = super()._product(share._replace(image=run.image, images=run.images))
            assert isinstance(product.b, GmMatrix)
            first = (run.tap * each, prod(weight.shape[1:]))
            b = replace(product.b, start=(*product.b.start, first))
            k = run.taps * each * geometry.lanes
            yield product._replace(a=self._planes(share, run), b=b, k=k)

    def _runs(self, share: Share) -> Iterator[Run]:
        return self.depth.runs(share.image, share.images)

    def _planes(self, share: Share, run: Run) -> Factor:
        """The planes that a run sees as rows of positions."""
        geometry, part = self.geometry, (share.row, share.rows)
        first, apart = run.plane * self.slices, self.depth.stride * self.slices
        if not geometry.window.is_point:
            return Unfolded(self.x, geometry.window, (0, first), part, apart)
        step = geometry.positions * geometry.lanes
        places = ((first, step), (share.row, geometry.lanes))
        return GmMatrix(
            self.x, places, step, lanes=geometry.lanes, height=share.rows, apart=apart * step
        )


def as_images(volumes: GlobalTensor) -> GlobalTensor:
    """The planes of volumes as images."""
    return volumes.view(volumes.shape[0] * volumes.shape[1], *volumes.shape[2:])


def along_depth(
    task: Task, x: GlobalTensor, weight: GlobalTensor, y: GlobalTensor
) -> tuple[Depth, dict[str, object]]:
    """The window along the depth, and the attributes of the one over planes."""
    said = dict(task.attributes)
    kernel, strides, dilations = (
        _three(task, said.get(name)) for name in ("ksize", "strides", "dilations")
    )
    pads = said.get("pads")
    around = list(pads) if isinstance(pads, list | tuple) else [0] * _VOLUMES
    if kernel is None or len(around) != _VOLUMES:
        raise task.refused("the kernel's size and six paddings have to be told")
    (deep, *window), (stride, *steps) = kernel, strides or (1, 1, 1)
    dilation, *apart = dilations or (1, 1, 1)
    depth = Depth(x.shape[1], y.shape[1], deep, stride, int(around[0]))
    results = (depth.planes + around[0] + around[1] - deep) // max(1, stride) + 1
    if dilation != 1 or min(stride, deep) < 1 or max(around[:2]) >= deep or min(around[:2]) < 0:
        raise task.refused("a dilation of the depth, or planes that see zeros alone")
    if results != depth.results or weight.shape[0] % deep:
        raise task.refused(f"{x.shape} and {weight.shape} don't make {y.shape}")
    planar: dict[str, object] = {
        "ksize": window,
        "strides": steps,
        "dilations": apart,
        "pads": around[2:],
    }
    return depth, planar


def _three(task: Task, value: object) -> tuple[int, int, int] | None:
    """Depth, rows and columns of an attribute: the last three of its entries."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) < 3:
        raise task.refused(f"{value!r} isn't depth, rows and columns")
    return int(value[-3]), int(value[-2]), int(value[-1])
