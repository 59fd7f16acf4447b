"""A built project's operators as definitions: rules from its OpDef, kernels from its own code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.capi.library import kernel_version
from npusim.capi.projects.host_code import Given, HostCodeError, Tiling, host_code
from npusim.capi.projects.kernels import KernelCall, kernel_of
from npusim.capi.projects.tiling_fields import Field, values_of
from npusim.hardware.families import plural
from npusim.hardware.profile import Profile
from npusim.operators import folders
from npusim.operators.contract import Call, Check
from npusim.operators.definition import Aclnn, Attribute, Operator
from npusim.operators.folders import VARIABLE
from npusim.operators.registry import op_types, prototype
from npusim.reading.files import read_text
from npusim.reading.markup import json_value
from npusim.values.dtypes import UINT8, DType
from npusim.values.errors import FileError, KernelError, RejectedError, UsageError
from npusim.values.status import StatusCode
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.ascendc.task import Task
    from npusim.capi.projects.described import Described
    from npusim.validation.schedules import Pair

TOLD = "project.json"
HOST = "host.so"
BAND_CLASS = "custom"


@dataclass(frozen=True)
class ProjectOperator:
    """An operator of a built project: what it is, and where its libraries lie."""

    folder: Path
    op: Described
    kind: int
    prefix: str = ""
    fields: tuple[Field, ...] = ()

    @property
    def name(self) -> str:
        """What npusim knows it by."""
        return f"{self.prefix}{self.op.name}"

    def definition(self) -> Operator:
        """As the registry takes it: an operator type, and the aclnn interface that is generated.

        Results that a call gives needn't be as the project infers them: the generated interface
        doesn't ask; those that are left out are made with the kernels.
        """
        op = self.op
        tensors = f"{_names(op.inputs)} -> {_names(op.results)}"
        attributes = tuple(_attribute(each) for each in op.attributes)
        return Operator(
            self.name,
            tensors,
            attributes,
            Aclnn(f"aclnn{self.name}", tensors, attributes),
            kernel=self.kernels,
            band_class=BAND_CLASS,
            checks=((self._combined, op.results[0].name), (self._tiles, op.results[0].name)),
            dtypes={family: self._dtypes(family) for family in op.families},
        )

    def _dtypes(self, family: str) -> tuple[DType, ...]:
        return tuple(dict.fromkeys(dtype for of in self.op.combined[family] for dtype in of))

    @cached_property
    def host(self) -> Any:
        """The project's host code."""
        return host_code(self.folder / HOST)

    def kernels(self, task: Task) -> tuple[Any, ...]:
        """The kernel of a task. Raises KernelError where the project's code refuses it."""
        op = self.op
        counts = self._counts(len(task.inputs))
        given = (*task.inputs, *(None,) * sum(counts))[: sum(counts)]
        outputs = task.outputs if op.outputs else ()
        try:
            if len(outputs) < len(op.outputs):
                if not op.infers:
                    raise task.unsaid("its project infers no shapes, and the results aren't given")
                values = [None if each is None else each.array for each in given]
                specs = self._grouped(given, counts)
                made = self.host.infer(op, task.profile, specs, task.attributes, values)
                outputs = tuple(
                    GlobalTensor(GmBuffer(f"y{at}", max(1, spec.nbytes)), spec.dtype, spec.shape)
                    for at, spec in enumerate(made)
                )
            tiling = self.tile(task.profile, given, outputs, task.attributes, counts)
        except HostCodeError as problem:
            raise KernelError(self.name, str(problem)) from None
        results = self._output_counts(len(outputs))
        number = self.combination([*_firsts(given, counts), *_firsts(outputs, results)])
        if number is None:
            raise task.refused("its project has no kernel for these dtypes together")
        call = KernelCall(
            self.name,
            str(self.folder / library_name(op.name, number)),
            self.kind,
            task.profile,
            given,
            outputs,
            () if op.outputs else task.outputs,
            _bytes("workspace", tiling.workspace_bytes),
            _bytes("tiling", len(tiling.data)),
            tiling,
            tuple(
                count if parameter.many else -1
                for parameter, count in zip(
                    (*op.inputs, *op.outputs), (*counts, *results), strict=True
                )
            ),
        )
        return (kernel_of(call),)

    def _counts(self, given: int) -> tuple[int, ...]:
        """How many tensors each input is when a call gives so many; lists are equally long."""
        lists = sum(each.many for each in self.op.inputs)
        if not lists:
            return (1,) * len(self.op.inputs)
        long = max(0, given - sum(not each.many for each in self.op.inputs)) // lists
        return tuple(long if each.many else 1 for each in self.op.inputs)

    def _output_counts(self, given: int) -> tuple[int, ...]:
        """How many tensors each output is, as for inputs."""
        lists = sum(each.many for each in self.op.outputs)
        long = (given - len(self.op.outputs) + lists) // lists if lists else 1
        return tuple(long if each.many else 1 for each in self.op.outputs)

    def _grouped(self, given: Sequence[GlobalTensor | None], counts: Sequence[int]) -> list[Given]:
        """What each input is: a tensor, a list, or nothing."""
        found: list[Given] = []
        at = 0
        for parameter, many in zip(self.op.inputs, counts, strict=True):
            part = [_spec(each) for each in given[at : at + many] if each is not None]
            found.append(tuple(part) if parameter.many else part[0] if part else None)
            at += many
        return found

    def tile(
        self,
        profile: Profile,
        inputs: Sequence[GlobalTensor | None],
        outputs: Sequence[GlobalTensor],
        attributes: Mapping[str, Any],
        counts: Sequence[int],
    ) -> Tiling:
        """What the project's tiling returns; inputs are so many each. Raises HostCodeError."""
        specs = self._grouped(inputs, counts)
        values = [None if each is None else each.array for each in inputs]
        made = [_spec(each) for each in outputs]
        found: Tiling = self.host.tile(self.op, profile, specs, made, attributes, values)
        return found

    def combination(self, dtypes: Sequence[DType | None]) -> int | None:
        """The number of the kernel for these dtypes; one that is left out goes with any."""
        for number, each in enumerate(self.op.combinations):
            if _fits(dtypes, each):
                return number
        return None

    def _combined(self, *_: str) -> Check:
        return Check(
            StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
            "the dtypes belong to one combination of the OpDef",
            self._find_combination,
        )

    def _find_combination(self, call: Call) -> str | None:
        tensors = (*self.op.inputs, *self.op.outputs)
        names = [f"{each.name}{'0' * each.many}" for each in tensors]
        dtypes = [call.spec(name).dtype if call.is_given(name) else None for name in names]
        if call.profile.family not in self.op.families:
            families = ", ".join(map(plural, self.op.families))
            told = f"its project adds it for {families} alone (AddConfig)"
            return f"{told}; npusim op build --add-config tries it on other products"
        own = self.op.combined[call.profile.family]
        if any(_fits(dtypes, each) for each in own):
            return None
        given = ", ".join(str(d) for d in map(_dtype_name, dtypes))
        taken = "; ".join(", ".join(map(_dtype_name, each)) for each in own)
        return f"{', '.join(names)} are {given} and may be {taken}"

    def _tiles(self, *_: str) -> Check:
        return Check(
            StatusCode.ACLNN_ERR_INNER_TILING_ERROR,
            "the project's tiling takes the call",
            self._try_tiling,
        )

    def _try_tiling(self, call: Call) -> str | None:
        if not isinstance(call.profile, Profile):  # all chips of a family are asked for their rules
            return None
        try:
            self.tiling_of(call)
        except HostCodeError as problem:
            return str(problem)
        return None

    def tiling_of(self, call: Call) -> Tiling:
        """What the tiling returns for a call. Raises HostCodeError."""
        op, host = self.op, self.host
        inputs = [_of_call(call, each) for each in op.inputs]
        attributes = {
            name: call.arguments[name]
            for name in (each.name for each in op.attributes)
            if call.is_given(name)
        }
        given = [_of_call(call, each) for each in op.outputs]
        outputs = [one for each in given if each for one in _each(each)]
        profile = cast("Profile", call.profile)
        values = [one for each in op.inputs for one in _data_of(call, each)]
        if not all(given):
            if op.outputs and not op.infers:
                raise HostCodeError(f"{op.name} infers no shapes, and its results aren't given")
            outputs = list(host.infer(op, profile, inputs, attributes, values))
        found: Tiling = host.tile(op, profile, inputs, outputs, attributes, values)
        return found


