"""Verbs of the Python API: proper questions with something odd in the place of a parameter."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import yaml

from fuzz.api_cases import _SIGNATURE, _inside, _shown, thing
from support.plans import plan

_Dice = random.Random
Asked = tuple[Callable[..., object], dict[str, Any]]


def _idle(core: Any, x: Any) -> None:
    """Do nothing."""


def _questions() -> dict[str, Callable[[], Asked]]:
    import npusim

    def model() -> Any:
        return npusim.Model.read("m.yaml")

    def result() -> Any:
        return npusim.Device("910b3").estimate("aclnnRelu", self="fp16[64]")

    def launch(x: Any, block_dim: Any) -> object:
        return npusim.Device("910b3").launch(npusim.kernel(_idle), x, block_dim=block_dim)

    def registered(name: Any, tensors: Any, attributes: Any) -> object:
        return npusim.operators.register(npusim.operators.Operator(name, tensors, attributes))

    return {
        "read": lambda: (npusim.Model.read, {"model": "m.yaml"}),
        "estimate": lambda: (model().estimate, {"device": "910b3"}),
        "curve": lambda: (model().curve, {"device": "910b3", "batches": [1, 2]}),
        "plan": lambda: (npusim.plan, {"question": "p.yaml"}),
        "recommend": lambda: (npusim.recommend, {
            "model": "m.yaml", "rate_per_s": 50, "limit_ms": 20, "products": ["Atlas 300I Pro"]}),
        "judge": lambda: (npusim.judge, {"file": "k.csv", "device": "910b3"}),
        "calibrate": lambda: (npusim.calibrate, {"file": "k.csv", "device": "910b3"}),
        "collective": lambda: (npusim.collective, {
            "operation": "allreduce", "soc": "910b3", "cards": 8, "nbytes": 1024}),
        "sweep": lambda: (npusim.sweep, {"question": "s.yaml"}),
        "validate": lambda: (npusim.validate, {"table": "v.csv"}),
        "report": lambda: (npusim.report, {"answer": result(), "path": "a.html"}),
        "trace": lambda: (npusim.trace, {"result": result(), "path": "a.json"}),
        "rank": lambda: (npusim.rank, {"variants": {"a": result}}),
        "count": lambda: (result().timeline.count, {}),
        "kernel": lambda: (npusim.kernel, {"function": _idle}),
        "profile": lambda: (npusim.hardware.register_profile, {"path": "chip.yaml"}),
        "operator": lambda: (registered, {"name": "Mine", "tensors": "x -> y", "attributes": ()}),
        "launch": lambda: (launch, {"x": np.ones(8, "f4"), "block_dim": 1}),
    }  # fmt: skip


def api_verbs(dice: _Dice, made: Any) -> None:
    """A call of a verb; how exactly is drawn when it runs."""
    from fuzz.cases import KERNELS, MEASURED, MODEL, SWEEP

    files = {
        "m.yaml": MODEL,
        "s.yaml": SWEEP,
        "p.yaml": plan(simulation={"runs": 2, "requests": 50}),
    }
    made.files |= {name: yaml.safe_dump(content).encode() for name, content in files.items()}
    made.files["chip.yaml"] = b"inherits: Ascend910B3\nname: chip\n"
    made.files |= {"k.csv": KERNELS, "v.csv": MEASURED}
    state = dice.getrandbits(64)

    def call() -> object:
        own, used = _Dice(state), list[Any]()
        try:
            questions = _questions()
            name = own.choice(list(questions))
            ask, given = questions[name]()
            taken = list(inspect.signature(ask).parameters)
            for _ in range(own.choice((1, 1, 2))):
                given[own.choice(taken)] = thing(own)
            used[:] = [name, given]
            return repr(ask(**given))
        except TypeError as refusal:
            if any(word in str(refusal) for word in _SIGNATURE) and not _inside(refusal):
                return None
            sys.stderr.write(f"{_shown(used)}\n")
            raise

    made.call = call
    made.shown = f"verbs {state}"
