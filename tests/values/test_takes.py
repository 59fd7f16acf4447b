"""Python verbs given the wrong kinds of things: one sentence that names the parameter."""

from __future__ import annotations

import inspect
import re
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import npusim
from npusim.ascendc import TPosition, TQue
from npusim.operators import family, register, whole
from npusim.values.errors import ArgumentError, KernelError, UsageError
from npusim.values.takes import LISTENER, REAL, TEXT, WHOLE, each, maybe, takes
from support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = ROOT / "examples"
STRANGE: tuple[Any, ...] = (
    np.array([None]), object(), b"910b3", 1j, {print}, print, ..., [[1], 2],
)  # fmt: skip
CHIP, MODEL = "Ascend910B3", str(EXAMPLES / "model.yaml")


@npusim.kernel
def idle(core: Any, x: Any) -> None:
    """Do nothing."""


def call(**arguments: Any) -> Any:
    return npusim.Device(CHIP).estimate("aclnnRelu", self="fp16[64]", **arguments)


# What is asked, with a parameter left for something strange.
ASKED: dict[str, Callable[[Any], object]] = {
    "model": npusim.Model.read,
    "shapes": lambda it: npusim.Model.read(MODEL, shapes=it),
    "without": lambda it: npusim.Model.read(MODEL, without=it),
    "mode": lambda it: npusim.Model.read(MODEL, mode=it),
    "device": lambda it: npusim.Model.read(MODEL).estimate(it),
    "batch": lambda it: npusim.Model.read(MODEL).estimate(CHIP, batch=it),
    "host_dispatch_us": lambda it: npusim.Model.read(MODEL).estimate(CHIP, host_dispatch_us=it),
    "measured_on": lambda it: npusim.Model.read(MODEL).estimate(CHIP, measured_on=it),
    "batches": lambda it: npusim.Model.read(MODEL).curve(CHIP, it),
    "question": npusim.plan,
    "folder": lambda it: npusim.plan({}, folder=it),
    "products": lambda it: npusim.recommend(MODEL, rate_per_s=1, limit_ms=1, products=it),
    "file": lambda it: npusim.judge(it, CHIP),
    "step": lambda it: npusim.calibrate("x.csv", CHIP, step=it),
    "operation": lambda it: npusim.collective(it, CHIP, cards=2, nbytes=8),
    "soc": lambda it: npusim.collective("allreduce", it, cards=2, nbytes=8),
    "cards": lambda it: npusim.collective("allreduce", CHIP, cards=it, nbytes=8),
    "question ": npusim.sweep,
    "workers": lambda it: npusim.sweep({}, workers=it),
    "table": npusim.validate,
    "chips": lambda it: npusim.validate("x.csv", chips=it),
    "path": lambda it: npusim.report(call(), it),
    "results": lambda it: npusim.report(it, "x.html"),
    "result": lambda it: npusim.trace(it, "x.json"),
    "window_us": lambda it: npusim.trace(call(), "x.json", window_us=it),
    "variants": npusim.rank,
    "top": lambda it: npusim.rank({}, top=it),
    "the time of 'a'": lambda it: npusim.rank({"a": lambda: it}),
    "cores": lambda it: npusim.trace(call(), "x.json", cores=it),
    "until_us": lambda it: list(call().timeline.slices(until_us=it)),
    "block_dim": lambda it: npusim.Device(CHIP).launch(idle, np.ones(8), block_dim=it),
    "a feature": lambda it: npusim.load_profile(CHIP).has(it),
    "a dtype": lambda it: npusim.load_profile(CHIP).cube_peak_tops(it),
    "itemsize": lambda it: npusim.load_profile(CHIP).vector_peak_tops(it),
    "a definition": register,
    "a definition ": lambda it: family("norm", it),
    "the name of a parameter": whole,
}  # fmt: skip


@pytest.mark.parametrize("what", ASKED)
def test_a_wrong_kind_is_named(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for it in STRANGE:
        with pytest.raises(UsageError) as refused:
            ASKED[what](it)
        assert what.strip() in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_numbers_are_what_they_are() -> None:
    assert type(WHOLE(np.int8(3), "x")) is int
    assert type(REAL(np.float16(0.5), "x")) is float
    assert REAL(Fraction(1, 2), "x") == 0.5
    assert each(WHOLE)(np.arange(3), "x") == (0, 1, 2)
    assert maybe(TEXT)(None, "x") is None
    for value in (True, "3", None, float("nan"), 10**400, Fraction(10**400)):
        with pytest.raises(ArgumentError):
            REAL(value, "x")
    for value in (True, 3.0, np.float32(3), np.ones(1, int)):
        with pytest.raises(ArgumentError):
            WHOLE(value, "x")
    with pytest.raises(ArgumentError, match="Give a list"):
        each(TEXT)("910b3", "products")


def test_a_wrong_number_of_arguments_is_refused() -> None:
    @takes(x=WHOLE)
    def one(x: int, *more: object) -> tuple[object, ...]:
        return (x, *more)

    assert one(np.int64(1), "a", "b") == (1, "a", "b")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="missing a required argument: 'x'"):
        one()  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"unknown parameter of .*one 'y'"):
        one(1, y=2)  # type: ignore[call-arg]


def test_a_listener_that_takes_other_news_is_told_so() -> None:
    def broken(done: int, of: int) -> None:
        raise TypeError(f"{done} of {of}")

    for deaf in (np.float16, lambda: None, print.__class__):
        with pytest.raises(ArgumentError, match="progress can't be called with 2 values"):
            LISTENER(deaf, "progress")(1, 2)
    with pytest.raises(TypeError, match="1 of 2"):
        LISTENER(broken, "progress")(1, 2)
    with pytest.raises(ArgumentError):
        LISTENER(3, "progress")


