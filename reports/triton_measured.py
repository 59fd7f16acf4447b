"""Kernels of Triton against what others measured and saw fail: the tables of reports/triton.md.

`python reports/triton_measured.py` prints them; `reports/triton_public.py` writes the page. The
kernels are those of `triton_kernels.py`; the chip is Ascend910B3 where a source names none.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from npusim import Device, TensorSpec, triton  # noqa: E402
from npusim.triton.fitting import Need, need_of  # noqa: E402
from npusim.triton.grouping import VARIABLE  # noqa: E402
from npusim.triton.launching import launched_programs  # noqa: E402
from npusim.values.errors import KernelError  # noqa: E402

CHIP = "Ascend910B3"
CORES = 40  # vector cores of it
UB_BYTES = 196_608
_SMALL = 16384  # elements of a swiglu that one core does


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of data/triton_measured.csv with the simulated time."""

    kernel: str
    shape: str
    dtype: str
    measured_us: float
    simulated_us: float
    source: str

    @property
    def ratio(self) -> float:
        """Simulated over measured."""
        return self.simulated_us / self.measured_us


@dataclass(frozen=True, slots=True)
class Overflow:
    """A row of data/triton_overflows.csv with what is said of the kernel here."""

    kernel: str
    requires_bits: int | None
    need: Need
    source: str

    @property
    def verdict(self) -> str:
        """Whether the kernel fits."""
        return self.need.verdict(UB_BYTES)

    @property
    def is_size(self) -> bool:
        """Whether one of the two ends is the size that was reported."""
        ends = (self.need.least_bytes * 8, self.need.most_bytes * 8)
        return self.requires_bits in ends


def measured() -> Iterator[Measured]:
    """All rows, timed one after the other; benchmarks repeat a call, so L2 has what it reads."""
    device = Device(CHIP, l2="warm")
    for row in _rows("triton_measured.csv"):
        sizes = [int(each) for each in row["shape"].split("x")]
        grid, arguments = _CALLS[row["kernel"]](*sizes, row["dtype"])
        kernel = getattr(_kernels(), row["kernel"])
        result = triton.estimate(kernel, grid, arguments, device=device)
        yield Measured(
            row["kernel"], row["shape"], row["dtype"], float(row["measured_us"]),
            result.duration_us, row["source"],
        )  # fmt: skip


def overflows() -> Iterator[Overflow]:
    """All threads, by the kernel that stands for theirs."""
    for row in _rows("triton_overflows.csv"):
        bits = int(row["requires_bits"]) if row["requires_bits"] else None
        yield Overflow(row["kernel"], bits, _need(row["kernel"]), row["source"])


def _need(name: str) -> Need:
    kernel, arguments = _FAILED[name]
    with launched_programs() as programs, suppress(KernelError):  # not fitting is what is asked
        triton.estimate(getattr(_kernels(), kernel), (1,), arguments, device=CHIP)
    return need_of(programs[-1])


