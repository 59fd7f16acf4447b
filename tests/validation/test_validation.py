"""Measured tables: reading, replaying, statistics, and a fit that finds what was put in."""

from __future__ import annotations

import gzip
import math
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fitting import fit
from spreads import calibration_of, in_band, network, spreads, stretches

from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec
from npusim.runtime.bands import measured_band
from npusim.validation.asking import validate
from npusim.validation.fitting import CONSTANTS, value_of, with_values
from npusim.validation.replay import predict, replay, simulate_task, start_of
from npusim.validation.statistics import accuracy, by_workload, spearman
from npusim.validation.table import MeasuredRow, read_rows
from npusim.values.errors import FileError
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from npusim.validation.replay import Prediction

HEADER = (
    "chip,op,op_family,impl,input_shapes,input_dtypes,input_formats,output_shapes,output_dtypes,"
    "output_formats,attrs,duration_us,trust,workload"
)
MUL = (
    '910 gen1 (30 cores),Mul,Elementwise,builtin,"{shape};",FLOAT;FLOAT,ND;ND,'
    '"{shape}",FLOAT,ND,,{us},A,w'
)


def table(folder: Path, *lines: str, name: str = "t.csv", more: Sequence[str] = ()) -> Path:
    """A table with the usual header, and more columns."""
    path = folder / name
    text = "\n".join([",".join([HEADER, *more]), *lines]) + "\n"
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_row_becomes_a_task_with_its_scalar(tmp_path: Path, name: str) -> None:
    (row,) = read_rows(table(tmp_path, MUL.format(shape="4,8", us=2.5), name=name))
    assert row.soc == "Ascend910B"
    assert row.duration_us == 2.5
    assert row.task is not None
    assert [spec.shape for spec in row.task.inputs if spec] == [(4, 8), ()]
    assert row.task.outputs[0].shape == (4, 8)


@pytest.mark.parametrize(("second", "asked"), [("", False), ("64,8", True)])
def test_of_a_constant_a_graph_asks_no_gradient(tmp_path: Path, second: str, asked: bool) -> None:
    line = (
        f'910 gen1 (30 cores),MaximumGrad,Elementwise,builtin,"64,8;{second};64,8",'
        f'FLOAT;FLOAT;FLOAT,ND;ND;ND,"64,8;{second}",FLOAT;FLOAT,ND;ND,,9,A,w,graph'
    )
    (row,) = read_rows(table(tmp_path, line, more=["state"]))
    assert row.task is not None
    assert row.task.attributes["grad_y"] is asked


