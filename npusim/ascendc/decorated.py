"""``@npusim.kernel``: a function as a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from npusim.ascendc.kernel import Kernel, Phases
from npusim.values.errors import ArgumentError, UnknownNameError
from npusim.values.takes import CALL, FLAG, TEXT, each, maybe, takes

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.hardware.profile import Profile

_CORES = ("vector", "cube")
_PROFILE = Parameter("profile", Parameter.POSITIONAL_OR_KEYWORD)


class FunctionKernel(Kernel):
    """A kernel whose blocks call a function with the core, the tensors and the attributes."""

    function: ClassVar[Callable[..., Phases]]
    names: ClassVar[tuple[str, ...]]
    written: ClassVar[tuple[str, ...]]

    def __init__(self, profile: Profile, *tensors: GlobalTensor, **attributes: Any) -> None:
        named = dict(zip(self.names, tensors, strict=True))
        self._tensors, self._attributes = tensors, attributes
        self.reads = tuple(each for name, each in named.items() if name not in self.written)
        self.writes = tuple(named[name] for name in self.written)
        cube = self.is_mix or self.cores == "cube"
        self.block_dim = profile.cores.cube_cores if cube else profile.cores.vector_cores

    def process(self, core: Core) -> Phases:
        """The function's work on one core."""
        return type(self).function(core, *self._tensors, **self._attributes)


@takes(function=maybe(CALL), writes=each(TEXT), cores=TEXT, is_mix=FLAG)
def kernel(
    function: Callable[..., Phases] | None = None,
    *,
    writes: Sequence[str] = (),
    cores: Literal["vector", "cube"] = "vector",
    is_mix: bool = False,
) -> Any:
    """A kernel of a function of the core, its tensors, and attributes behind ``*``.

    ``writes`` names the tensors that it writes, by default the last one; ``cores`` and ``is_mix``
    are those of :class:`Kernel`. Launch it with :meth:`npusim.Device.launch`. Raises ArgumentError
    for what isn't a function, one without tensors, and names that it doesn't have.
    """
    if cores not in _CORES:
        raise UnknownNameError("kind of cores", cores, _CORES)
    if function is None:
        return lambda function: kernel(function, writes=writes, cores=cores, is_mix=is_mix)
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = list(signature(function).parameters.values())[1:]
    except ValueError as error:  # a function of C that doesn't say what it takes
        raise ArgumentError(f"kernel {name}: {error}", "Give a function of Python.") from error
    names = tuple(each.name for each in parameters if each.kind is not Parameter.KEYWORD_ONLY)
    missing = [name for name in writes if name not in names]
    if missing or not names:
        wrong = f"no tensor {missing[0]!r}" if missing else "no tensors"
        raise ArgumentError(
            f"kernel {name} has {wrong}",
            "Its parameters are the core, the tensors, and behind * the attributes.",
        )
    members = {
        "op_type": name,
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__signature__": Signature([_PROFILE, *parameters]),
        "function": staticmethod(function),
        "names": names,
        "written": tuple(writes) or names[-1:],
        "cores": cores,
        "is_mix": is_mix,
    }
    return type(name, (FunctionKernel,), members)
