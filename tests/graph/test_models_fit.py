"""Every task of torchvision's models fits into every chip's buffers, or is cut until it does."""

from __future__ import annotations

import csv
import gzip
import json
import os
from functools import cache
from itertools import groupby

import numpy as np
import pytest

from npusim.ascendc.tracing import trace
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.values.errors import KernelError
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec, parse_tensor
from support.paths import DATA

TABLE = DATA / "torchvision_tasks.csv.gz"
FAMILIES = {
    "Ascend910A": "910", "Ascend310P3": "310P", "Ascend910B1": "A2", "Ascend910B2": "A2",
    "Ascend910B3": "A2", "Ascend910B4": "A2", "Ascend910_9391": "A2",
}  # fmt: skip
ON_CI = "Ascend310P3"


@cache
def tasks(family: str) -> tuple[TaskSpec, ...]:
    """Those of a family, by operator and then by size."""

    def specs(text: str) -> tuple[TensorSpec | None, ...]:
        return tuple(None if each == "-" else parse_tensor(each) for each in text.split())

    found = []
    with gzip.open(TABLE, "rt", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            if family in row["families"].split():
                said = json.loads(row["attributes"])
                if "parts" in said:
                    said["parts"] = tuple(map(tuple, said["parts"]))
                outputs = tuple(each for each in specs(row["outputs"]) if each is not None)
                found.append(TaskSpec(row["op_type"], specs(row["inputs"]), outputs, said))
    return tuple(sorted(found, key=lambda task: (task.op_type, _size(task))))


def _size(task: TaskSpec) -> int:
    return sum(spec.numel for spec in (*task.inputs, *task.outputs) if spec is not None)


def fits(chip: str, task: TaskSpec) -> None:
    """Plan and trace; what isn't modelled is refused when it is planned, and no matter of room."""
    profile = load_profile(chip)
    try:
        kernels = kernels_of(profile, task)
    except KernelError:
        return
    for kernel in kernels:
        trace(kernel, profile, numerics=False)


@pytest.mark.parametrize("chip", FAMILIES)
def test_the_largest_tasks_of_models_fit(chip: str) -> None:
    """Of each operator the largest, and one from the middle."""
    for _, group in groupby(tasks(FAMILIES[chip]), key=lambda task: task.op_type):
        alike = list(group)
        for each in {id(task): task for task in (alike[-1], alike[len(alike) // 2])}.values():
            fits(chip, each)


@pytest.mark.slow
@pytest.mark.parametrize("chip", FAMILIES)
def test_all_tasks_of_models_fit(chip: str) -> None:
    if os.environ.get("CI") and chip != ON_CI:
        pytest.skip("one chip has to do where there are other things to do as well")
    for each in tasks(FAMILIES[chip]):
        fits(chip, each)


@pytest.mark.parametrize("chip", FAMILIES)
@pytest.mark.parametrize("op_type", ["ReduceMeanD", "ReduceSumD", "ReduceMaxD", "ReduceProdD"])
def test_reductions_of_any_size_fit(chip: str, op_type: str) -> None:
    """Planes around what half of UB holds, of rows that fill blocks and of rows that don't."""
    rng = np.random.default_rng(5)
    kind = parse_tensor("fp16[1]").dtype
    for side in (38, 39, 40, 41, 45, 55, 56, 57, 113):
        blocked = (1, int(rng.integers(1, 9)), side, side, 16)
        _reduced(chip, op_type, TensorSpec(blocked, kind, Format.NC1HWC0), [2, 3])
    for _ in range(6):
        shape = tuple(int(2 ** rng.uniform(0, 11)) for _ in range(int(rng.integers(1, 4))))
        axes = sorted({int(axis) for axis in rng.integers(0, len(shape), 2)})
        _reduced(chip, op_type, TensorSpec(shape, kind), axes)


def _reduced(chip: str, op_type: str, x: TensorSpec, axes: list[int]) -> None:
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    out = TensorSpec(shape, x.dtype, x.format)
    fits(chip, TaskSpec(op_type, (x,), (out,), {"axes": axes, "keep_dims": True}))