def test_rows_that_cannot_be_modelled_say_why(tmp_path: Path) -> None:
    rows = list(
        read_rows(
            table(
                tmp_path,
                MUL.format(shape="4,8", us=2.5).replace(",Mul,", ",NoSuchOperator,"),
                MUL.format(shape="4,8", us=2.5).replace("910 gen1 (30 cores)", "H100"),
                MUL.format(shape="4,x", us=2.5),
                MUL.format(shape="4,8", us=2.5).replace("FLOAT;FLOAT", "FLOAT99;FLOAT"),
            )
        )
    )
    reasons = [each.reason for each in replay(rows)]
    assert all(reasons)
    assert "NoSuchOperator" in reasons[0]
    assert "H100" in reasons[1]
    assert accuracy(replay(rows)).modelled == 0


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("chip,op\n1,2\n", "lacks the columns"),
        (HEADER + "\n" + MUL.format(shape="2", us="?"), "line 2"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: str, word: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(FileError, match=word):
        list(read_rows(path))


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        list(read_rows(tmp_path / "none.csv"))
    broken = tmp_path / "t.csv.gz"
    broken.write_bytes(gzip.compress(b"x" * 500)[:30])
    with pytest.raises(FileError):
        list(read_rows(broken))


def test_the_state_of_l2_shows_in_the_time(tmp_path: Path) -> None:
    (row,) = read_rows(table(tmp_path, MUL.format(shape="1024,1024", us=9.0)))
    cold, warm = (predict(row, mode).simulated_us for mode in ("cold", "warm"))
    assert cold is not None
    assert warm is not None
    assert warm < cold


@pytest.mark.parametrize("shape", ["7,13", "999,1009", "20000,20011"])
def test_rows_of_loops_find_what_the_turn_before_left(tmp_path: Path, shape: str) -> None:
    """What fits is there; what is larger has to be written back too."""
    (row,) = read_rows(table(tmp_path, MUL.format(shape=shape, us=9.0)))
    loop, *others = (replace(row, start=how) for how in ("loop", "cleared", "flushed"))
    times = [predict(each, "in_graph").simulated_us or 0.0 for each in (loop, *others)]
    assert times[0] <= 1.02 * times[1]
    assert times[1] <= times[2]
    if shape == "999,1009":
        assert times[0] < 0.9 * times[1]
    assert {start_of(loop, mode) for mode in ("cold", "warm")} == {"cold", "warm"}
    assert start_of(row, "in_graph") == "in_graph"


def test_masks_of_loops_come_from_ai_cpus(tmp_path: Path) -> None:
    """They cast them in every turn, for kernels of the framework."""
    line = '910B4,LogicalNot,,{impl},"{shape}",BOOL,,"{shape}",BOOL,,,9.0,A,w,{state}'
    told = [("builtin", "loop"), ("custom", "loop"), ("builtin", "graph")]
    lines = [line.format(impl=impl, state=state, shape="256,384") for impl, state in told]
    rows = list(read_rows(table(tmp_path, *lines, more=("state",))))
    assert [row.role.cast_masks for row in rows] == [True, False, False]
    masks, mine = (predict(row, "in_graph").simulated_us or 0.0 for row in rows[:2])
    cpus = load_profile("Ascend910B4").ai_cpu
    assert masks - mine == pytest.approx(256 * 384 / cpus.cache_gbps / 1e3)


STARTS = {
    ("", ""): "",
    ("graph", ""): "",
    ("Graph", "yes"): "warm",
    ("graph", "no"): "uncached",
    ("graph", "weights"): "prefetched",
    ("loop", ""): "loop",
    ("loop", "yes"): "loop",
    ("loop", "no"): "flushed",
    ("eager", ""): "",
    ("eager", "no"): "uncached",
    ("loop", "False"): "flushed",
    ("loop", "cleared"): "cleared",
    ("warm", ""): "warm",
    ("cold", ""): "uncached",
    ("between", ""): "between",
}


def test_a_row_says_what_ran_before(tmp_path: Path) -> None:
    """In two columns, whatever its workload and its notes say."""
    told = [
        MUL.format(shape="8,8", us=9.0).removesuffix("w")
        + f"{text},{state},{warm},mean of all calls in a loop; weights prefetched (warm L2)"
        for text in ("w", "benchmark loop (L2-warm)")
        for state, warm in STARTS
    ]
    rows = read_rows(table(tmp_path, *told, more=("state", "warm", "notes")))
    assert [row.start for row in rows] == [*STARTS.values()] * 2


@pytest.mark.parametrize(
    ("state", "warm", "why"),
    [
        ("lop", "", "state 'lop'"),
        ("loop", "weights", "warm 'weights'"),
        ("between", "yes", "'yes'"),
    ],
)
def test_what_nobody_can_start_from_is_said(
    tmp_path: Path, state: str, warm: str, why: str
) -> None:
    line = MUL.format(shape="8,8", us=9.0) + f",{state},{warm}"
    (row,) = read_rows(table(tmp_path, line, more=("state", "warm")))
    assert predict(row, "in_graph").simulated_us is None
    assert why in predict(row, "in_graph").reason


@pytest.mark.parametrize(
    ("chip", "soc"),
    [
        ("910A", "Ascend910A"),
        ("Ascend910B4-1", "Ascend910B4-1"),
        ("310p3", "Ascend310P3"),
        ("Atlas 800I A2", "Ascend910B4"),
        ("A3", "Ascend910_9391"),
        ("910_93 (A3)", "Ascend910_9391"),
        ("910 gen1", "Ascend910B"),
        ("910B (A2, bin unknown)", ""),
        ("910B1 or 910B2", ""),
    ],
)
def test_chips_and_products_go_by_all_their_names(tmp_path: Path, chip: str, soc: str) -> None:
    line = MUL.format(shape="8,8", us=9.0).replace("910 gen1 (30 cores)", f'"{chip}"')
    (row,) = read_rows(table(tmp_path, line))
    assert row.soc == soc
    found = predict(row, "in_graph")
    assert (found.simulated_us is None) is not bool(soc)
    assert soc or repr(chip) in found.reason


def test_what_optimizers_update_comes_from_memory(tmp_path: Path) -> None:
    """Rounded and folded weights do; gradients on their way don't, nor tensors of other steps."""
    line = '910 gen1 (30 cores),{op},,builtin,"{reads}",{kinds},,"{writes}",{made},,,9.0,A,{step}'
    momentum = {"reads": "511,769;511,769;1;511,769;1", "kinds": ";".join(["FLOAT"] * 5)}
    momentum |= {"op": "ApplyMomentum", "writes": "511,769", "made": "FLOAT", "step": "net"}
    cast = {"op": "Cast", "reads": "511,769", "kinds": "FLOAT", "writes": "511,769"}
    cast |= {"made": "FLOAT16", "step": "net"}
    others = [
        cast | {"step": "another net"},
        cast | {"op": "Neg", "made": "FLOAT"},
        cast | {"kinds": "FLOAT16", "made": "FLOAT"},
        cast | {"reads": "769,511", "writes": "769,511"},
    ]
    rows = read_rows(table(tmp_path, *(line.format(**each) for each in (cast, momentum, *others))))
    first, _, *rest = rows
    assert first.role.streams
    assert not any(row.role.streams for row in rest)
    streamed, found = (predict(row, "in_graph").simulated_us or 0.0 for row in (first, rest[0]))
    assert 0 < found < 0.95 * streamed
    cold = (predict(row, "cold").simulated_us for row in (first, rest[0]))
    assert len(set(cold)) == 1


def test_parameters_are_laid_out_anew_just_after_their_rounding(tmp_path: Path) -> None:
    """Halves of what an optimizer of the same step updates, in whatever layer; nothing else."""
    line = '910 gen1 (30 cores),{op},,builtin,"{shape}",{kind},ND,'
    line += '"33,49,16,16",{kind},FRACTAL_NZ,,9.0,A,{step}'
    momentum = (
        '910 gen1 (30 cores),ApplyMomentum,,builtin,"777,515;777,515;1;777,515;1",'
        'FLOAT;FLOAT;FLOAT;FLOAT;FLOAT,,"777,515",FLOAT,,,9.0,A,net'
    )
    half = {"op": "TransData", "shape": "777,515", "kind": "FLOAT16", "step": "net"}
    others = [
        half | {"step": "another net"},
        half | {"shape": "515,777"},
        half | {"kind": "FLOAT"},
        half | {"op": "Transpose"},
    ]
    lines = [momentum, *(line.format(**each) for each in (half, *others))]
    _, first, *rest = read_rows(table(tmp_path, *lines))
    assert start_of(first, "in_graph") == "warm"
    assert start_of(first, "cold") == "cold"
    assert {start_of(row, "in_graph") for row in rest} == {"in_graph"}


def test_lists_of_parameters_are_updated_whatever_shape_they_come_back_in(tmp_path: Path) -> None:
    """Foreach operators give back flat tensors; a product reads their weights as they are."""
    foreach = (
        '910B2,ForeachAddList,,builtin,"97,1031;7;97,1031;7;",FLOAT;FLOAT;FLOAT;FLOAT;FLOAT,,'
        '"100007;7",FLOAT;FLOAT,,,9.0,A,{step}'
    )
    product = (
        '910B2,MatMulV2,,builtin,"32,97;97,1031",FLOAT;FLOAT,ND;ND,"32,1031",FLOAT,ND,,9.0,A,net'
    )
    for step, streams in (("net", True), ("another net", False)):
        rows = list(read_rows(table(tmp_path, foreach.format(step=step), product)))
        assert rows[1].role.streams is rows[1].role.amid is streams
        assert not rows[0].role.amid


def test_weights_that_are_used_among_others_push_modified_bytes_out(tmp_path: Path) -> None:
    """What an optimizer reads is as old as what it pushes out, and a copy is of what is kept."""
    line = '910B2,{op},,builtin,"{reads}",{kinds},,"{writes}",FLOAT,,,{us},A,net'
    shape = "1021,2053"
    given = {"ReduceSum": shape, "MatMulV2": f"31,1021;{shape}", "TensorMove": shape, "Neg": shape}
    made = {"ReduceSum": "1021", "MatMulV2": "31,2053", "TensorMove": shape, "Neg": shape}
    momentum = {"op": "ApplyMomentum", "reads": f"{shape};{shape};1;{shape};1", "writes": shape}
    texts = [momentum] + [{"op": op, "reads": given[op], "writes": made[op]} for op in given]
    lines = []
    for us, text in enumerate(texts, 1):
        kinds = ";".join("FLOAT" for _ in text["reads"].split(";"))
        lines.append(line.format(**text, kinds=kinds, us=us))
    rows = {row.op: row for row in read_rows(table(tmp_path, *lines))}
    assert {op for op, row in rows.items() if row.role.amid} == {"MatMulV2", "TensorMove"}
    for op in ("MatMulV2", "TensorMove"):
        full = predict(rows[op], "in_graph").simulated_us or 0.0
        empty = (
            predict(
                replace(rows[op], role=replace(rows[op].role, amid=False)), "in_graph"
            ).simulated_us
            or 0.0
        )
        assert full > 1.15 * empty


def test_weights_come_from_memory_in_whatever_layout(tmp_path: Path) -> None:
    """Of a product in a graph, unless it has loaded them ahead; gradients were made just now."""
    line = '910B2,{op},,builtin,"{a};{b}",FLOAT16;FLOAT16,ND;{kind},"{c}",FLOAT16,ND,'
    line += "{attrs},9.0,A,net,"
    plain = {"op": "MatMulV2", "a": "16,4096", "b": "4096,4096", "kind": "ND", "c": "16,4096"}
    plain |= {"attrs": ""}
    laid = plain | {"op": "MatMul", "b": "256,256,16,16", "kind": "FRACTAL_NZ"}
    turned = plain | {"a": "4096,16", "attrs": "transpose_x1=true"}
    of_heads = plain | {"op": "BatchMatMulV2", "a": "8,2,1024", "b": "8,1024,2048", "c": "8,2,2048"}
    lines = [line.format(**each) for each in (plain, laid, turned, of_heads)]
    lines = [each + warm for each in lines for warm in ("", "weights", "yes")]
    rows = list(read_rows(table(tmp_path, *lines, more=("warm",))))
    times = [predict(row, "in_graph").simulated_us or 0.0 for row in rows]
    memory = load_profile("Ascend910B2").memory
    load_us = 2 * 4096 * 4096 / memory.hbm_nominal_gbps / memory.hbm_sustained_fraction / 1e3
    for at in (0, 3):
        graph, ahead, warm = times[at : at + 3]
        assert graph > load_us > ahead
        assert warm < ahead < 1.3 * warm  # whose code is in the cores, too
    for at in (6, 9):
        assert times[at] == times[at + 1] < load_us


def test_the_rarest_task_is_looked_for_in_all_tables_of_a_network(tmp_path: Path) -> None:
    """Workloads up to the first comma, in one state."""
    line = MUL.format(shape="64,37", us=9.0).removesuffix("w")
    counted = (
        ('"net, once",3,graph', False),
        ('"net, layers",81,graph', True),
        ("other,81,graph", False),
        ('"net, called",81,eager', False),
    )
    lines = [line + each for each, _ in counted]
    rows = list(read_rows(table(tmp_path, *lines, more=("count", "state"))))
    assert [row.role.layered for row in rows] == [each for _, each in counted]


def test_what_a_step_runs_in_every_layer_finds_some_of_its_code(tmp_path: Path) -> None:
    """By how often it ran, next to the rarest task of its workload; other columns go first."""
    counted = {2: False, 7: False, 8: True, 64: True}
    lines = [MUL.format(shape="64,37", us=9.0) + f",{count}," for count in counted]
    lines = [line.replace("910 gen1 (30 cores)", "910B2") for line in lines]
    lines += [lines[-1] + "loop", lines[-1].replace(",64,", ",,")]
    rows = list(read_rows(table(tmp_path, *lines, more=("count", "state"))))
    assert [row.role.layered for row in rows] == [*counted.values(), False, False]
    assert [row.start for row in rows] == [""] * 4 + ["loop", ""]
    once, again = (predict(row, "in_graph").simulated_us or 0.0 for row in (rows[0], rows[3]))
    launch = load_profile("Ascend910B2").launch
    assert 0 < again < once - 0.9 * (1 - launch.code_lost_share) * launch.code_us


def test_what_is_called_between_graphs_waits_for_its_code(tmp_path: Path) -> None:
    """By its state, or where others of its workload are compiled for one shape."""
    states = [("w", "dynamic", ""), ("graph", "dynamic", ""), ("graph ", "static", "")]
    states += [
        ("graph", "dynamic", "graph"),
        ("graph", "static", ""),
        ("graph", "dynamic", "eager"),
    ]
    states += [("w", "dynamic", "eager"), ("w", "", "between")]
    plain = MUL.format(shape="64,37", us=9.0).replace("910 gen1 (30 cores)", "910B2")
    lines = [plain.removesuffix("w") + ",".join(each) for each in states]
    rows = list(read_rows(table(tmp_path, *lines, more=("op_state", "state"))))
    between = ["", "between", "", "", "", "between", "", "between"]
    assert [row.start for row in rows] == between
    assert [row.role.one_shape for row in rows] == [each[1] == "static" for each in states]
    once, far = (predict(row, "in_graph").simulated_us or 0.0 for row in rows[:2])
    assert far - once == pytest.approx(load_profile("Ascend910B2").launch.code_far_us, rel=0.1)


def test_statistics_against_numpy(tmp_path: Path) -> None:
    rows = list(
        read_rows(
            table(tmp_path, *(MUL.format(shape=f"{2**n},64", us=1.5 * 2**n) for n in range(8)))
        )
    )
    predictions = list(replay(rows, l2="cold"))
    errors = np.array([each.error for each in predictions], float)
    found = accuracy(predictions)
    assert found.rows == found.modelled == 8
    assert found.median_abs_error == pytest.approx(np.median(np.abs(errors)))
    assert found.p90_abs_error == pytest.approx(np.quantile(np.abs(errors), 0.9))
    assert found.rank_correlation == pytest.approx(1.0)


def test_rank_correlation_with_ties() -> None:
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([4.0, 3, 2, 1])) == pytest.approx(-1.0)
    assert spearman(np.array([1.0, 1, 2]), np.array([5.0, 5, 9])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 1]), np.array([1.0, 2])) is None


