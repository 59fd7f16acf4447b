"""A user's own function or module as a program, without exporting it: traced on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

from npusim.graph.aten.reader import Program, torch_for
from npusim.values.errors import ArgumentError
from npusim.values.language import say


def traced(
    function: Callable[..., Any], inputs: Sequence[Any], *, name: str, backward: bool = False
) -> Program:
    """What a function or a module does with such inputs, as aten calls.

    Nothing is computed: tensors have shapes and no contents. Calls are those of torch.export, or,
    where `backward` passes belong to it, those below autograd, where attention is in parts.
    Raises ArgumentError where Python asks for the contents of a tensor.
    """
    torch = torch_for(say("tracing a function"))
    from torch.fx.experimental.proxy_tensor import make_fx

    trace: Callable[..., Any] = make_fx(
        function,
        tracing_mode="fake",
        pre_dispatch=not backward,
        _allow_non_fake_inputs=True,
        record_module_stack=True,
    )
    try:
        with _kept(torch) if backward else _no_backward(torch):
            module = trace(*inputs)
    except ArgumentError:
        raise
    except Exception as error:  # noqa: BLE001 - what torch and the function raise is up to them
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise ArgumentError(
            say("{name} can't be traced without data: {what}").format(name=name, what=what),
            say(
                'Where Python looks at what tensors hold, torch.compile(model, backend="npusim") '
                "takes the parts between."
            ),
        ) from None
    for weight in module.parameters():  # traced gradients have no contents
        if isinstance(weight.grad, torch._subclasses.FakeTensor):  # noqa: SLF001 - no other name
            weight.grad = None
    nodes = list(module.graph.nodes)
    unread = [node for node in nodes if node.op == "call_function" and not node.users]
    result = nodes[-1]  # what nobody reads, such as gradients of weights, is made all the same
    result.args = ((*result.args, *unread),)
    places = [node for node in nodes if node.op == "placeholder"]
    given = torch.utils._pytree.tree_leaves(list(inputs))  # noqa: SLF001 - as make_fx flattens them
    fed = {
        node.name: list(each.shape)
        for node, each in zip(places, given, strict=True)
        if isinstance(each, torch.Tensor) and not _stays(each)
    }
    return Program(name, SimpleNamespace(graph_module=module, range_constraints={}), fed)


@contextmanager
def _instead(owner: Any, name: str, other: Callable[..., Any]) -> Iterator[None]:
    known = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, known)


def _no_backward(torch: Any) -> AbstractContextManager[None]:
    """A backward pass is refused, of which calls above autograd would show nothing."""

    def refused(*_args: Any, **_words: Any) -> None:
        raise ArgumentError(say("the function has a backward pass"), "Say so: backward=True.")

    return _instead(torch.autograd, "backward", refused)


def _kept(torch: Any) -> AbstractContextManager[None]:
    """Calls stay whose results nobody reads, such as gradients: torch makes them."""
    return _instead(torch.fx.Graph, "eliminate_dead_code", lambda *_args, **_words: False)


def _stays(tensor: Any) -> bool:
    """Whether a tensor is a module's own: a parameter, or a buffer as Dynamo marks them."""
    return bool(getattr(tensor, "_is_param", False)) or hasattr(tensor, "_dynamo_static_input_type")
