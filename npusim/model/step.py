"""A model step: operators in the order in which they run, each with its tensors and its count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from npusim.catalogue import facts
from npusim.operators.oracle import contract_of
from npusim.operators.tasks import TaskSpec
from npusim.values.dtypes import BFLOAT16, FLOAT16
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.model.profiled import Profiled
    from npusim.operators.contract import Contract

AI_CPU = "AI CPU"
COMMUNICATION = "communication"
CUSTOM = "custom operator"
"""Of a domain of the user's, who says how long it takes."""


@dataclass(frozen=True)
class AclnnWork:
    """An aclnn call: the operator's full name and its arguments, tensors as TensorSpec."""

    op: str
    arguments: Mapping[str, object]
    assume: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def contract(self) -> Contract | None:
        """What the call is planned by; None for an operator that only the catalogue knows."""
        return contract_of(self.op, self.arguments)

    def in_fp16(self) -> AclnnWork:
        """The same call with FLOAT16 in the place of BFLOAT16."""
        arguments = {
            name: _half(value) if isinstance(value, TensorSpec) else value
            for name, value in self.arguments.items()
        }
        return replace(self, arguments=arguments)


Work = AclnnWork | TaskSpec


@dataclass(frozen=True, eq=False)
class Operation:
    """What operators of a step have in common that differ in their times and counts only.

    `work` is None where the file doesn't say enough to do anything but keep its time; `problem`
    says why. `engine` is set for what isn't an AI Core's work.  `weights` are the tensors among the
    inputs that stay on the device; every repetition has its own.  `reads` and `writes` name the
    tensors, where the file says which is which, and `pieces` says which of the written ones are
    pieces of a tensor of that name.  `others` is the work with other attributes that the file
    allows, `assumption` what was taken for what it doesn't say.
    """

    op: str
    work: Work | None
    engine: str = ""
    problem: str = ""
    weights: tuple[TensorSpec, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    pieces: tuple[bool, ...] = ()
    others: tuple[TaskSpec, ...] = ()
    assumption: str = ""

    @cached_property
    def signature(self) -> str:
        """What two of them must share to be the same question: operator, tensors, attributes."""
        return f"{self.op}|{self.engine}|{self.work!r}"

    @cached_property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that go in, as far as the file tells."""
        if isinstance(self.work, TaskSpec):
            return tuple(spec for spec in self.work.inputs if spec is not None)
        return tuple(spec for io, spec in self._tensors() if io == "in")

    @cached_property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that come out, as far as the file tells."""
        if isinstance(self.work, TaskSpec):
            return self.work.outputs
        return tuple(spec for io, spec in self._tensors() if io == "out")

    @cached_property
    def read_tensors(self) -> tuple[tuple[int, str | None], ...]:
        """Bytes of each input, and what tells tensors apart; None for one from outside the step."""
        if self.reads:
            pairs = zip(self.inputs, self.reads, strict=True)
            return tuple((spec.nbytes, name) for spec, name in pairs)
        weights, found = list(self.weights), list[tuple[int, str | None]]()
        for spec in self.inputs:
            if spec in weights:
                weights.remove(spec)
                found.append((spec.nbytes, None))
            else:
                found.append((spec.nbytes, _told_apart_by(spec)))
        return tuple(found)

    @cached_property
    def written_tensors(self) -> tuple[tuple[int, str], ...]:
        """Bytes of each output, and what tells tensors apart."""
        written = (*self.outputs, *(spec for _, spec in self._tensors("Ref")))
        if self.writes:
            pairs = zip(written, self.writes, strict=True)
            return tuple((spec.nbytes, name) for spec, name in pairs)
        return tuple((spec.nbytes, _told_apart_by(spec)) for spec in written)

    @cached_property
    def tensors(self) -> str:
        """Its tensors in one line: ``fp16[8,64] fp16[64] -> fp16[8,64]``, numbers of a call too."""
        sides = [
            " ".join(
                f"{spec.dtype.name.lower()}[{','.join(map(str, spec.shape))}]" for spec in specs
            )
            for specs in (self.inputs, self.outputs)
        ]
        given = " -> ".join(side for side in sides if side)
        if isinstance(self.work, AclnnWork):
            numbers = [f"{name}={value}" for name, value in self.work.arguments.items()
                       if isinstance(value, int | float)]  # fmt: skip
            return " ".join((given, *numbers))
        return given

    @property
    def uses_bf16(self) -> bool:
        """Whether some tensor is BFLOAT16."""
        return any(spec.dtype is BFLOAT16 for spec in (*self.inputs, *self.outputs))

    @cached_property
    def weights_bytes(self) -> int:
        """Bytes of its weights, for each repetition."""
        return sum(spec.nbytes for spec in self.weights)

    @cached_property
    def bytes_beside_weights(self) -> int:
        """Bytes of all its tensors but the weights."""
        tensors = sum(spec.nbytes for spec in (*self.inputs, *self.outputs))
        return tensors - self.weights_bytes

    @cached_property
    def sides(self) -> dict[str, str]:
        """The tensors of a call by name, and whether they go in or come out."""
        if not isinstance(self.work, AclnnWork):
            return {}
        contract = self.work.contract
        kinds = (
            {each.name: each.io for each in contract.parameters}
            if contract
            else _catalogued(self.work.op)
        )
        return {
            name: kinds.get(name, "in")
            for name, value in self.work.arguments.items()
            if isinstance(value, TensorSpec)
        }

    def _tensors(self, ending: str = "") -> Iterator[tuple[str, TensorSpec]]:
        """Tensors of a call and whether they go in or come out; `selfRef` goes in and changes."""
        if isinstance(self.work, AclnnWork):
            for name, io in self.sides.items():
                spec = self.work.arguments[name]
                if isinstance(spec, TensorSpec) and name.endswith(ending):
                    yield io, spec


@dataclass(frozen=True, slots=True)
class Item:
    """One operator of a step, `count` times in a row.

    `measured_us` is the time of one of them on the chip that the file comes from. Tables of a
    million rows have a few different operations, which rows share. `layers` are the names of the
    nodes of a network that it does the work of.
    """

    operation: Operation
    count: int = 1
    measured_us: float | None = None
    layers: tuple[str, ...] = ()

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.operation.op

    @property
    def work(self) -> Work | None:
        """What is to be done, as far as the file tells."""
        return self.operation.work

    @property
    def engine(self) -> str:
        """What does it, where that isn't an AI Core."""
        return self.operation.engine

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that go in, as far as the file tells."""
        return self.operation.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that come out, as far as the file tells."""
        return self.operation.outputs


@dataclass(frozen=True)
class Step:
    """One step of a model.

    `kind` is ``calls`` for a list that somebody wrote, ``profile`` for a profiler's file, and
    ``graph`` for a network that was compiled for the chip; its tensors are told apart.
    `batch` is the value of the batch variable, None where the file has none. Bytes are what the
    file states, None where it doesn't; `alive_bytes` are the activations in memory while each item
    runs, empty where the file doesn't tell. `call_us` is what the call of an offline model costs
    beside its tasks, whose kernels are compiled for `one_shape`. `profiled` is where a profile's
    kernels come from.
    """

    name: str
    kind: str
    items: tuple[Item, ...]
    batch: int | None = None
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    host_dispatch_us: float | None = None
    notes: tuple[str, ...] = ()
    alive_bytes: tuple[int, ...] = ()
    call_us: float = 0.0
    one_shape: bool = False
    assumptions: tuple[str, ...] = ()
    profiled: Profiled | None = None

    @property
    def launches(self) -> int:
        """Operators in the step, repetitions counted."""
        return sum(item.count for item in self.items)

    @property
    def measured_us(self) -> float | None:
        """The measured time of the whole step, None where an operator has none."""
        times = [item.measured_us for item in self.items]
        if not times or any(time is None for time in times):
            return None
        return sum(
            item.measured_us * item.count for item in self.items if item.measured_us is not None
        )


def _told_apart_by(spec: TensorSpec) -> str:
    return f"{spec.shape} {spec.dtype} {spec.format}"


def _catalogued(op: str) -> dict[str, str]:
    """The directions of an API's parameters by its header; none where it has no header."""
    known = facts.catalogue()
    api = known.api_named(op.lower())
    return {name: io for name, io, _ in known.prototype_of(api)} if api else {}


def in_fp16(work: Work) -> Work:
    """The same work with FLOAT16 in the place of BFLOAT16."""
    return work.in_fp16() if isinstance(work, AclnnWork) else task_in_fp16(work)


def task_in_fp16(work: TaskSpec) -> TaskSpec:
    """The same task with FLOAT16 in the place of BFLOAT16."""
    inputs = tuple(None if spec is None else _half(spec) for spec in work.inputs)
    return replace(work, inputs=inputs, outputs=tuple(map(_half, work.outputs)))


def _half(spec: TensorSpec) -> TensorSpec:
    if spec.dtype is not BFLOAT16:
        return spec
    return TensorSpec(spec.shape, FLOAT16, spec.format, spec.strides, spec.offset)