def synthetic_rows(folder: Path, values: dict[str, float]) -> list[MeasuredRow]:
    """Rows whose times a simulator with other constants has produced."""
    lines = [MUL.format(shape=f"{size}", us=1.0) for size in (64, 1024, 9000, 70_000, 900_000)]
    profile = with_values(load_profile("Ascend910B"), values)
    rows = []
    for row in read_rows(table(folder, *lines)):
        assert row.task is not None
        truth = simulate_task(profile, row.task, "cold").duration_us
        rows.append(MeasuredRow(**{**vars(row), "duration_us": truth}))
    return rows


def test_a_fit_finds_the_constant_that_made_the_times(tmp_path: Path) -> None:
    key = "launch.base_us"
    published = value_of(load_profile("Ascend910B"), key)
    rows = synthetic_rows(tmp_path, {key: 2 * published})
    chosen = [each for each in CONSTANTS if each.key == key]
    found = fit(rows, chosen, l2="cold", weight=0.0)
    assert found.loss_after < found.loss_before / 3
    assert math.isclose(found.values[key], 2 * published, rel_tol=0.15)


def test_a_strong_pull_keeps_the_published_value(tmp_path: Path) -> None:
    key = "launch.base_us"
    rows = synthetic_rows(tmp_path, {key: 3.0})
    chosen = [each for each in CONSTANTS if each.key == key]
    found = fit(rows, chosen, l2="cold", weight=1e6)
    assert found.values[key] == pytest.approx(found.published[key])


