"""Kernels of a project's operators: its own tiling, and its op_kernel played on every core."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.ascendc.flat.launching import named_kernel
from npusim.ascendc.flat.listings import ListedKernel, Listing, Steps
from npusim.ascendc.kernel import Kernel
from npusim.capi.kernel_calls import JOB, OP_KERNEL
from npusim.capi.library import installation
from npusim.capi.runtime.core_runs import CUBE, MIX, Launch, Played, play_cores
from npusim.capi.runtime.memory import Block
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import UINT8
from npusim.values.errors import FileError, KernelCodeError, KernelError
from npusim.values.host import mapped

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.capi.projects.host_code import Tiling
    from npusim.hardware.profile import Profile

# Device memory of projects' kernels, which lies nowhere near that of a program (runtime.memory).
_FIRST_ADDRESS, _LAST_ADDRESS = 0x2B00_0000_0000, 0x3A00_0000_0000
_PAGE_BYTES = 4096
_WORD_BYTES = 8


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One launch: the kernel's library and cores, its operands, and what the tiling returned.

    An input that is left out is None; ``changed`` are those inputs that are results as well.
    ``lists`` has the number of tensors for each parameter that is a list, -1 for a single one; the
    kernel is given a table for a list.
    """

    name: str
    library: str
    kind: int
    profile: Profile
    inputs: tuple[GlobalTensor | None, ...]
    outputs: tuple[GlobalTensor, ...]
    changed: tuple[GlobalTensor, ...]
    workspace: GlobalTensor
    tiling: GlobalTensor
    made: Tiling
    lists: tuple[int, ...]

    def play(self, *, numerics: bool) -> Played:
        """Runs the cores on the numbers there are, else on zeros; ``numerics`` keeps results."""
        code = _code(self.library)
        blocks = _blocks([0 if each is None else each.nbytes for each in self.operands])
        for place, other in self._in_place().items():
            blocks[place] = blocks[other]
        for tensor, block in zip(self.inputs, blocks, strict=False):
            if tensor is not None:
                _fill(block, tensor)
        first_table = len(self.inputs) + len(self.outputs) + 2
        _put(blocks[first_table - 1], self.made.data)
        addresses = [
            0 if tensor is None else block.address
            for tensor, block in zip(self.operands, blocks, strict=True)
        ]
        given = self._parameters(addresses, blocks[first_table:])
        context = code.ffi.new("uint64_t[]", [self.made.key, *given])
        launch = Launch(
            self.name,
            self.kind,
            self.made.blocks,
            code.lib.npusim_op_player(),
            int(code.ffi.cast("uintptr_t", code.ffi.addressof(code.lib, "npusim_op_body"))),
            int(code.ffi.cast("uintptr_t", context)),
            auto_sync=True,
        )
        try:
            memories = [*dict.fromkeys(blocks), code.constants]
            played = play_cores(code.ffi, self.profile, launch, memories)
        except KernelError as error:  # a mistake in the project: no answer of ours
            words = (error.kernel, error.problem, error.remedy)
            raise KernelCodeError(*words, site=error.site) from None
        if numerics:
            changed = [self._given[_key(each)] for each in self.changed]
            places = (*changed, *range(len(self.inputs), len(blocks)))
            for tensor, place in zip((*self.changed, *self.outputs), places, strict=False):
                _read(blocks[place], tensor)
        return played

    @property
    def operands(self) -> tuple[GlobalTensor | None, ...]:
        """The kernel's parameters in their order."""
        return (*self.inputs, *self.outputs, self.workspace, self.tiling, *self.tables)

    @cached_property
    def tables(self) -> tuple[GlobalTensor, ...]:
        """Memory for what a kernel is given instead of a list of tensors."""
        tensors = (*self.inputs, *self.outputs)
        found, at = [], 0
        for place, many in enumerate(self.lists):
            if many >= 0:
                ranks = sum(len(each.shape) for each in tensors[at : at + many] if each is not None)
                size = _WORD_BYTES * (1 + 2 * many + ranks)
                found.append(GlobalTensor(GmBuffer(f"table{place}", size), UINT8, (size,)))
            at += 1 if many < 0 else many
        return tuple(found)

    @cached_property
    def constants(self) -> GlobalTensor:
        """Global memory that comes with the kernel's code: tables that it declares as constants."""
        size = _code(self.library).constants.size
        return GlobalTensor(GmBuffer("constants", size), UINT8, (size,))

    def _parameters(self, addresses: Sequence[int], tables: Sequence[Block]) -> list[int]:
        """The kernel's parameters; the tables of its lists are written.

        A table has where its pointers begin, rank and sizes of each tensor, and the pointers.
        Source: public page of ListTensorDesc, and kernels of ops-nn's foreach that read it.
        """
        tensors = (*self.inputs, *self.outputs)
        found, at, left = [], 0, list(tables)
        for many in self.lists:
            if many < 0:
                found.append(addresses[at])
                at += 1
                continue
            words = [0]
            for place, each in enumerate(tensors[at : at + many]):
                shape = () if each is None else each.shape
                words += [place << 32 | len(shape), *shape]
            words[0] = _WORD_BYTES * len(words)
            words += addresses[at : at + many]
            block = left.pop(0)
            _put(block, np.array(words, np.uint64).tobytes())
            found.append(block.address)
            at += many
        return [*found, *addresses[at : at + 2]]

    def listing(self) -> Listing:
        """What the cores do."""
        nothing = GlobalTensor(GmBuffer("absent", 1), UINT8, (1,))
        played = self.play(numerics=False)
        again = self._in_place()
        memories = [each for place, each in enumerate(self.operands) if place not in again]
        memories.append(self.constants)
        return played.listing([nothing if each is None else each for each in memories])

    def _in_place(self) -> dict[int, int]:
        """The operands that are results in the memory of an input, and which one."""
        own, made = self._given, enumerate(self.outputs, len(self.inputs))
        return {place: own[_key(each)] for place, each in made if _key(each) in own}

    @cached_property
    def _given(self) -> dict[tuple[int, int, tuple[int, ...]], int]:
        """The places of the inputs that are given."""
        return {_key(each): place for place, each in enumerate(self.inputs) if each is not None}