def project_operator(name: str) -> ProjectOperator:
    """The project's operator of this name. Raises UsageError for one that no project has."""
    found = prototype(name)
    kernels = found[0].kernel if found else None
    owner = getattr(kernels, "__self__", None)
    if not isinstance(owner, ProjectOperator):
        raise UsageError(
            f"no built project has an operator {name}",
            f"Build it with `npusim op build`, and name the folder in {VARIABLE}.",
        )
    return owner


def beside_own(names: Sequence[str] = ()) -> tuple[Pair, ...]:
    """The projects' operators of which npusim has one of its own; of all projects, or by name.

    Raises UsageError where there is none.
    """
    from npusim.validation.schedules import Pair

    own = folders.built_in()
    owners = [project_operator(each) for each in names] or list(project_operators())
    found = []
    for each in owners:
        name = each.op.name
        known = next((word for word in (name, f"aclnn{name}") if own.source(word)), None)
        if known is None:
            continue
        dtypes = (one[: len(each.op.inputs)] for of in each.op.combined.values() for one in of)
        found.append(Pair(known, each.name, tuple(dict.fromkeys(dtypes))))
    if not found:
        raise UsageError(
            "npusim has no operator of its own for any of these projects",
            f"Build operators of a checkout, and name the folder in {VARIABLE}.",
        )
    return tuple(found)


