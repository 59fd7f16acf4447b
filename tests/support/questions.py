"""Random questions: any name of the catalogue or with a kernel, a chip, tensors and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from npusim.catalogue import facts
from npusim.hardware.loading import profile_names
from npusim.operators.registry import aliases, operators, prototype, standard_names
from npusim.operators.resolve import resolve
from npusim.values.spelling import tensor_text
from npusim.values.tensors import TensorSpec
from support.standard_calls import CALLS

CATALOGUE = facts.catalogue()
CHIPS = tuple(profile_names())
KINDS = ("FLOAT16", "FLOAT", "BFLOAT16", "INT32", "INT64", "BOOL", "INT8", "DOUBLE", "COMPLEX64")
SHAPES = ((4, 64), (64,), (3, 7), (2, 3, 8, 16), (1,), (), (5, 0))
SIMULATED = tuple(sorted({*standard_names(), *operators(), *aliases()}))
CATALOGUED = tuple(sorted({*CATALOGUE.apis, *CATALOGUE.op_types}))

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.sampled_from([0, 1, -1, 2, 64]),
    "double": st.sampled_from([1.0, 0.5, 1e-5]),
    "float": st.sampled_from([1.0, 0.5]),
    "bool": st.booleans(),
    "int_array": st.sampled_from([[0], [1], [-1], [0, 1], [64], [4, 64], []]),
    "bool_array": st.just([True] * 3),
    "float_array": st.sampled_from([[1.0], [0.5, 2.0], []]),
    "scalar": st.sampled_from([1, 0, -2, 0.5, True]),
    "text": st.sampled_from(["FLOAT16", "none", "tanh", "0"]),
}


class Question(NamedTuple):
    """A call on a chip; tensors are TensorSpecs, null pointers None."""

    chip: str
    op: str
    arguments: Mapping[str, Any]

    @property
    def texts(self) -> dict[str, str]:
        """The arguments as the command line has them."""
        return {name: text_of(value) for name, value in self.arguments.items()}

    @property
    def has_tensors(self) -> bool:
        """Whether any argument is a tensor or a null pointer."""
        return any(value is None or isinstance(value, TensorSpec)
                   for value in self.arguments.values())  # fmt: skip


def text_of(value: Any) -> str:
    """A value in the spelling of the command line."""
    if isinstance(value, TensorSpec):
        return tensor_text(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(text_of, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


@st.composite
def sensible(draw: st.DrawFn) -> Question:
    """A call that runs somewhere, with its floating tensors in another dtype."""
    name, arguments, _ = draw(st.sampled_from(CALLS))
    kind = draw(st.sampled_from(KINDS))
    recast = {
        each: _in(kind, value) if isinstance(value, np.ndarray) else value
        for each, value in arguments.items()
    }
    return Question(draw(st.sampled_from(CHIPS)), name, recast)


def _in(kind: str, array: np.ndarray[Any, Any]) -> TensorSpec:
    spec = TensorSpec.of(array).contiguous()
    return TensorSpec(spec.shape, kind) if spec.dtype.is_float else spec


def _tensors(draw: st.DrawFn) -> st.SearchStrategy[Any]:
    """Mostly one dtype and shape, now and then another, or a null pointer."""
    tensors = st.builds(TensorSpec, st.sampled_from(SHAPES), st.sampled_from(KINDS))
    usual = draw(tensors)
    return st.sampled_from([*[usual] * 8, draw(tensors), None])


@st.composite
def wild(draw: st.DrawFn) -> Question:
    """Any name with a kernel, on tensors and attributes that need make no sense together."""
    chip, name, tensor = draw(st.sampled_from(CHIPS)), draw(st.sampled_from(SIMULATED)), None
    tensor = _tensors(draw)
    known = prototype(name)
    if known is not None and not known[1].is_known:
        return Question(
            chip, name, {f"x{at}": draw(tensor) for at in range(draw(st.integers(1, 4)))}
        )
    return Question(
        chip,
        name,
        {
            each.name: draw(tensor if each.kind == "tensor" else VALUES[each.kind])
            for each in resolve(name, {}).parameters
            if not (each.optional or each.io == "out") or draw(st.booleans())
        },
    )


@st.composite
def catalogued(draw: st.DrawFn) -> Question:
    """Any name of the catalogue, asked by the tensors of its page."""
    chip, name = draw(st.sampled_from(CHIPS)), draw(st.sampled_from(CATALOGUED))
    tensor = _tensors(draw)
    prototype_ = CATALOGUE.prototype_of(name) if name.startswith("aclnn") else ()
    tensors = [each for each, _, kind in prototype_ if "aclTensor" in kind]
    kept = [each for each in tensors if draw(st.integers(0, 4))]
    return Question(chip, name, {each: draw(tensor) for each in kept or tensors[:1] or ["x"]})


def questions() -> st.SearchStrategy[Question]:
    """All of them."""
    return st.one_of(sensible(), wild(), catalogued()).filter(lambda each: each.has_tensors)
