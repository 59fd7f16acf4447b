"""Triton kernels for what others measured or saw fail, after what those sources say of theirs.

All are of our own writing: where a source says how it divides its work, they do so; else by a rule
that `reports/triton_measured.py` states.
"""

# ruff: noqa: D103, N803 - named and written as Triton's programs are

import triton
import triton.language as tl


@triton.jit
def swiglu(x_ptr, out_ptr, rows, HALF: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        for start in range(0, HALF, BLOCK):
            column = start + tl.arange(0, BLOCK)[None, :]
            mask = (row < rows) & (column < HALF)
            at = x_ptr + row * (2 * HALF) + column
            gate = tl.load(at, mask=mask).to(tl.float32)
            value = tl.load(at + HALF, mask=mask).to(tl.float32)
            result = gate * tl.sigmoid(gate) * value
            tl.store(out_ptr + row * HALF + column, result.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        squares += x * x
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / columns + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < columns
        x = tl.load(x_ptr + row * columns + at, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=mask, other=0.0).to(tl.float32)
        result = x * scale * (1 + weight)
        tl.store(out_ptr + row * columns + at, result.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def accept_one(
    out_ptr,
    ends_ptr,
    draft_ptr,
    draft_probs_ptr,
    target_probs_ptr,
    bonus_ptr,
    recovered_ptr,
    uniform_ptr,
    greedy_ptr,
    most,
    vocabulary,
):
    request = tl.program_id(0)
    if tl.load(greedy_ptr + request):
        return
    start = 0 if request == 0 else tl.load(ends_ptr + request - 1)
    count = tl.load(ends_ptr + request) - start
    rejected = False
    for place in range(count):
        if not rejected:
            token = tl.load(draft_ptr + start + place)
            draft = tl.load(draft_probs_ptr + (start + place) * vocabulary + token)
            target = tl.load(target_probs_ptr + (start + place) * vocabulary + token)
            uniform = tl.load(uniform_ptr + start + place)
            if draft > 0 and target / draft >= uniform:
                taken = token
            else:
                rejected = True
                taken = tl.load(recovered_ptr + start + place)
            tl.store(out_ptr + request * (most + 1) + place, taken)
    if not rejected:
        tl.store(out_ptr + request * (most + 1) + count, tl.load(bonus_ptr + request))


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)


@triton.jit
def move_state(dst_ptr, src_ptr, heads, layers, H: tl.constexpr, V: tl.constexpr, K: tl.constexpr):
    pid = tl.program_id(0)
    for layer in range(layers):
        for first in range(0, heads, H):
            h = first + tl.arange(0, H)
            v, k = tl.arange(0, V), tl.arange(0, K)
            at = h[:, None, None] * (V * K) + v[None, :, None] * K + k[None, None, :]
            at += (pid * layers + layer) * heads * V * K
            mask = h[:, None, None] < heads
            tl.store(dst_ptr + at, tl.load(src_ptr + at, mask=mask, other=0), mask=mask)


@triton.jit
def flip(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + at)
    y = tl.flip(tl.exp(x), 1)
    tl.store(out_ptr + at, tl.exp(y))


@triton.jit
def column_and_back(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + at)
    row = tl.reshape(tl.ravel(x), (1, BLOCK * BLOCK))
    column = tl.trans(row)
    total = tl.sum(tl.sum(tl.exp(column), 0), 0)
    tl.store(out_ptr + at, tl.where(x > 0, x, total))


@triton.jit
def entropy(
    h_ptr, w_ptr, max_ptr, sum_ptr, hidden, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    logits = tl.zeros((M, N), tl.float32)
    for first in range(0, hidden, K):
        h = tl.load(h_ptr + m[:, None] * hidden + first + k[None, :])
        w = tl.load(w_ptr + n[:, None] * hidden + first + k[None, :])
        logits = tl.dot(h, tl.trans(w), logits)
    top = tl.max(logits, 1)
    e = tl.exp(logits - top[:, None])
    tl.store(max_ptr + m, top)
    tl.store(sum_ptr + m, tl.sum(e * logits, 1) / tl.sum(e, 1))


@triton.jit
def cast(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.float16))
