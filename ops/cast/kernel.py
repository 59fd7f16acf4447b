"""Cast: one vconv per tile, two where the chip has no direct conversion."""

from __future__ import annotations

from npusim.dialect import Core, GlobalTensor, LocalTensor, RoundMode, TBuf, TPosition, TQue
from npusim.dialect.elementwise import ElementwiseKernel, Tile
from npusim.hardware.profile import Profile
from npusim.values.dtypes import FLOAT


class Cast(ElementwiseKernel):
    """out = x in out's dtype, to nearest even where it rounds; between half types by way of float32."""

    op_type = "Cast"
    coexisting = 2

    def __init__(self, profile: Profile, x: GlobalTensor, out: GlobalTensor) -> None:
        self.direct = profile.supports_convert(x.dtype.intrinsic, out.dtype.intrinsic)
        self.coexisting = 2 if self.direct else 3
        super().__init__(profile, (x,), out)

    def init_buffers(self, core: Core) -> None:
        self.in_que = TQue(TPosition.VECIN, self.depth, "x")
        self.out_que = TQue(TPosition.VECOUT, self.depth, "out")
        self.wide_buf = TBuf("wide")
        core.pipe.init_buffer(
            self.in_que, self.depth, self.tile_elements * self.inputs[0].dtype.itemsize
        )
        core.pipe.init_buffer(
            self.out_que, self.depth, self.tile_elements * self.output.dtype.itemsize
        )
        if not self.direct:
            core.pipe.init_buffer(self.wide_buf, 1, self.tile_elements * FLOAT.itemsize)

    def compute(self, core: Core, tile: Tile) -> None:
        source = tile.sources[0]
        assert source is not None  # a Cast never broadcasts
        x: LocalTensor = self.in_que.copy_in(source)
        out = self.out_que.alloc_tensor(self.output.dtype, *tile.shape)
        if self.direct:
            core.cast(out, x, RoundMode.CAST_RINT)
        else:
            wide = core.cast(self.wide_buf.get(FLOAT, *tile.shape), x, RoundMode.CAST_NONE)
            core.cast(out, wide, RoundMode.CAST_RINT)
        self.in_que.free_tensor(x)
        self.out_que.copy_out(tile.target, out)
