"""The contract of a call of a standard operator: parameters, checks and plan from its definition.

Outputs that are left out follow from the definition's rule or from the kernel, as far as shapes and
attributes tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
from npusim.ascendc.task import Task
from npusim.hardware.families import FAMILIES
from npusim.operators.call_parameters import CallParameters
from npusim.operators.checks import any_empty, dtype_supported, format_is, not_null, rank_at_most
from npusim.operators.contract import Call, Check, Contract, TensorArg
from npusim.operators.dtype_checks import storable
from npusim.operators.host import Host, results_of
from npusim.operators.on_ai_cpu import tasks_of
from npusim.operators.registry import host_function
from npusim.operators.shape_checks import as_inferred
from npusim.operators.stand_ins import emptied, standing_in, with_elements
from npusim.operators.task_chain import Chain
from npusim.values.dtypes import FLOAT
from npusim.values.errors import ArgumentError, KernelError
from npusim.values.formats import Format
from npusim.values.spelling import guessed
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.operators.definition import Aclnn

_WHOLE = ("bool", "int", "uint")
_PAGES = "Dtypes and shapes are checked, further rules of the operator's page aren't."


@dataclass(frozen=True)
class StandardCall(CallParameters):
    """What a call of an operator is checked for, what it results in, and what it queues."""

    interface: Aclnn | None = None

    def made(self) -> Contract:
        """The contract."""
        family = self.operator.band_class.replace("_", " ")
        rules = self.interface.rules if self.interface else ""
        note = self.interface.note if self.interface else ""
        timed = self.operator.has_kernels
        return Contract(
            name=self.name,
            summary=self._summary(family),
            parameters=tuple(self.parameters()),
            products=tuple(self.operator.dtypes or FAMILIES),
            checks=tuple(self._checks()),
            infer_outputs=self.infer_outputs if timed else lambda _: {},
            is_empty=self._is_empty,
            plan=self.plan,
            notes=tuple(filter(None, (note, "" if rules else _PAGES))),
            source="operator prototypes; public kernels",
            rules_source=rules,
            has_kernels=timed,
        )

    def _summary(self, family: str) -> str:
        if not self.operator.has_kernels:
            return "The rules of its page; its kernels aren't modelled."
        if not self.operator.has_type:
            return f"A sequence of standard operators ({family})."
        return f"Standard operator, kernel {self.operator.name} ({family})."

    @cached_property
    def _host(self) -> Callable[..., Any] | None:
        """The function of an interface that queues more than its operator."""
        if self.interface and self.interface.host:
            return host_function(self.operator.package, self.interface.host)
        known = self.interface
        return self._promoted if known and (known.promoted or known.floating) else None

    def _promoted(self, host: Host, *given: GlobalTensor | None, **attributes: Any) -> Any:
        """The operator on tensors and scalars in the dtype that they have together."""
        tensors: Iterator[Any] = iter(given)
        operands: list[Any] = []
        for slot in self.operator.inputs:
            value = attributes.pop(slot.name) if slot.name in attributes else next(tensors, None)
            listed = cast("list[Any]", value if slot.many else [value])
            operands += [each for each in listed if not slot.many or each.numel] or listed
        wanted = host.joint_dtype(*operands)
        if self.interface and self.interface.floating and wanted.category in _WHOLE:
            wanted = FLOAT
        return host.together(self.operator.name, *operands, dtype=wanted, **attributes)

    def _checks(self) -> Iterator[Check]:
        tensors = list(dict.fromkeys([name for name, _ in self.inputs] + [*self.outputs]))
        if required := self.required():
            yield not_null(*required)
        if self.operator.dtypes:
            yield dtype_supported(*tensors)
        yield rank_at_most(self.operator.most_axes, *tensors)
        if blocked := [name for name, slot in self.inputs if slot.blocked]:
            yield format_is(Format.FRACTAL_NZ, *blocked)
        known = self.interface
        if known and (known.promoted or known.floating):
            inputs = [name for name, _ in self.inputs]
            results = () if self.operator.answers else self.outputs
            numbers = self._numbers() if results else ()
            yield storable(inputs, results, numbers, floating=known.floating)
        spellings = self.spellings()
        own = self.interface.checks if self.interface else ()
        for build, *words in (*(self.operator.checks or ()), *own):
            if isinstance(words[0], str) and not spellings.get(words[0]):
                continue  # of a module's operators not all have it
            options = words.pop() if isinstance(words[-1], dict) else {}
            options = {
                key: tuple(_spelled(said, spellings)) if isinstance(said, tuple) else said
                for key, said in options.items()
            }
            yield build(*_spelled(words, spellings), **options)
        if self.operator.infer:
            yield as_inferred(self.outputs, self._told)

    def _numbers(self) -> list[str]:
        """The scalars that stand for tensors of the kernel, and count where dtypes combine."""
        scalars = self.scalar_slots()
        return [each.name for each in self.attributes if each.target in scalars]

    def _is_empty(self, call: Call) -> bool:
        """Whether nothing comes out; a call that only changes inputs has none to change or add."""
        fresh = self.fresh
        if not fresh:
            own = dict(self.inputs)
            singles = [name for name, slot in own.items() if not slot.many]
            lists = [call.spec(name) for name, s in own.items() if s.many and call.is_given(name)]
            return any_empty(call, *singles) or (bool(lists) and all(e.is_empty for e in lists))
        return all(spec.is_empty for _, spec in call.given(*fresh))

    def _told(self, call: Call) -> dict[str, TensorSpec]:
        """The outputs that the definition's rule describes, those that are given too."""
        specs = [call.spec(name) for name in dict(self.inputs) if call.is_given(name)]
        needs_none = bool(self.input_slots) and all(slot.optional for slot in self.input_slots)
        if not self.operator.infer or not (specs or needs_none):
            return {}
        try:
            attributes = dict(self._attributes(call))
        except KernelError:  # planning says so, which comes later
            return {}
        found = zip(self.fresh, self.operator.infer(specs, attributes), strict=False)
        return {name: spec for name, spec in found if spec is not None}

    def infer_outputs(self, call: Call) -> dict[str, TensorSpec]:
        """What the kernels make, for outputs that the call leaves out."""
        fresh = self.fresh
        if all(name in call.arguments for name in fresh):
            return {}
        told = self._told(call)
        if told or self._host is None:
            return told or dict(zip(fresh, self._made(call), strict=False))
        found = zip(self.outputs, self._composed(call), strict=False)
        return {name: each for name, each in found if each is not None and name in fresh}

    def _composed(self, call: Call) -> list[TensorSpec | None]:
        """The results of the interface's function, None where it has none."""
        standing = standing_in(spec.shape for _, spec in call.given(*dict(self.inputs)))
        filled = {
            name: TensorArg(with_elements(each.spec, standing))
            if standing and isinstance(each, TensorArg)
            else each
            for name, each in call.arguments.items()
        }
        call = Call(call.contract, call.profile, filled)
        results = self._called(call, Chain(call, cast("Profile", call.profile)))[1]
        return [
            None
            if each is None
            else TensorSpec(emptied(each.shape, standing), each.dtype, each.format)
            for each in results
        ]

    def _called(self, call: Call, chain: Chain) -> tuple[Host, tuple[GlobalTensor | None, ...]]:
        """The interface's function on a chain: the host, and the results in their order."""
        host, function = Host(chain, self.outputs), cast("Callable[..., Any]", self._host)
        given = [
            [chain.input(name) for name in self.names(slot) if call.is_given(name)]
            if slot.many
            else (chain.input(slot.name) if call.is_given(slot.name) else None)
            for slot in self.input_slots
        ]
        found = function(host, *given, **dict(self._attributes(call)))
        return host, tuple(found) if isinstance(found, tuple | list) else (found,)

    def _made(self, call: Call) -> list[TensorSpec]:
        """The results that the kernels make for themselves.

        An axis without elements is given a size that no other has, to be found again.
        """
        specs = {name: call.spec(name) for name, _ in self.inputs if call.is_given(name)}
        standing = standing_in(spec.shape for spec in specs.values())
        filled = {name: with_elements(spec, standing) for name, spec in specs.items()}
        tensors = self._tensors(call, lambda name: _described(name, filled[name]))
        try:
            kernels = self._kernels(call, tensors, ())
        except KernelError as error:
            if not self._is_cured_by_outputs(call, tensors):
                raise
            remedy = f"Say what comes out: {self.outputs[0]}=DTYPE[SIZES]."
            raise ArgumentError(error.message, remedy) from error
        made = results_of(kernels[-1], tensors)
        return [TensorSpec(emptied(each.shape, standing), each.dtype) for each in made]

    def _is_cured_by_outputs(self, call: Call, tensors: tuple[GlobalTensor | None, ...]) -> bool:
        """Whether the kernels take these inputs with results like one of them."""
        for like in (tensor for tensor in tensors if tensor is not None):
            spec = TensorSpec(like.shape, like.dtype)
            try:
                self._kernels(call, tensors, tuple(_described(name, spec) for name in self.outputs))
            except KernelError:
                continue
            return True
        return False

    def plan(self, call: Call, chain: Chain) -> None:
        """Queue the kernels, and MemSet in front of those that add to what they find."""
        if self._host is not None:
            host, values = self._called(call, chain)
            for name, value in zip(self.outputs, values, strict=False):
                if call.is_given(name) and value is not None:
                    host.finish(name, value)
            return
        tensors = self._tensors(call, chain.input)
        names, order = [name for name, _ in self.inputs], self.order
        changed = {name: tensors[order.index(name)] for name in self.outputs if name in names}
        spare = self._spare(call)
        results = {
            name: changed[name] if name in changed else spare.get(name) or chain.output(name)
            for name in self.outputs
            if name in changed or name in spare or call.is_given(name)
        }
        inputs = self._with_elements(zip(order, tensors, strict=True))
        lasting = self._lasting(call)
        for name in self._of_nothing(lasting, results):
            del results[name]
            chain.launch("MemSet", chain.output(name))
            chain.finish(name, chain.output(name))
        outputs = tuple(each for each in self._with_elements(results.items()) if each is not None)
        if any(tensor is not None and not tensor.numel for tensor in inputs):
            problem = "results of tensors without elements aren't modelled"
            raise KernelError(self.operator.name, problem)
        for kernel in self._kernels(call, inputs, outputs, lasting):
            chain.adopt(kernel)
            for cleared in kernel.adds_into:
                chain.launch("MemSet", cleared)
            chain.queue(kernel)
        for name, tensor in results.items():
            if tensor is not None and name not in spare:
                chain.finish(name, tensor)

    def _spare(self, call: Call) -> dict[str, GlobalTensor]:
        """Memory for results that the kernel makes and the caller has a null pointer for."""
        unwanted = [name for name in self.outputs if call.is_null(name)]
        if not unwanted:
            return {}
        told = {name: each for name, each in call.arguments.items() if each is not None}
        given = {**dict.fromkeys(dict(self.inputs)), **told}
        specs = self.infer_outputs(Call(call.contract, call.profile, given))
        return {name: _described(name, specs[name]) for name in unwanted if name in specs}

    def _with_elements(
        self, tensors: Iterable[tuple[str, GlobalTensor | None]]
    ) -> tuple[GlobalTensor | None, ...]:
        """The tensors without those of lists that have no elements: nobody works on them."""
        slots = (slot for slot in (*self.input_slots, *self.output_slots) if slot.many)
        lists = {name for slot in slots for name in self.names(slot)}
        return tuple(
            tensor
            for name, tensor in tensors
            if name not in lists or tensor is None or tensor.numel
        )

    def _of_nothing(
        self, lasting: tuple[int, ...] | None, results: Mapping[str, GlobalTensor | None]
    ) -> list[str]:
        """Results with elements of tensors of a list that have none."""
        slots = [slot for slot in self.output_slots if slot.many and slot not in self.input_slots]
        if lasting is None or not slots:
            return []
        names = enumerate(self.names(slots[0]))
        lost = (name for place, name in names if place not in lasting)
        return [name for name in lost if (each := results.get(name)) is not None and each.numel]

    def _lasting(self, call: Call) -> tuple[int, ...] | None:
        """Which tensors of the first list have elements; none where there is no list."""
        first = next((slot for slot in self.input_slots if slot.many), None)
        if first is None:
            return None
        specs = (call.spec(name) for name in self.names(first) if call.is_given(name))
        return tuple(place for place, spec in enumerate(specs) if not spec.is_empty)

    def _kernels(
        self,
        call: Call,
        inputs: tuple[GlobalTensor | None, ...],
        outputs: tuple[GlobalTensor, ...],
        lasting: tuple[int, ...] | None = None,
    ) -> tuple[Kernel, ...]:
        profile = cast("Profile", call.profile)
        attributes = dict(self._attributes(call))
        if lasting is not None:  # a number for each tensor of a list that has elements
            numbered = [each.target for each in self.attributes if each.kind == "floats"]
            for name in numbered:
                given = attributes.get(name)
                if isinstance(given, list) and len(given) > max(lasting, default=0):
                    attributes[name] = [given[place] for place in lasting]
        return tasks_of(Task(profile, self.operator.name, inputs, outputs, attributes))

    def _attributes(self, call: Call) -> Iterator[tuple[str, object]]:
        for attribute in self.attributes:
            value = call.arguments.get(attribute.name)
            if value is None:
                continue
            if attribute.only is not None and float(cast("float", value)) != attribute.only:
                name = self.name
                problem = f"{attribute.name} = {value} isn't modelled, only {attribute.only:g}"
                raise KernelError(name, problem)
            if attribute.target:
                found = guessed(value) if isinstance(value, str) else value
                yield attribute.target, list(found) if isinstance(found, tuple) else found

    def _tensors(
        self, call: Call, make: Callable[[str], GlobalTensor]
    ) -> tuple[GlobalTensor | None, ...]:
        """The inputs in the kernel's order; one that is given twice is one tensor."""
        made = {name: make(name) for name, _ in self.inputs if call.is_given(name)}
        return tuple(map(made.get, self.order))


def _spelled(words: Iterable[Any], spellings: Mapping[str, tuple[str, ...]]) -> Iterator[Any]:
    """The arguments of a check by the call's names; a name in a list stands for a list.

    One that the interface doesn't have stays as it is: nobody gives it, and the others keep their
    places.
    """
    for word in words:
        if isinstance(word, tuple):
            yield tuple(_spelled(word, spellings))
        else:
            yield from (spellings.get(word) if isinstance(word, str) else None) or (word,)


def _described(name: str, spec: TensorSpec) -> GlobalTensor:
    """A tensor of which only the shape matters."""
    return GlobalTensor(GmBuffer(name, spec.nbytes), spec.dtype, spec.shape, format=spec.format)
