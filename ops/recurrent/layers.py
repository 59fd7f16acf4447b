"""Recurrent layers as one task: the products of all inputs first, then step after step.

On chips with cube and vector cores apart, a product with the state runs on all cube cores, all
cores meet, vector cores compute the new state, and all meet again: twice, but for LSTM of halves.
Vector cores ask for products by the objects of the Matmul library. Chips whose cores do both have
a schedule of their own (:mod:`npusim.ops.recurrent.fused`). Source: ops-nn rnn/dynamic_rnn and
rnn/gru, host tiling and device code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.library.asking import LIBRARY
from npusim.library.phases import PhasedKernel, Repeats
from npusim.ops.recurrent.cells import GruCell, LstmCell
from npusim.ops.recurrent.fused import FusedLayer
from npusim.ops.recurrent.layer import Layer, at, product
from npusim.ops.recurrent.steps import StepKernel
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ops.recurrent.cells import Cell

_LSTM_RESULTS = ("y", "h", "c", "i", "j", "f", "o", "tanhc")
_LSTM_STATES = 3  # results that there are without training, too
_GRU_RESULTS = ("y", "h", "z", "r", "n", "hn")
_GRU_STATES = 2
_BACKWARD = "REDIRECTIONAL"


def kernels_of(layer: Layer) -> tuple[Kernel, ...]:
    """The kernel of a layer."""
    profile, op_type = layer.task.profile, layer.task.op_type
    if profile.cores.style != "split":
        return (FusedLayer(layer),)
    steps, rows, _ = layer.x.shape
    width = len(layer.cell.gates) * layer.columns
    from_input = made((steps, rows, width), FLOAT, "from_input")
    phases: list[list[Kernel]] = [
        [product(layer, layer.x, layer.weights[0], from_input, layer.biases[0])]
    ]
    hidden = made((rows, width), FLOAT, "from_state")
    before: int | None = None
    once = layer.x.dtype is FLOAT16 and not layer.cell.has_halves
    for now in layer.order:
        own, h = at(from_input, now), layer.states(before).get("h")
        apart = layer.cell.has_halves and h is not None
        if h is not None and apart:
            phases.append([product(layer, h, layer.weights[1], hidden, layer.biases[1])])
        elif h is not None:
            phases.append([product(layer, h, layer.weights[1], own, adds=True)])
        sums = (own, hidden) if apart else (own,)
        step, by_rows = layer.step(sums, now, before), not layer.cell.has_halves
        phases.append([StepKernel(profile, op_type, layer.cell, step, by_rows=by_rows)])
        if not once:
            phases.append([])
        before = now
    results = tuple(layer.results.values())
    each = 2 if once else 3  # phases of a step, of which the first may be without a product
    alike = (len(phases) - 1) // each - 1
    repeats = Repeats(len(phases) - alike * each, each, alike) if alike > 0 else None
    return (PhasedKernel(profile, op_type, phases, layer.reads, results, repeats, LIBRARY),)


def dynamic_rnn(task: Task) -> tuple[Kernel, ...]:
    """x, w (input above state), b, mask of steps, first h and c, peepholes and mask: one LSTM."""
    x, w = task.present(2)
    _, _, bias, mask, h, c, *others = (*task.inputs, *[None] * 10)[:10]
    if any(each is not None for each in others):
        raise task.refused("peepholes and masks of elements aren't modelled")
    if len(x.shape) != 3 or len(w.shape) != 2:
        raise task.unfit(f"x {x.shape} and w {w.shape} are no sequences and weights")
    steps, rows, depth = x.shape
    columns = w.shape[1] // 4
    fits = w.shape == (depth + columns, 4 * columns) and (bias is None or bias.numel == w.shape[1])
    if not fits:
        raise task.unfit(f"w {w.shape} isn't for inputs of {depth}: (inputs + h, 4 h)")
    if mask is not None and (mask.shape != (steps, rows, columns) or mask.dtype is not x.dtype):
        raise task.refused(f"a seq_length {mask.shape} in {mask.dtype} isn't modelled")
    _checked_cell(task)
    order = str(task.attributes.get("gate_order", "ijfo"))
    cell = LstmCell(
        order if order in ("ijfo", "ifjo") else "ijfo",
        task.number("forget_bias", 0.0),
        task.number("cell_clip", -1.0),
        mask is not None,
    )
    halves = _parted(w, depth)
    names = _LSTM_RESULTS if _trains(task) else _LSTM_RESULTS[:_LSTM_STATES]
    first = _first(task, {"h": h, "c": c}, (rows, columns))
    return _layer(task, cell, x, halves, (bias, None), first, mask, names)


def dynamic_gru(task: Task) -> tuple[Kernel, ...]:
    """x, weights of input and state, their biases, lengths, first h: one GRU."""
    order = str(task.attributes.get("gate_order", "zrh")).replace("h", "n")
    return _gru(task, order if order in ("zrn", "rzn") else "zrn", _GRU_RESULTS)


def gru(task: Task) -> tuple[Kernel, ...]:
    """The same with the reset gate in front."""
    if task.profile.cores.style != "split":
        raise task.refused(f"{task.profile.name} has no kernel for it")
    return _gru(task, "rzn", ("y", "h", "r", "z", "n", "hn"))


def _trains(task: Task) -> bool:
    return bool(task.attributes.get("is_training", True))


def _gru(task: Task, order: str, results: tuple[str, ...]) -> tuple[Kernel, ...]:
    x, w, r = task.present(3)
    _, _, _, bias, other, lengths, h, *_ = (*task.inputs, *[None] * 7)[:7]
    if lengths is not None:
        raise task.refused("sequences of different lengths aren't modelled")
    if len(x.shape) != 3 or len(w.shape) != 2:
        raise task.unfit(f"x {x.shape} and weights {w.shape} are no sequences and weights")
    rows, columns = x.shape[1], r.shape[0]
    wanted = (x.shape[2], 3 * columns), (columns, 3 * columns)
    if (w.shape, r.shape) != wanted:
        raise task.unfit(f"weights {w.shape} and {r.shape} where {wanted} are needed")
    if any(each is not None and each.numel != 3 * columns for each in (bias, other)):
        raise task.refused(f"biases have {3 * columns} elements")
    if not bool(task.attributes.get("reset_after", True)):
        raise task.refused("a reset before the product isn't modelled")
    _checked_cell(task)
    cell = GruCell(order)
    names = results if _trains(task) else results[:_GRU_STATES]
    first = _first(task, {"h": h}, (rows, columns))
    return _layer(task, cell, x, (w, r), (bias, other), first, None, names)


def _checked_cell(task: Task) -> None:
    activation = str(task.attributes.get("activation", "tanh"))
    if activation != "tanh" or task.whole_number("num_proj", 0):
        raise task.refused("other activations than tanh and projections aren't modelled")
    if task.whole_number("cell_depth", 1) != 1 or task.attributes.get("use_peephole"):
        raise task.refused("cells of several layers and peepholes aren't modelled")


def _first(
    task: Task, given: Mapping[str, GlobalTensor | None], shape: tuple[int, int]
) -> dict[str, GlobalTensor]:
    """States before the first step, as matrices; all or none of them."""
    found = {name: each for name, each in given.items() if each is not None}
    if len(found) not in (0, len(given)):
        raise task.unfit("init_h and init_c come together")
    for name, each in found.items():
        if each.numel != shape[0] * shape[1]:
            raise task.unfit(f"init_{name} {each.shape} isn't {shape}")
    return {name: replace(each, shape=shape) for name, each in found.items()}


def _parted(w: GlobalTensor, depth: int) -> tuple[GlobalTensor, GlobalTensor]:
    """The rows for the input, and those for the state."""
    rows, width = w.shape
    below = replace(w, start=w.start + depth * width, shape=(rows - depth, width))
    return replace(w, shape=(depth, width)), below


def _layer(
    task: Task,
    cell: Cell,
    x: GlobalTensor,
    weights: tuple[GlobalTensor, GlobalTensor],
    biases: tuple[GlobalTensor | None, GlobalTensor | None],
    first: Mapping[str, GlobalTensor],
    mask: GlobalTensor | None,
    names: tuple[str, ...],
) -> tuple[Kernel, ...]:
    kinds = {each.dtype for each in (x, *weights, *first.values())}
    if len(kinds) > 1 or x.dtype.intrinsic not in task.profile.cube.dtypes:
        raise task.refused(f"the cube of {task.profile.name} doesn't multiply these dtypes")
    if x.dtype not in (FLOAT, FLOAT16):
        raise task.refused(f"{x.dtype} isn't modelled")
    steps, rows, _ = x.shape
    shape = (steps, rows, weights[1].shape[0])
    given = dict(zip(names, task.outputs, strict=False))
    if any(each.shape != shape for each in given.values()):
        raise task.unfit(f"results have the shape {shape}")
    results = {name: given.get(name) or made(shape, x.dtype, name) for name in names}
    backward = task.attributes.get("direction", "") == _BACKWARD
    return kernels_of(Layer(task, cell, x, weights, biases, first, mask, results, backward))