def _rows(name: str) -> list[dict[str, str]]:
    with (HERE / "data" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _kernels() -> Any:
    import triton_kernels

    return triton_kernels


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _swiglu(rows: int, columns: int, dtype: str) -> tuple[tuple[int], dict[str, Any]]:
    """A part of the rows for each core, in tiles of 32 x 256; one core where there is little."""
    half = columns // 2
    programs = 1 if rows * half < _SMALL else CORES
    given = {"x_ptr": TensorSpec((rows, columns), dtype), "rows": rows, "HALF": half}
    given |= {"out_ptr": TensorSpec((rows, half), dtype), "PART": -(-rows // programs)}
    return (programs,), given | {"ROWS": min(rows, 32), "BLOCK": min(half, 256)}


def _rms_norm(rows: int, columns: int, dtype: str) -> tuple[tuple[int], dict[str, Any]]:
    """A program for each row, all of it at once."""
    x = TensorSpec((rows, columns), dtype)
    given: dict[str, Any] = {"x_ptr": x, "weight_ptr": TensorSpec((columns,), dtype), "out_ptr": x}
    return (rows,), given | {"columns": columns, "eps": 1e-6, "BLOCK": _power(columns)}


def _accept_one(requests: int, drafts: int, _dtype: str) -> tuple[tuple[int], dict[str, Any]]:
    """A program for each request, as vLLM's; probabilities at random, of a small vocabulary."""
    random, words, tokens = np.random.default_rng(1), 1000, requests * drafts

    def ids(*shape: int) -> Any:
        return random.integers(0, words, shape).astype(np.int32)

    def shares(*shape: int) -> Any:
        return random.random(shape, dtype=np.float32)

    ends = (np.arange(1, requests + 1) * drafts).astype(np.int32)
    return (requests,), {
        "out_ptr": ids(requests, drafts + 1), "ends_ptr": ends, "draft_ptr": ids(tokens),
        "draft_probs_ptr": shares(tokens, words), "target_probs_ptr": shares(tokens, words),
        "bonus_ptr": ids(requests), "recovered_ptr": ids(tokens), "uniform_ptr": shares(tokens),
        "greedy_ptr": np.zeros(requests, np.bool_), "most": drafts, "vocabulary": words,
    }  # fmt: skip


def _accept_many(requests: int, drafts: int, dtype: str) -> tuple[tuple[int], dict[str, Any]]:
    """A program for each core, with as many requests as a power of two."""
    programs = min(requests, CORES)
    _, given = _accept_one(requests, drafts, dtype)
    return (programs,), given | {"requests": requests, "BLOCK": _power(-(-requests // programs))}


def _slots(tokens: int, requests: int, dtype: str) -> tuple[tuple[int], dict[str, Any]]:
    """A program for each request, and one for what is left of 8,192 slots."""
    each, most, size, stride = tokens // requests, 8192, 128, 64
    random = np.random.default_rng(1)
    given: dict[str, Any] = {
        "tokens": tokens, "most": most, "stride": stride, "size": size, "BLOCK": 1024,
        "starts_ptr": (np.arange(requests + 1) * each).astype(np.int32),
        "positions_ptr": np.tile(np.arange(each), requests),
        "table_ptr": random.integers(0, 1000, (requests, stride)).astype(np.int32),
        "slots_ptr": np.zeros(most, dtype),
    }  # fmt: skip
    wide = {"RANKS": 1, "RANK": 0, "SPREAD": 1}
    return (requests + 1,), given | (wide if dtype == "int64" else {"WINDOW": 16})


def _of(dtype: str, *shape: int) -> TensorSpec:
    return TensorSpec(shape, dtype)


_CALLS: dict[str, Callable[..., tuple[tuple[int], dict[str, Any]]]] = {
    "accept_many": _accept_many,
    "accept_one": _accept_one,
    "rms_norm": _rms_norm,
    "slots": _slots,
    "slots_by_window": _slots,
    "swiglu": _swiglu,
}
_PAIRS = (("accept_one", "accept_many"), ("slots", "slots_by_window"))
_MANY = _of("float32", 10_000_000)
_SQUARE = {"x_ptr": _of("float32", 64, 64), "out_ptr": _of("float32", 64, 64), "BLOCK": 64}
_FAILED: dict[str, tuple[str, dict[str, Any]]] = {
    "add_48000": (
        "add",
        {"x_ptr": _MANY, "y_ptr": _MANY, "out_ptr": _MANY, "n": 1_000_000, "BLOCK": 48_000},
    ),
    "move_state": (
        "move_state",
        {"dst_ptr": _MANY, "src_ptr": _MANY, "heads": 32, "layers": 2, "H": 2, "V": 128, "K": 128},
    ),
    "column_and_back": ("column_and_back", _SQUARE),
    "flip": ("flip", _SQUARE),
    "entropy": (
        "entropy",
        {
            "h_ptr": _of("bfloat16", 128, 4096), "w_ptr": _of("bfloat16", 256, 4096),
            "max_ptr": _of("float32", 128), "sum_ptr": _of("float32", 128),
            "hidden": 4096, "M": 128, "N": 256, "K": 32,
        },
    ),
    "cast_80000": ("cast", {"x_ptr": _MANY, "out_ptr": _of("float16", 80_000), "BLOCK": 80_000}),
}  # fmt: skip


def _us(kernel: str, grid: tuple[int, ...], given: dict[str, Any], chip: str = CHIP) -> float:
    return triton.estimate(getattr(_kernels(), kernel), grid, given, device=chip).duration_us


def _add_us(n: int, block: int, programs: int = 0) -> float:
    x = _of("float32", n)
    given = {"x_ptr": x, "y_ptr": x, "out_ptr": x, "n": n, "BLOCK": block}
    return _us("add", (programs or -(-n // block),), given)


def _many_programs(grouped: str = "0") -> str:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = grouped
    try:
        return f"70,000 programs take {_add_us(70_000 * 512, 512):.0f} us"
    except KernelError as error:
        return f"refused: {error.message}"
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def _square_grid() -> str:
    try:
        given = {"x_ptr": _of("float32", 8), "out_ptr": _of("float32", 8), "n": 8, "BLOCK": 8}
        return f"{_us('copy_by_blocks', (8192, 8), given):.0f} us"
    except KernelError as error:
        return f"refused: {error.message}"


def _copies() -> str:
    spec = _of("int32", 16_384)
    given = {"x_ptr": spec, "out_ptr": spec, "n": 16_384}
    slow = _us("copy_one_by_one", (1,), given)
    fast = _us("copy_by_blocks", (CORES,), given | {"BLOCK": 256})
    return f"one program, an element after the other: {slow:.0f} us; all cores: {fast:.1f} us"


def _one_row() -> str:
    n = 1 << 20  # theirs 128 times as long
    given = {"x_ptr": _of("float16", 2 * n), "out_ptr": _of("float16", n), "BLOCK": 256}
    alone = _us("swiglu", (CORES,), {**given, "rows": 1, "HALF": n, "PART": 1, "ROWS": 1})
    rows = n // 2048
    split = {"rows": rows, "HALF": 2048, "PART": -(-rows // CORES), "ROWS": 32}
    by_rows = _us("swiglu", (CORES,), given | split)
    return f"of 2^21 elements {alone:.0f} us, as rows of 4,096 {by_rows:.0f} us"


def answers(rows: Sequence[Measured]) -> str:
    """Threads on ranking and slowness: what was seen there, and what is said here."""
    ranked = {block: _add_us(98_432, block) for block in (16, 256, 512, 1024)}
    best = min(ranked, key=lambda block: ranked[block])
    small, large = _add_us(1024, 512), _add_us(65_536, 512)
    told = ", ".join(f"{block}: {us:.2f}" for block, us in ranked.items())
    squares = {name: _of("float32", 1 << 20) for name in ("x_ptr", "y_ptr")}
    squares |= {"out_ptr": _of("float32", 1)}
    mse = _us("mean_squares", (CORES,), {**squares, "n": 1 << 20, "BLOCK": 4096})
    found = {(each.kernel, each.shape): each.simulated_us for each in rows}
    listed = [
        ("triton-lang/triton-ascend/issues/633",
         "add of 98,432 elements: of BLOCK 16, 256, 512, 1024 (not 2048) autotune took 1024",
         f"{best} ({told} us)"),
        ("Ascend/triton-ascend/issues/8",
         "add of 1,024 to 65,536 elements takes 0.17 to 0.22 ms whatever its size",
         f"the kernel takes {small:.2f} to {large:.2f} us: the rest is the host's"),
        ("triton-lang/triton-ascend/issues/298",
         "mse_loss of 1024x1024 takes longer than torch's; the maintainers: the host's overhead",
         f"such a kernel takes {mse:.1f} us"),
        ("triton-lang/triton-ascend/issues/16",
         "a grid of 8,192 x 8 is refused", _square_grid()),
        ("vllm-project/vllm-ascend/pull/10138",
         "more than 65,535 programs: the runtime refuses them", _many_programs()),
        ("vllm-project/vllm-ascend/pull/6301",
         "with TRITON_ALL_BLOCKS_PARALLEL=1 such grids run", _many_programs(grouped="1")),
        ("vllm-project/vllm-ascend/pull/5259",
         "a program for many requests instead of one each: 2,048 of them 137.9 -> 32.9 us",
         f"{found['accept_one', '2048x1']:.1f} -> {found['accept_many', '2048x1']:.1f} us"),
        ("vllm-project/vllm-ascend/pull/13048",
         "slots without arithmetic of int64 and single loads: 1,039 -> 21 us",
         f"{found['slots', '8192x256']:.0f} -> {found['slots_by_window', '8192x256']:.0f} us"),
        ("vllm-project/vllm-ascend/pull/13191",
         "one program that copies 16K tokens in serial loops: 2.2 ms, other cores idle", _copies()),
        ("flagos-ai/FlagGems/pull/6424",
         "swiglu of one row of 2^28 elements by rows: 76 ms, cut otherwise 0.66 ms", _one_row()),
    ]  # fmt: skip
    lines = ["| thread | there | here |", "|---|---|---|"]
    lines += [f"| {_link('https://github.com/' + path)} | {seen} | {said} |"
              for path, seen, said in listed]  # fmt: skip
    return "\n".join(lines)


def in_order(rows: Sequence[Measured]) -> tuple[int, int]:
    """Of how many pairs of variants on the same shape the faster one is so here, and how many."""
    found = {(each.kernel, each.shape): each for each in rows}
    pairs = [
        (found[before, shape], found[after, shape])
        for before, after in _PAIRS
        for kernel, shape in found
        if kernel == before
    ]
    right = [(a.measured_us < b.measured_us) == (a.simulated_us < b.simulated_us) for a, b in pairs]
    return sum(right), len(right)


def times(rows: Sequence[Measured]) -> str:
    """The table of times in Markdown, and what follows from it."""
    lines = ["| kernel | shape | measured (us) | simulated (us) | ratio | source |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    lines += [
        f"| {each.kernel} | {each.shape} {each.dtype} | {each.measured_us:.2f} | "
        f"{each.simulated_us:.2f} | {each.ratio:.2f} | {_link(each.source)} |"
        for each in rows
    ]
    kinds = {each.kernel for each in rows}
    said = [
        _medians(kind, [each for each in rows if each.kernel == kind]) for kind in sorted(kinds)
    ]
    right, pairs = in_order(rows)
    said.append(_medians("all", rows))
    said.append(f"- pairs of variants in order: {right} of {pairs} ({right / pairs:.0%})")
    return "\n".join([*lines, "", *said])


def sizes() -> str:
    """The table of overflows in Markdown."""
    more = ["| kernel | reported (bits) | requires (bits) | verdict | size | source |",
            "|---|---|---|---|---|---|"]  # fmt: skip
    more += [
        f"| {each.kernel} | {each.requires_bits or 'not said'} | {each.need.least_bytes * 8} to "
        f"{each.need.most_bytes * 8} | {each.verdict} | {'same' if each.is_size else '-'} | "
        f"{_link(each.source)} |"
        for each in overflows()
    ]
    return "\n".join(more)


def _medians(name: str, rows: list[Measured]) -> str:
    error = median(abs(each.ratio - 1) for each in rows)
    return (
        f"- {name}: {len(rows)} rows, median error {error:.0%}, median ratio "
        f"{median(each.ratio for each in rows):.2f}"
    )


def _link(source: str) -> str:
    if not source.startswith("https://"):
        return source
    owner, name, _, number = source.removeprefix("https://github.com/").split("/")
    return f"[{owner}/{name}#{number}]({source})"


if __name__ == "__main__":
    found = list(measured())
    sys.stdout.write(f"{times(found)}\n\n{sizes()}\n\n{answers(found)}\n")
