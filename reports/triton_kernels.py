"""Triton kernels for what others measured or saw fail, after what those sources say of theirs.

All are of our own writing: where a source says how it divides its work, they do so; else by a rule
that `reports/triton_measured.py` states.
"""

# ruff: noqa: D103, N803 - named and written as Triton's programs are

import triton
import triton.language as tl


@triton.jit
def swiglu(
    x_ptr,
    out_ptr,
    rows,
    HALF: tl.constexpr,
    PART: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    first = tl.program_id(0) * PART
    for start in range(0, PART, ROWS):
        for left in range(0, HALF, BLOCK):
            row = first + start + tl.arange(0, ROWS)[:, None]
            column = left + tl.arange(0, BLOCK)[None, :]
            mask = (row < rows) & (column < HALF)
            at = x_ptr + row * (2 * HALF) + column
            gate = tl.load(at, mask=mask, other=0.0)
            value = tl.load(at + HALF, mask=mask, other=0.0)
            share = 1.0 / (1.0 + tl.exp(-1 * gate))
            tl.store(out_ptr + row * HALF + column, gate * value * share, mask=mask)


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=mask, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(x * x, 0) / columns + eps)
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
def accept_many(
    out_ptr,
    ends_ptr,
    draft_ptr,
    draft_probs_ptr,
    target_probs_ptr,
    bonus_ptr,
    recovered_ptr,
    uniform_ptr,
    greedy_ptr,
    requests,
    most,
    vocabulary,
    BLOCK: tl.constexpr,
):
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    mask = at < requests
    wanted = tl.load(greedy_ptr + at, mask=mask, other=1) == 0
    starts = tl.where(at == 0, 0, tl.load(ends_ptr + at - 1, mask=wanted & (at > 0)))
    counts = tl.load(ends_ptr + at, mask=wanted) - starts
    for one in range(BLOCK):
        if tl.get_element(wanted, (one,)):
            start = tl.get_element(starts, (one,))
            count = tl.get_element(counts, (one,))
            request = first + one
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
def slots(
    tokens,
    most,
    starts_ptr,
    positions_ptr,
    table_ptr,
    stride,
    size,
    slots_ptr,
    RANKS: tl.constexpr,
    RANK: tl.constexpr,
    SPREAD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    request = tl.program_id(0)
    if request == tl.num_programs(0) - 1:
        for i in range(tokens, most, BLOCK):
            at = i + tl.arange(0, BLOCK)
            tl.store(slots_ptr + at, -1, mask=at < most)
        return
    start = tl.load(starts_ptr + request).to(tl.int64)
    end = tl.load(starts_ptr + request + 1).to(tl.int64)
    for i in range(start, end, BLOCK):
        at = i + tl.arange(0, BLOCK)
        mask = at < end
        position = tl.load(positions_ptr + at, mask=mask, other=0)
        page = position // (size * RANKS)
        number = tl.load(table_ptr + request * stride + page).to(tl.int64)
        within = position - page * (size * RANKS)
        here = (within // SPREAD) % RANKS == RANK
        own = within // (RANKS * SPREAD) * SPREAD + within % SPREAD
        tl.store(slots_ptr + at, tl.where(here, number * size + own, -1), mask=mask)


@triton.jit
def slots_by_window(
    tokens,
    most,
    starts_ptr,
    positions_ptr,
    table_ptr,
    stride,
    size,
    slots_ptr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    request = tl.program_id(0)
    if request == tl.num_programs(0) - 1:
        for i in range(tokens, most, BLOCK):
            at = i + tl.arange(0, BLOCK)
            tl.store(slots_ptr + at, -1, mask=at < most)
        return
    start = tl.load(starts_ptr + request).to(tl.int64)
    end = tl.load(starts_ptr + request + 1).to(tl.int64)
    for i in range(start, end, BLOCK):
        at = i + tl.arange(0, BLOCK)
        mask = at < end
        position = tl.load(positions_ptr + at, mask=mask, other=0).to(tl.int32)
        page = position // size
        within = position - page * size
        first = tl.min(tl.where(mask, page, 2147483647), axis=0)
        near = first + tl.arange(0, WINDOW)
        window = tl.load(table_ptr + request * stride + near, mask=near < stride, other=0).to(
            tl.float32
        )
        number = tl.gather(window, tl.where(mask, page - first, 0), 0).to(tl.int32)
        tl.store(slots_ptr + at, number * size + within, mask=mask)


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


@triton.jit
def copy_one_by_one(x_ptr, out_ptr, n):
    for at in range(n):
        tl.store(out_ptr + at, tl.load(x_ptr + at))


@triton.jit
def copy_by_blocks(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def mean_squares(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        apart = x - tl.load(y_ptr + at, mask=at < n, other=0.0)
        total += apart * apart
    tl.atomic_add(out_ptr, tl.sum(total, 0) / n)