def project_operators() -> Iterator[ProjectOperator]:
    """The operators of all built projects that are known."""
    for name in op_types():
        found = prototype(name)
        owner = getattr(found[0].kernel, "__self__", None) if found else None
        if isinstance(owner, ProjectOperator):
            yield owner


def told_tiling(owner: ProjectOperator, call: Call) -> dict[str, Any]:
    """What the tiling returns for a call, by name. Raises RejectedError where it refuses it."""
    try:
        made = owner.tiling_of(call)
    except HostCodeError as problem:
        raise RejectedError(f"{problem} on {call.profile.name}") from None
    return {
        "op": owner.name,
        "soc": call.profile.name,
        "blocks": made.blocks,
        "tiling_key": made.key,
        "workspace_bytes": made.workspace_bytes,
        "tiling_bytes": len(made.data),
        "data": values_of(owner.fields, made.data),
    }


def operators_of(folder: Path) -> tuple[ProjectOperator, ...]:
    """The operators of a built project. Raises FileError for one that another npusim has built."""
    told: Any = json_value(read_text(folder / TOLD, "Build the project again."), folder / TOLD)
    if told["built_by"] != kernel_version():
        remedy = f"Build it again: npusim op build {told['project']} -o {folder.parent} --force."
        raise FileError(folder, "was built by another version of npusim", remedy)
    ops = host_code(folder / HOST).operators(told["products"])
    fields = {name: tuple(Field(*each) for each in of) for name, of in told["fields"].items()}
    kinds, prefix = told["kinds"], told["prefix"]
    return tuple(
        ProjectOperator(folder, each, kinds[each.name], prefix, fields[each.name]) for each in ops
    )


def definitions_of(file: str) -> tuple[Operator, ...]:
    """The definitions of the built project whose ``definitions.py`` is this file."""
    return tuple(each.definition() for each in operators_of(Path(file).parent))


def library_name(op: str, number: int) -> str:
    """The library of an operator's kernel for one combination of dtypes."""
    return f"{op}_{number}.so"


def _names(tensors: Sequence[Any]) -> str:
    return " ".join(f"{each.name}{'?' * each.optional}{'*' * each.many}" for each in tensors)


def _of_call(call: Call, parameter: Any) -> Given:
    """What a call gives for a parameter."""
    name = parameter.name
    if not parameter.many:
        return call.spec(name) if call.is_given(name) else None
    given = (f"{name}{place}" for place in count())
    return tuple(call.spec(one) for one in takewhile(call.is_given, given))


def _data_of(call: Call, parameter: Any) -> list[Any]:
    """The values of a parameter's tensors, as far as the call has any."""
    found = _each(_of_call(call, parameter))
    if not parameter.many:
        return [call.tensor(parameter.name).data if found else None]
    return [call.tensor(f"{parameter.name}{place}").data for place in range(len(found))]


def _each(given: Given) -> tuple[TensorSpec, ...]:
    return given if isinstance(given, tuple) else (given,) if given else ()


def _firsts(given: Sequence[GlobalTensor | None], counts: Sequence[int]) -> list[DType | None]:
    """The dtypes of the first tensor of each parameter."""
    starts = accumulate(counts, initial=0)
    return [
        _dtype(given[start]) if many and start < len(given) else None
        for start, many in zip(starts, counts, strict=False)
    ]


def _fits(dtypes: Sequence[DType | None], combination: Sequence[DType]) -> bool:
    """Whether dtypes are those of a combination; one that is left out goes with any."""
    return all(given is None or given is d for given, d in zip(dtypes, combination, strict=True))


def _attribute(parameter: Any) -> Attribute:
    return Attribute(parameter.name, parameter.kind, not parameter.required, parameter.name)


def _spec(tensor: GlobalTensor) -> TensorSpec:
    return TensorSpec(tensor.shape, tensor.dtype)


def _dtype(tensor: GlobalTensor | None) -> DType | None:
    return None if tensor is None else tensor.dtype


def _dtype_name(dtype: DType | None) -> str:
    return "absent" if dtype is None else dtype.name


def _bytes(name: str, nbytes: int) -> GlobalTensor:
    return GlobalTensor(GmBuffer(name, max(1, nbytes)), UINT8, (max(1, nbytes),))