def _rows_of(tmp_path: Path, *lines: tuple[str, str, float]) -> list[Prediction]:
    """Predictions for products of 64 numbers: workload, name of the operator, measured time."""
    text = [
        MUL.format(shape="64", us=us).replace(",Mul,", f",{op},").removesuffix(",w")
        + f",{workload}"
        for workload, op, us in lines
    ]
    return list(replay(list(read_rows(table(tmp_path, *text))), l2="cold"))


def test_spreads_count_groups_of_a_network_not_rows(tmp_path: Path) -> None:
    few = [("net_1", "Mul", 1.0), ("net_2", "Mul", 1.0), ("other_1", "Add", 4.0)]
    found = spreads(_rows_of(tmp_path, *few))
    assert found.classes["elementwise"] == found.everything  # one class: pulled to itself
    often = spreads(_rows_of(tmp_path, *few, *[("net_3", "Mul", 1.0)] * 50))
    assert often.everything == found.everything  # the same batch 50 times says nothing new


def test_spreads_of_a_chip_are_pulled_to_its_microarchitecture(tmp_path: Path) -> None:
    rows = _rows_of(tmp_path, ("net", "Mul", 1.0), ("net", "Add", 4.0))
    alone = spreads(rows)
    wide = {at: (low - 1.4, high + 1.4) for at, (low, high) in alone.everything.items()}
    pulled = spreads(rows, alone._replace(everything=wide, classes={}))
    for at, (low, high) in alone.everything.items():
        assert wide[at][0] <= pulled.everything[at][0] < low
        assert high < pulled.everything[at][1] <= wide[at][1]