# What calls do, found when they are first played: no part of what tells kernels apart.
_listings: WeakKeyDictionary[KernelCall, ListedKernel] = WeakKeyDictionary()


class ProjectKernel(Kernel):
    """A kernel of a project: its instructions are listed first, its numbers made when asked for."""

    def __init__(self, call: KernelCall) -> None:
        self._call = call
        self.block_dim = call.made.blocks
        self.reads = tuple(each for each in call.inputs if each is not None)
        self.writes = (*call.changed, *call.outputs)
        self.scratch = (call.workspace, call.tiling, *call.tables, call.constants)

    def _listed(self) -> ListedKernel:
        if self._call not in _listings:
            made = named_kernel(
                ListedKernel, self.op_type, __name__, self.cores, is_mix=self.is_mix
            )
            _listings[self._call] = made(self._call.listing())
        return _listings[self._call]

    def block_kind(self, block_idx: int) -> Hashable:
        """Blocks are alike whose cores have done the same."""
        return self._listed().block_kind(block_idx)

    def process(self, core: Core) -> Steps:
        """The instructions of a core; the first one computes for all of them."""
        is_first = core.get_block_idx() == 0 and (not self.is_mix or core.unit.kind == "cube")
        if core.numerics and is_first:
            self._call.play(numerics=True)
        yield from self._listed().process(core)


def kernel_of(call: KernelCall) -> ProjectKernel:
    """The kernel of a call; the line of the project that is wrong is told when it is played."""
    split = call.profile.cores.style == "split"
    cores: Literal["vector", "cube"] = "cube" if split and call.kind == CUBE else "vector"
    return _class(call.name, cores, is_mix=split and call.kind >= MIX)(call)


@cache
def _class(name: str, cores: Literal["vector", "cube"], *, is_mix: bool) -> type[ProjectKernel]:
    return named_kernel(ProjectKernel, name, __name__, cores, is_mix=is_mix)


@dataclass(frozen=True, eq=False)
class _Code:
    ffi: Any
    lib: Any
    constants: Block


@cache
def _code(library: str) -> _Code:
    ffi: Any = import_module("cffi").FFI()  # it has no types
    ffi.cdef(JOB + OP_KERNEL)
    installation()  # what it is linked to may have gone from the cache
    try:
        lib = ffi.dlopen(library)
    except OSError as problem:
        remedy = "Build its project again with `npusim op build`."
        raise FileError(library, f"can't be loaded: {problem}", remedy) from None
    return _Code(ffi, lib, _constants(ffi, library))


def _constants(ffi: Any, library: str) -> Block:
    """Where a library that is loaded lies, as a block of device memory."""
    first, last = mapped(Path(library).resolve())
    content = np.frombuffer(ffi.buffer(ffi.cast("char *", first), last - first), np.uint8)
    return Block(first, last - first, 0, content)


def parameters_of(library: Path) -> int:
    """How many parameters the kernel of a library has."""
    return int(_code(str(library)).lib.npusim_op_parameters())


_next_address = _FIRST_ADDRESS


def _blocks(sizes: Sequence[int]) -> list[Block]:
    """Memory at addresses of its own; the launch before has let go of those that come again."""
    global _next_address  # noqa: PLW0603 - addresses are the process's
    if _next_address + sum(sizes) + 2 * _PAGE_BYTES * len(sizes) > _LAST_ADDRESS:
        _next_address = _FIRST_ADDRESS
    found = []
    for size in sizes:
        block = Block(_next_address, max(1, size), 0)
        _next_address += round_up(block.taken_bytes, _PAGE_BYTES) + _PAGE_BYTES
        found.append(block)
    return found


def _key(tensor: GlobalTensor) -> tuple[int, int, tuple[int, ...]]:
    return tensor.buffer.number, tensor.start, tuple(tensor.shape)


def _fill(block: Block, tensor: GlobalTensor) -> None:
    if tensor.array is not None:
        _put(block, np.ascontiguousarray(tensor.array).tobytes())


def _put(block: Block, data: bytes) -> None:
    block.content[: len(data)] = np.frombuffer(data, np.uint8)


def _read(block: Block, tensor: GlobalTensor) -> None:
    target = tensor.array
    if target is not None:
        target[...] = block.content[: target.nbytes].view(target.dtype).reshape(target.shape)
