"""aclnn interfaces on the inputs that PyTorch tests its own operators with (OpInfo), against it.

An interface is compared with the operator of its name: positional arguments stand in the order of
the header, others go by their name. The suite takes an input of every other one;
NPUSIM_OPINFO=1 takes all of all.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest

from npusim import Device
from npusim.operators.registry import prototype
from npusim.values.errors import ArgumentError
from support.references import running
from support.references.calls import CLOSE, Called, compare, spelled
from support.references.row import Row, names_of, outputs_of, torch

ALL = "NPUSIM_OPINFO" in os.environ
FEW = 1  # inputs of every other operator in the suite
LEAST = 60  # interfaces that can be compared by them
MOST_ELEMENTS = 20_000
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
WORDS: Mapping[str, Mapping[str, int]] = {
    "aclnnScatterReduce": {"sum": 1, "prod": 2, "amax": 3, "amin": 4, "mean": 5},
    "aclnnGeluV2": {"none": 0, "tanh": 1},
}
"""The numbers of words, where an interface has its own."""

LEFT_OUT: Mapping[str, Any] = {
    "alpha": 1, "beta": 1, "cubemathtype": 0, "keepdim": False, "value": 1, "reduction": 1,
    "diagonal": 0, "approximate": 0, "stable": False, "descending": False, "aligncorners": False,
}  # fmt: skip
"""What a call of PyTorch leaves out, by the parameter's name in small letters."""

OWN: Mapping[str, Mapping[str, Any]] = {
    "aclnnConstantPadNd": {"value": 0},
    "aclnnHardtanh": {"clipValueMin": -1.0, "clipValueMax": 1.0},
}
"""The same of one interface."""

APART = {
    *("aclnnBernoulli", "aclnnDropout", "aclnnMultinomial"),  # draw numbers
    *("aclnnMaskedSelect", "aclnnUniqueConsecutive"),  # have room for more than comes out
    "aclnnSum",  # adds tensors
    "aclnnTake",  # no places from behind, says its page
}
"""What isn't compared, and why."""

LOOSE = {"aclnnTan": 40}
"""Of float32 near a pole."""


def plain(name: str) -> str:
    """A name in small letters alone: those of PyTorch and of aclnn spell it apart."""
    return name.replace("_", "").lower().removesuffix("optional")


def pairs() -> dict[str, tuple[str, Any]]:
    """Interfaces with the operators of their name."""
    from torch.testing._internal.common_methods_invocations import op_db

    apis = {plain(api.removeprefix("aclnn")): api for api in running("A2")}
    found = {}
    for op in op_db:
        place, _, name = op.name.rpartition(".")
        api = apis.get(plain(name))
        if api and place in ("", "nn.functional") and api not in APART:
            found[f"{api}: {op.name} {op.variant_test_name}"] = api, op
    return found


def samples(op: Any) -> Iterator[Any]:
    """The inputs that PyTorch tests an operator with, in float32 where it takes that."""
    kinds = op.supported_dtypes("cpu")
    kind = next((each for each in (torch.float32, torch.int64, torch.bool) if each in kinds), None)
    if kind is not None:
        torch.manual_seed(0)
        yield from op.sample_inputs("cpu", kind)


def plainly(value: Any, words: Mapping[str, int] = REDUCTIONS) -> Any:
    """A value of PyTorch as a caller of npusim gives it."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy()
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, list | tuple):
        return [plainly(each, words) for each in value]
    return words.get(value, value) if isinstance(value, str) else value


def bound(api: str, sample: Any) -> dict[str, Any] | None:
    """The arguments of an interface; None where PyTorch says what it has no parameter for."""
    outputs = set(outputs_of(api))
    names = [name for name in names_of(api) if name not in outputs or name.endswith("Ref")]
    words = WORDS.get(api, REDUCTIONS)
    given = [plainly(each, words) for each in (sample.input, *sample.args)]
    if len(given) > len(names):
        return None
    found = dict(zip(names, given, strict=False))
    if not isinstance(found.get("dtype", ""), str):
        return None
    known = {plain(name): name for name in names}
    for name, value in sample.kwargs.items():
        own = known.get(plain(name))
        if own is None or own in found:
            return None
        found[own] = plainly(value, words)
    found = {**OWN.get(api, {}), **found}
    for name in names:
        if name not in found and plain(name) in LEFT_OUT:
            found[name] = LEFT_OUT[plain(name)]
    kinds = (
        {each.name: each.kind for each in prototype(api)[1].attributes} if prototype(api) else {}
    )
    for name, value in found.items():
        if kinds.get(name) == "ints" and isinstance(value, int):
            found[name] = [value]
    return {name: value for name, value in found.items() if value is not None}


def exactly(value: Any) -> Any:
    """A tensor of floating numbers in float64; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.detach().double() if value.is_floating_point() else value.detach()
    return type(value)(map(exactly, value)) if isinstance(value, list | tuple) else value


def outcome(api: str, op: Any, sample: Any, device: Device) -> str:
    """Empty where a call does what PyTorch does, else why it couldn't be compared."""
    arguments = bound(api, sample)
    if arguments is None:
        return "other parameters"
    tensors = [each for _, each in spelled(arguments) if isinstance(each, np.ndarray)]
    if not tensors or sum(each.size for each in tensors) > MOST_ELEMENTS:
        return "no tensor, or a large one"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = {name: exactly(each) for name, each in sample.kwargs.items()}
        wanted = op(exactly(sample.input), *map(exactly, sample.args), **words)
    several = wanted if isinstance(wanted, tuple | list) else (wanted,)
    if not all(isinstance(each, torch.Tensor) for each in several):
        return "no tensor comes out"
    named = zip(outputs_of(api), (each.resolve_conj().numpy() for each in several), strict=False)
    row = Row(api, lambda _: {}, lambda: None, loose=LOOSE.get(api, 8), natural=False)
    given = dict(spelled(arguments))
    try:
        return compare(Called(row, "A2", given, dict(named), CLOSE["FLOAT"] * row.loose), device)
    except ArgumentError as error:
        return f"{error}"


def test_numbers_are_those_of_pytorch() -> None:
    """All in one: PyTorch's operators take seconds to import."""
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    device, compared, wrong = Device("Ascend910B3"), set(), {}
    for name, (api, op) in islice(pairs().items(), None, None, 1 if ALL else 2):
        for sample in islice(samples(op), None if ALL else FEW):
            try:
                if not outcome(api, op, sample, device):
                    compared.add(api)
            except AssertionError as error:
                wrong[name] = str(error)
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())
    assert len(compared) > LEAST, sorted(compared)
