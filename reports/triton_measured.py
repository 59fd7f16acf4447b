"""Kernels of Triton against what others measured and saw fail: the tables of reports/triton.md.

`python reports/triton_measured.py` prints them; `reports/triton_public.py` writes the page. The
kernels are those of `triton_kernels.py`; the chip is Ascend910B3 where a source names none.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator
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
_LANES = 8192  # elements of a tile of swiglu and rms_norm: their float32 parts fit UB, doubled


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
    """One program on each core, over tiles of whole rows or of 1,024 elements of one."""
    half = columns // 2
    block = min(1024, _power(half))
    tile = max(1, min(_LANES // block, _power(-(-rows // CORES))))
    given = {"x_ptr": TensorSpec((rows, columns), dtype), "rows": rows, "HALF": half}
    given |= {"out_ptr": TensorSpec((rows, half), dtype), "ROWS": tile, "BLOCK": block}
    return (min(CORES, -(-rows // tile)),), given


def _rms_norm(rows: int, columns: int, dtype: str) -> tuple[tuple[int], dict[str, Any]]:
    """A program for each row."""
    x = TensorSpec((rows, columns), dtype)
    given: dict[str, Any] = {"x_ptr": x, "weight_ptr": TensorSpec((columns,), dtype), "out_ptr": x}
    return (rows,), given | {"columns": columns, "eps": 1e-6, "BLOCK": min(_LANES, _power(columns))}


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


def _of(dtype: str, *shape: int) -> TensorSpec:
    return TensorSpec(shape, dtype)


_CALLS: dict[str, Callable[..., tuple[tuple[int], dict[str, Any]]]] = {
    "accept_one": _accept_one,
    "rms_norm": _rms_norm,
    "swiglu": _swiglu,
}
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


def _add_us(n: int, block: int) -> float:
    x = _of("float32", n)
    given = {"x_ptr": x, "y_ptr": x, "out_ptr": x, "n": n, "BLOCK": block}
    return triton.estimate(_kernels().add, (-(-n // block),), given, device=CHIP).duration_us


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


def answers() -> str:
    """Threads on ranking and slowness: what was seen there, and what is said here."""
    ranked = {block: _add_us(98_432, block) for block in (16, 256, 512, 1024)}
    best = min(ranked, key=lambda block: ranked[block])
    small, large = _add_us(1024, 512), _add_us(65_536, 512)
    told = ", ".join(f"{block}: {us:.2f}" for block, us in ranked.items())
    rows = [
        ("triton-lang/triton-ascend/issues/633",
         "add of 98,432 elements: of BLOCK 16, 256, 512, 1024 (not 2048) autotune took 1024",
         f"{best} ({told} us)"),
        ("Ascend/triton-ascend/issues/8",
         "add of 1,024 to 65,536 elements takes 0.17 to 0.22 ms whatever its size",
         f"the kernel takes {small:.2f} to {large:.2f} us: the rest is the host's"),
        ("vllm-project/vllm-ascend/pull/10138",
         "more than 65,535 programs: the runtime refuses them", _many_programs()),
        ("vllm-project/vllm-ascend/pull/6301",
         "with TRITON_ALL_BLOCKS_PARALLEL=1 such grids run", _many_programs(grouped="1")),
    ]  # fmt: skip
    lines = ["| thread | there | here |", "|---|---|---|"]
    lines += [f"| {_link('https://github.com/' + path)} | {seen} | {said} |"
              for path, seen, said in rows]  # fmt: skip
    return "\n".join(lines)


def times() -> str:
    """The table of times in Markdown, and what follows from it."""
    rows = list(measured())
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
    said.append(_medians("all", rows))
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
    sys.stdout.write(f"{times()}\n\n{sizes()}\n\n{answers()}\n")