def test_bands_of_many_groups_hold_four_of_five(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    networks = [f"net{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(200)]
    times = np.exp(rng.normal(0.5, 0.3, 400))
    lines = zip(networks, ["Mul"] * 200, times[:200].tolist(), strict=True)
    seen = _rows_of(tmp_path, *lines)
    known, simulated = calibration_of(seen, {}), seen[0].simulated_us or 0.0
    later = (replace(seen[0].row, duration_us=us) for us in times[200:].tolist())
    assert 0.75 < np.mean([in_band(known, row, simulated) for row in later]) < 0.9


def test_bands_go_with_the_simulated_time(tmp_path: Path) -> None:
    """Small kernels that are simulated well have narrow bands beside large ones that aren't."""
    lines = [
        MUL.format(shape=shape, us=us).removesuffix("w") + f"net{chr(97 + n)}"
        for n in range(20)
        for shape, us in (("64", 1.8), ("64,100000", 60 * 1.5 ** (n % 3 - 1)))
    ]
    rows = list(replay(list(read_rows(table(tmp_path, *lines))), l2="cold"))
    small, large = rows[0].simulated_us or 0.0, rows[1].simulated_us or 0.0
    assert small < 5 < large
    known = calibration_of(rows, {})
    chip = load_profile("Ascend910B")
    widths = []
    for time in (small, (small * large) ** 0.5, large):
        band = measured_band(known, chip, "Mul", time)
        assert band is not None
        assert band.low <= 1 <= band.high
        widths.append(band.high / band.low)
    assert widths[0] < widths[1] <= widths[2]
    assert measured_band(known, chip, "Mul", 1e9) == measured_band(known, chip, "Mul", 1e6)


def test_bands_are_stretched_to_workloads_that_came_later(tmp_path: Path) -> None:
    """Both ends in logarithms, until bands of all others hold four of five of their rows.

    They are narrowed where they hold more.
    """
    rng = np.random.default_rng(1)
    own = [
        (f"net{chr(97 + n)}", "Mul", us) for n, us in enumerate(np.exp(rng.normal(0.4, 0.1, 20)))
    ]
    off = [("later", "Mul", us) for us in np.exp(rng.normal(0.4, 0.15, 60))]
    rows = _rows_of(tmp_path, *own, *off)
    kind = load_profile("Ascend910B").architecture
    assert stretches(rows) == {kind: 1.0}
    rows = [
        replace(each, row=replace(each.row, later=each.row.workload == "later")) for each in rows
    ]
    found = stretches(rows)
    assert 1.0 < found[kind] < 2.0
    others = [each for each in rows if not each.row.later]
    inside = [
        np.mean([in_band(calibration_of(others, told), each.row, each.simulated_us or 0.0)
                 for each in rows if each.row.later])
        for told in ({}, found)
    ]  # fmt: skip
    assert inside[0] < 0.77 <= inside[1]  # ends are rounded
    near = [("later", "Mul", us) for us in np.exp(rng.normal(0.4, 0.05, 60))]
    rows = [
        replace(each, row=replace(each.row, later=each.row.workload == "later"))
        for each in _rows_of(tmp_path, *own, *near)
    ]
    assert stretches(rows)[kind] < 1.0


def test_networks_are_workloads_without_sizes() -> None:
    assert network("bert_128_32 train step (MindSpore)") == network("bert_32_32 train step")
    assert network("resnet50_16_224_224 train step") != network("yolov5_16 train step")
    assert (
        network("Some-VL decode step, batch 4")
        == network("Some-VL serving step, text")
        == "Some-VL"
    )


def test_a_network_of_many_operators_counts_for_few_of_one(tmp_path: Path) -> None:
    """Five operators of 20 rows each count for 4.7 networks with one row, beside 100 of them."""
    names = ("Mul", "Add", "Sub", "Maximum", "Minimum")
    many = [("many", op, 16.0) for op in names for _ in range(20)]
    others = [(f"net{chr(97 + n // 26)}{chr(97 + n % 26)}", "Mul", 1.0) for n in range(100)]
    (low, high), *_ = spreads(_rows_of(tmp_path, *many, *others)).everything.values()
    assert high == pytest.approx(low)


def test_errors_of_a_step_are_weighted_by_time(tmp_path: Path) -> None:
    rows = _rows_of(tmp_path, ("step", "Mul", 1.0), ("step", "Add", 9.0), ("step", "What", 10.0))
    simulated = sum(each.simulated_us or 0.0 for each in rows)
    assert by_workload(rows) == {}  # too few rows to say anything
    (found,) = by_workload(rows, least=2).values()
    assert (found.rows, found.measured_us, found.modelled_ratio) == (2, 10.0, 0.5)
    assert found.error == pytest.approx(simulated / 10 - 1)
    known = [each for each in rows if each.simulated_us is not None]
    apart = sum(abs(each.simulated_us - each.row.duration_us) for each in known)
    assert found.absolute_error == pytest.approx(apart / 10)


@pytest.mark.parametrize(
    ("size", "time_us", "cube_busy"),
    [(1536, 38.8, 0.545), (3072, 206.7, 0.790), (6144, 1506.0, 0.867), (7680, 3168.0, 0.806)],
)
def test_published_products_on_a_die_of_atlas_a3(
    size: int, time_us: float, cube_busy: float
) -> None:
    """Source: README of the GEMM example of PTO, one die of an Atlas A3, float16 to float32.

    Its kernel isn't MatMulV3's, which is about as fast here: 7, 9, 0 and 57 us less for 1536, 3072,
    6144 and 7680 rows.
    """
    square = (size, size)
    task = TaskSpec(
        "MatMulV3",
        (TensorSpec(square, "float16"), TensorSpec(square, "float16")),
        (TensorSpec(square, "float32"),),
    )
    found = simulate_task(load_profile("Ascend910_9391"), task, "cold")
    assert 0.8 * time_us < found.duration_us < 1.02 * time_us
    assert found.tasks[0].pipes["CUBE"] == pytest.approx(cube_busy, abs=0.12)


def test_small_kernels_start_on_a3_as_on_a2() -> None:
    """One element of a decode step takes 1.26 us on A3 (Cast), as 1.2 to 1.4 on A2."""
    numbers = TensorSpec((64,), "float16"), TensorSpec((64,), "float32")
    task = TaskSpec("Cast", numbers[:1], numbers[1:])
    a3, a2 = (
        simulate_task(load_profile(soc), task, "in_graph").duration_us
        for soc in ("Ascend910_9391", "Ascend910B1")
    )
    assert a3 == pytest.approx(a2, rel=0.05)
    assert a3 == pytest.approx(1.26, rel=0.25)


def test_rows_that_another_table_asks_are_left_out(tmp_path: Path) -> None:
    """Whatever they are called and how long they took; others stay."""
    known = table(tmp_path, MUL.format(shape="64,64", us=2.0), name="known.csv")
    lines = [MUL.format(shape=shape, us=3.0) for shape in ("64,64", "64,65")]
    lines += [lines[0].replace("910 gen1 (30 cores)", name) for name in ("Ascend910B", "910B2")]
    mine = table(tmp_path, *lines, name="mine.csv")
    assert [each.row.line for each in validate(mine).predictions] == [2, 3, 4, 5]
    found = validate(mine, without=known)
    assert [each.row.line for each in found.predictions] == [3, 5]


def test_what_came_later_is_told_apart(tmp_path: Path) -> None:
    lines = [MUL.format(shape=f"64,{size}", us=3.0) + f",{later}"
             for size, later in ((8, ""), (16, "yes"), (32, "yes"))]  # fmt: skip
    found = validate(table(tmp_path, *lines, more=("later",)))
    assert found.later is not None
    assert (found.overall.rows, found.later.rows) == (3, 2)
    assert found.as_dict()["later"]["rows"] == 2
    assert validate(table(tmp_path, MUL.format(shape="8", us=3.0))).later is None


def test_laid_out_weights_are_of_a_kernel_for_one_shape(tmp_path: Path) -> None:
    """Where the row doesn't say; products of frameworks and of loops aren't."""
    line = (
        '910B2,{op},,builtin,"3,1024;{b}",FLOAT16;FLOAT16,ND;{kind},"3,2560",FLOAT16,ND,,9.0,A,w,'
    )
    laid = {"op": "MatMulV2", "b": "64,160,16,16", "kind": "FRACTAL_NZ"}
    told = [
        (line.format(**laid) + ",", True),
        (line.format(**laid) + "dynamic,", False),
        (line.format(**laid) + ",loop", False),
        (line.format(**laid | {"op": "MatMulV3"}) + ",", False),
        (line.format(**laid | {"b": "1024,2560", "kind": "ND"}) + ",", False),
        (line.format(**laid | {"b": "1024,2560", "kind": "ND"}) + "static,", True),
    ]
    rows = read_rows(table(tmp_path, *(text for text, _ in told), more=("op_state", "state")))
    assert [row.role.one_shape for row in rows] == [each for _, each in told]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells a process of it")
def test_workers_end_with_the_process_that_asks_even_when_it_is_killed() -> None:
    """They hold its standard output open as long as they are there."""
    script = (
        "import os, signal\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from npusim.validation import replay\n"
        "pool = ProcessPoolExecutor(2, None, replay._begin)\n"
        "list(pool.map(os.getpgid, (0, 0)))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=100, check=False
    )
    assert done.returncode == -9, done.stderr