@pytest.mark.parametrize(("slots", "nbytes"), [(0, 32), (-1, 32), (2**62, 0), (1, -32)])
def test_buffers_of_no_size(slots: int, nbytes: int) -> None:
    @npusim.kernel
    def own(core: Any, x: Any) -> None:
        core.pipe.init_buffer(TQue(TPosition.VECIN, 1, x.buffer.name), slots, nbytes)

    with pytest.raises(KernelError, match="one slot or more"):
        npusim.Device(CHIP).launch(own, np.ones(8, np.float32))


def test_a_profile_knows_what_it_lacks() -> None:
    profile = npusim.load_profile(CHIP)
    with pytest.raises(UsageError, match="unknown dtype of the cube 'complex64'"):
        profile.cube_peak_tops("complex64")
    with pytest.raises(ArgumentError, match="1 byte or more"):
        profile.vector_peak_tops(0)


@pytest.mark.parametrize("chip", [CHIP, "Ascend310P3"])
@pytest.mark.parametrize("op", ["Add", "Softmax", "Transpose"])
def test_a_task_that_writes_nothing_takes_no_time(chip: str, op: str, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(f"calls: [{{op: {op}, inputs: ['fp16[2,0]'], outputs: ['fp16[2,0]']}}]")
    step = npusim.Model.read(file).estimate(chip)
    assert (step.duration_us, step.items[0].timing.how.value) == (0, "simulated")


# Parameters that there are none of, or too few ---------------------------------------------------

_MADE_BY_US = (
    "Profile", "Result", "Slice", "Status", "TaskResult", "Timeline", "Model", "Compiled",
    "LanguageModel", "LlmStep", "TrainingStep", "Deployment",
)  # fmt: skip
"""Classes whose objects verbs give; nobody else makes any."""


def _documented() -> dict[str, Any]:
    """What `npusim` exports, and whatever else the page of the Python interface names."""
    page = (ROOT / "docs/reference/python.md").read_text("utf-8")
    places = [each.rpartition(".")[::2] for each in re.findall(r"^::: (\S+)", page, re.MULTILINE)]
    named = {name: getattr(import_module(room), name) for room, name in places}
    return {name: getattr(npusim, name) for name in npusim.__all__} | named


def _functions() -> dict[str, Callable[..., object]]:
    """Every public function, constructor and method that takes a parameter."""
    found: dict[str, Callable[..., object]] = {}
    for name, public in _documented().items():
        if not isinstance(public, type):
            found |= {name: public} if callable(public) else {}
        elif not issubclass(public, Exception):
            own = {key: vars(public)[key] for key in vars(public) if not key.startswith("_")}
            own = {key: getattr(public, key) for key, value in own.items() if not _is_data(value)}
            found |= {f"{name}.{key}": value for key, value in own.items()}
            found |= {} if name in _MADE_BY_US else {name: public}
    asked = {name: list(inspect.signature(each).parameters) for name, each in found.items()}
    return {name: each for name, each in found.items() if set(asked[name]) - {"self"}}


def _is_data(value: object) -> bool:
    return not callable(value) and not isinstance(value, classmethod | staticmethod)


_OURS = ("Profile.has", "Profile.supports", "Profile.vector_", "Profile.cube_", "Profile.load3d_",
         "Profile.model_", "Status.")  # fmt: skip
"""Asked by kernels and by ourselves."""


@pytest.mark.parametrize("name", sorted(_functions()))
def test_a_wrong_keyword_is_told_with_the_right_ones(name: str) -> None:
    function = _functions()[name]
    if name.startswith(_OURS):
        pytest.skip("not for users")
    known = [each for each in inspect.signature(function).parameters if each != "self"]
    if any(
        each.kind is each.VAR_KEYWORD for each in inspect.signature(function).parameters.values()
    ):
        with pytest.raises(UsageError):
            function()
        return
    with pytest.raises(UsageError, match=r"unknown parameter of .*'bogus_keyword'") as caught:
        function(bogus_keyword=1)
    assert all(each in caught.value.remedy for each in known)
    near = known[0] + "s"
    with pytest.raises(UsageError, match=f"Did you mean '?{known[0]}"):
        function(**{near: 1})


def test_missing_and_superfluous_parameters_are_told_too() -> None:
    with pytest.raises(UsageError, match=r"recommend: missing a required .*rate_per_s"):
        npusim.recommend(MODEL, products=["x"])  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="load_profile: too many positional"):
        npusim.load_profile(CHIP, CHIP)  # type: ignore[call-arg]


def test_what_a_function_itself_gets_wrong_stays_what_it_was() -> None:
    @takes(x=WHOLE)
    def broken(x: int) -> object:
        return x.missing()  # type: ignore[attr-defined]

    @takes()
    def typed(x: int) -> object:
        return len(x)  # type: ignore[arg-type]

    with pytest.raises(AttributeError):
        broken(1)
    with pytest.raises(TypeError, match="has no len"):
        typed(1)


class _Unspeakable:
    def __repr__(self) -> str:
        raise KeyError("not so")


def test_an_object_whose_repr_raises_is_told_by_its_type() -> None:
    for ask in (npusim.load_profile, npusim.Device, npusim.Model.read, npusim.TensorSpec.of):
        with pytest.raises(UsageError, match="_Unspeakable"):
            ask(_Unspeakable())  # type: ignore[operator]
    for arguments in ({"self": _Unspeakable()}, {"self": [_Unspeakable()]}):
        with pytest.raises(UsageError):
            npusim.Device(CHIP).run("aclnnRelu", **arguments)
