"""Weights as the cube reads them: what the aclnn functions do that change a tensor's format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from npusim.values.errors import KernelError
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def fractal_weight(host: Host, x: GlobalTensor) -> Any:
    """Matrices in FRACTAL_NZ: TransData into workspace, and TensorMove to where they came from.

    Source: hicann/ops-math conversion/trans_data (op_api, aclnn_trans_matmul_weight).
    """
    shape = TensorSpec(x.shape, x.dtype, Format.FRACTAL_NZ).stored
    blocks = host.run("TransData", x, outputs=(_blocked(host, shape, x),))
    return host.run("TensorMove", blocks, outputs=(_blocked(host, shape, x),))


def format_cast(host: Host, source: GlobalTensor) -> Any:
    """A tensor in the format of the one that it goes to, FRACTAL_NZ where nobody says.

    Source: hicann/ops-math conversion/npu_format_cast (page and op_api): one TransData.
    """
    told = host.told("dstTensor")
    wanted = told or TensorSpec(source.shape, source.dtype, Format.FRACTAL_NZ)
    if wanted.format is Format.FRACTAL_NZ and source.format is Format.FRACTAL_NZ:
        return host.run("TensorMove", source)
    if Format.FRACTAL_NZ not in (wanted.format, source.format) and wanted.shape == source.shape:
        return host.run("TensorMove", source)
    if source.dtype is not wanted.dtype:
        raise KernelError("TransData", f"{source.dtype} to {wanted.dtype}: cast it before")
    target = replace(host.empty(wanted.stored, source.dtype), format=wanted.format)
    return host.run("TransData", source, outputs=(target,))


def _blocked(host: Host, shape: tuple[int, ...], like: GlobalTensor) -> GlobalTensor:
    return replace(host.empty(shape, like.dtype), format=Format.FRACTAL_NZ)
