"""A decoder layer while training: forward with what gradients need, and the way back.

Every product has two in its gradient: of what went in, and of the weight, which is added to a
gradient in float32. Norms are those of the rows that a rank has (sequence parallelism).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.llm.work import Part, Work, part, tensor
from npusim.values.dtypes import BOOL, FLOAT, INT32, INT64, DType

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture
    from npusim.llm.layout import Layout

_MASK = 2048
_STATISTICS = 8  # numbers that FlashAttentionScore keeps of a row, all alike


@dataclass(frozen=True)
class Trained:
    """Writes the tasks of one micro-batch on one rank; `tokens` are ``batch`` x ``length``."""

    work: Work
    model: Architecture
    layout: Layout
    kind: DType
    batch: int
    length: int

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch."""
        return self.batch * self.length

    @property
    def rows(self) -> int:
        """Rows of norms that a rank has."""
        return ceil(self.tokens / self.layout.tp)

    def layer(self, *, back: bool, mixed: bool) -> None:
        """One layer forward, or the gradient of it."""
        self._norm(back=back)
        self._gather(back=back)
        self._attention(back=back)
        self._reduce(back=back)
        self._norm(back=back)
        if mixed and self.layout.experts > 1:
            self._mixture(back=back)
            return
        self._gather(back=back)
        if mixed:
            self._mixture(back=back)
        else:
            self._feed_forward(self.tokens, self.model.width, back=back)
        self._reduce(back=back)

    def product(self, rows: int, depth: int, columns: int, *, back: bool) -> None:
        """``[rows, depth] x [depth, columns]``, or its two gradients."""
        x, w, y = (
            tensor(self.kind, *shape)
            for shape in ((rows, depth), (depth, columns), (rows, columns))
        )
        if not back:
            self.work.run(part("MatMulV2", (x, w), (y,), weights=(w,)))
            return
        self.work.run(
            part("MatMulV2", (y, w), (x,), weights=(w,), transpose_x2=True),
            part("MatMulV2", (x, y), (w,), transpose_x1=True),
            *self._added(depth * columns),
        )

    def loss(self, *, back: bool) -> None:
        """The last norm, logits in float32 and the cross entropy of a share of the vocabulary."""
        columns = ceil(self.model.vocabulary / self.layout.tp)
        logits, whole = tensor(self.kind, self.tokens, columns), tensor(FLOAT, self.tokens, columns)
        self._norm(back=back)
        self._gather(back=back)
        if back:
            self.work.run(part("Mul", (whole, whole), (whole,)), part("Cast", (whole,), (logits,)))
        else:
            self.work.run(
                part("Cast", (logits,), (whole,)),
                part("Sub", (whole, whole), (whole,)),
                part("Exp", (whole,), (whole,)),
                part("RealDiv", (whole, whole), (whole,)),
            )
        self.product(self.tokens, self.model.hidden, columns, back=back)

    def _added(self, count: int) -> list[Part]:
        """A gradient of a weight added to the one in float32."""
        fresh, kept = tensor(self.kind, count), tensor(FLOAT, count)
        return [part("Cast", (fresh,), (kept,)), part("Add", (kept, kept), (kept,))]

    def _norm(self, *, back: bool) -> None:
        kind, hidden = self.kind, self.model.hidden
        x, gamma = tensor(kind, self.rows, hidden), tensor(kind, hidden)
        root = tensor(FLOAT, self.rows, 1)
        self.work.run(part("Add", (x, x), (x,)))
        if back:
            summed = tensor(FLOAT, hidden)
            self.work.run(part("RmsNormGrad", (x, x, root, gamma), (x, summed)))
        else:
            self.work.run(part("RmsNorm", (x, gamma), (x, root)))

    def _attention(self, *, back: bool) -> None:
        model, tp = self.model, self.layout.tp
        if (latent := model.latent) is not None:
            heads, size = model.heads // tp, latent.nope + latent.rope
            if latent.query_rank:
                self.product(self.tokens, model.hidden, latent.query_rank, back=back)
            into = latent.query_rank or model.hidden
            self.product(self.tokens, into, heads * size, back=back)
            self.product(self.tokens, model.hidden, latent.rank + latent.rope, back=back)
            widened = heads * (latent.nope + latent.value)
            self.product(self.tokens, latent.rank, widened, back=back)
            self._rotary(heads, latent.rope, back=back)
            self._flash(heads, heads, size, back=back)
            self.product(self.tokens, heads * latent.value, model.hidden, back=back)
            return
        heads, keys = model.heads // tp, max(1, model.kv_heads // tp)
        columns = (heads + 2 * keys) * model.head_dim
        self.product(self.tokens, model.hidden, columns, back=back)
        self._rotary(heads, model.head_dim, back=back)
        self._rotary(keys, model.head_dim, back=back)
        self._flash(heads, keys, model.head_dim, back=back)
        self.product(self.tokens, heads * model.head_dim, model.hidden, back=back)

    def _rotary(self, heads: int, size: int, *, back: bool) -> None:
        x, angles = (
            tensor(self.kind, self.tokens, 1, heads, size),
            tensor(self.kind, self.tokens, 1, 1, size),
        )
        op = "RotaryPositionEmbeddingGrad" if back else "RotaryMul"
        self.work.run(part(op, (x, angles, angles), (x,)))

    def _flash(self, heads: int, keys: int, size: int, *, back: bool) -> None:
        query = tensor(self.kind, self.batch, self.length, heads * size)
        key = tensor(self.kind, self.batch, self.length, keys * size)
        kept = tensor(FLOAT, self.batch, heads, self.length, _STATISTICS)
        mask = tensor(BOOL, _MASK, _MASK)
        said: dict[str, Any] = {
            "head_num": heads,
            "input_layout": "BSH",
            "scale_value": size**-0.5,
            "sparse_mode": 2,
        }
        if back:
            flash = part(
                "FlashAttentionScoreGrad",
                (query, key, key, query, None, None, None, mask, kept, kept, None, query),
                (query, key, key), **said,
            )  # fmt: skip
        else:
            flash = part(
                "FlashAttentionScore", (query, key, key, None, None, None, mask),
                (kept, kept, tensor(self.kind, 1), query), **said,
            )  # fmt: skip
        self.work.first_of([flash], self._composed(heads, size, back=back))

    def _composed(self, heads: int, size: int, *, back: bool) -> list[Part]:
        """Attention of products that have no kernel for it: scores go through memory."""
        count = self.batch * heads
        q = tensor(self.kind, count, self.length, size)
        k = tensor(self.kind, count, size, self.length)
        scores = tensor(self.kind, count, self.length, self.length)
        wide, narrow = (
            part("BatchMatMulV2", (q, k), (scores,)),
            part("BatchMatMulV2", (scores, q), (q,)),
        )
        scaled = part("Muls", (scores,), (scores,), value=size**-0.5)
        if back:
            soft = part("SoftmaxGrad", (scores, scores), (scores,))
            return [wide, soft, scaled, narrow, narrow, narrow]
        masked = part("Add", (scores, scores), (scores,))
        return [wide, scaled, masked, part("SoftmaxV2", (scores,), (scores,)), narrow]

    def _feed_forward(self, rows: int, width: int, *, back: bool) -> None:
        mine = max(1, width // self.layout.tp)
        gated, x = self.model.gated, tensor(self.kind, rows, mine)
        self.product(rows, self.model.hidden, (1 + gated) * mine, back=back)
        if gated:
            self._gate(rows, mine, back=back)
        else:
            curve = part("GeluGrad", (x, x, x), (x,)) if back else part("Gelu", (x,), (x,))
            self.work.run(curve)
        self.product(rows, mine, self.model.hidden, back=back)

    def _gate(self, rows: int, width: int, *, back: bool) -> None:
        both, half = tensor(self.kind, rows, 2 * width), tensor(self.kind, rows, width)
        multiplied = part("Mul", (half, half), (half,))
        if back:
            pieces = [part("SigmoidGrad", (half, half), (half,)), multiplied, multiplied]
            self.work.first_of([part("SwiGluGrad", (half, both), (both,))], pieces)
        else:
            self.work.first_of(
                [part("SwiGlu", (both,), (half,))], [part("Swish", (half,), (half,)), multiplied]
            )

    def _mixture(self, *, back: bool) -> None:
        experts, dealt = self.model.experts, self.layout.experts > 1
        if experts is None:
            return
        own = self.rows if dealt else self.tokens
        rows, hidden = own * experts.active, self.model.hidden
        self.product(own, hidden, experts.count, back=back)
        spread = tensor(self.kind, rows, hidden)
        nbytes = rows * hidden * self.kind.itemsize
        # Tokens are copied to their experts, and summed up behind them; gradients go back alike.
        copied = part(
            "MoeInitRoutingV2",
            (tensor(self.kind, own, hidden), tensor(INT32, own, experts.active)),
            (spread, tensor(INT32, rows), tensor(INT32, experts.count)),
            active_num=rows, expert_num=experts.count,
        )  # fmt: skip
        summed = part(
            "MoeFinalizeRoutingV2",
            (spread, tensor(INT32, rows), None, None, None, tensor(self.kind, own, experts.active),
             tensor(INT32, own, experts.active)), (tensor(self.kind, own, hidden),),
            drop_pad_mode=0,
        )  # fmt: skip
        self.work.run(copied)
        if dealt:
            self.work.exchange("alltoall", self.layout.experts, nbytes, "dispatch")
        local = max(1, experts.count // self.layout.experts) if dealt else experts.count
        width = experts.width if dealt else max(1, experts.width // self.layout.tp)
        self._grouped(rows, local, hidden, 2 * width, back=back)
        self._gate(rows, width, back=back)
        self._grouped(rows, local, width, hidden, back=back)
        if dealt:
            self.work.exchange("alltoall", self.layout.experts, nbytes, "combine")
        self.work.run(summed)
        if experts.shared_width:
            self._feed_forward(
                own, experts.shared_width * (self.layout.tp if dealt else 1), back=back
            )

    def _grouped(self, rows: int, groups: int, depth: int, columns: int, *, back: bool) -> None:
        x, y = tensor(self.kind, rows, depth), tensor(self.kind, rows, columns)
        weight, lists = tensor(self.kind, groups, depth, columns), tensor(INT64, groups)
        if not back:
            self.work.run(part("GroupedMatmul", (x, weight, None, lists), (y,), weights=(weight,),
                               group_type=0))  # fmt: skip
            return
        turned = tensor(self.kind, groups, columns, depth)
        self.work.run(
            part("GroupedMatmul", (y, turned, None, lists), (x,), weights=(turned,), group_type=0),
            part("GroupedMatmul", (tensor(self.kind, depth, rows), y, None, lists), (weight,),
                 group_type=2),
            *self._added(groups * depth * columns),
        )  # fmt: skip

    def _gather(self, *, back: bool) -> None:
        """In front of products: rows of all ranks; gradients of them are summed up again."""
        nbytes = self.rows * self.model.hidden * self.kind.itemsize
        operation = "reducescatter" if back else "allgather"
        self.work.exchange(operation, self.layout.tp, nbytes, "rows of a layer")
        if back:  # for the gradients of weights
            self.work.exchange("allgather", self.layout.tp, nbytes, "rows for gradients")

    def _reduce(self, *, back: bool) -> None:
        """Behind products: sums of all ranks; gradients of them are gathered again."""
        nbytes = self.rows * self.model.hidden * self.kind.itemsize
        operation = "allgather" if back else "reducescatter"
        self.work.exchange(operation, self.layout.tp, nbytes, "sums of a layer")
