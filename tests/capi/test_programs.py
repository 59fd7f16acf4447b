"""C++ programs, compiled unchanged, give on the simulator what the operator pages print."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from npusim import Device
from npusim.capi.runtime.hostmemory import HostMemory
from support.capi import Ran, Workshop, needs_capi, needs_cffi, workshop

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [needs_capi, needs_cffi]

# What the samples of the operator pages print (GroupNormBackward's gradInput is rounding noise),
# and a matrix product.
ROWS = ([1.125, 1.625, 2.125], [4.125, 4.625, 5.125], [7.125, 7.625, 8.125])
PRINTED: dict[str, list[float]] = {
    "RoiAlignV2Backward": [x for row in ROWS for _ in range(2) for x in np.repeat(row, 2)],
    "UpsampleNearestExact1dBackward": [1, 0, 2, 3, 4, 0, 5],
    "MultiScaleDeformableAttentionGrad": [8] * 8,
    "GroupNormBackward": [0] * 24 + [-75.896866, 2.8968267, 155.84929] + [68, 100, 132],
    "BinaryCrossEntropyBackward": [-0.09523809] * 4,
    "Matmul": [4, 5, 10, 11],
}
NOT_OFFERED = {
    "Ascend910B3": set[str](),
    "Ascend910A": {"UpsampleNearestExact1dBackward", "MultiScaleDeformableAttentionGrad"},
    "Ascend310P3": {
        "UpsampleNearestExact1dBackward",
        "MultiScaleDeformableAttentionGrad",
        "GroupNormBackward",
    },
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return workshop(tmp_path_factory)


def sections(out: str) -> dict[str, str]:
    """What a program printed for each operator, which it names in lines that begin with ##."""
    parts = re.split(r"^## (\w+)\n", out, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("soc", NOT_OFFERED)
def test_every_operator_prints_its_pages_numbers(shop: Workshop, soc: str) -> None:
    said = shop.run(shop.program("operators"), *PRINTED, soc=soc)
    assert said.code == len(NOT_OFFERED[soc]), said.err
    for op, text in sections(said.out).items():
        if op in NOT_OFFERED[soc]:
            assert text == "first phase: 561003\ncode: 561003\n"
            continue
        printed = [float(number) for number in re.findall(r"is: (\S+)", text)]
        np.testing.assert_allclose(printed, PRINTED[op], rtol=0, atol=1e-4, err_msg=op)
        assert text.endswith("code: 0\n")


def test_a_weight_is_multiplied_in_the_blocks_that_it_was_brought_into(shop: Workshop) -> None:
    said = shop.run(shop.program("weights"), NPUSIM_LEAKS="1")
    assert (said.code, said.err) == (0, "npusim: everything was given back\n")
    printed: dict[str, list[float]] = {}
    for name, value in re.findall(r"(\w+)\[\d*\] is: (\S+)", said.out):
        printed.setdefault(name, []).append(float(value))
    x, weight = (
        (np.arange(rows * columns) % (7 + place) - 3.0).reshape(rows, columns)
        for place, (rows, columns) in enumerate(((3, 40), (40, 24)))
    )
    assert printed["room"] == [48 * 32]
    assert printed["format"] == [29]  # FRACTAL_NZ
    assert printed["out"] == (x @ weight).ravel().tolist()
    assert printed["weight"] == weight.ravel().tolist()
    assert printed["again"] == [161002]  # it isn't ND any more


def test_standard_operators_take_scalars_lists_and_data_types(shop: Workshop) -> None:
    said = shop.run(shop.program("standard"), NPUSIM_LEAKS="1")
    assert (said.code, said.err) == (0, "npusim: everything was given back\n")
    printed: dict[str, list[float]] = {}
    for name, value in re.findall(r"(\w+)\[\d*\] is: (\S+)", said.out):
        printed.setdefault(name, []).append(float(value))
    rows = np.array([[1, 2, 10, 20], [3, 4, 30, 40]], float)
    softmax = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    assert printed["add"] == [11, 22, 33, 44]
    assert printed["cat"] == rows.ravel().tolist()
    np.testing.assert_allclose(printed["softmax"], softmax.ravel(), atol=2e-6)
    assert printed["cast"] == [10, 20, 30, 40]


def test_a_fault_shows_at_the_synchronise_and_the_next_call_runs(shop: Workshop) -> None:
    said = shop.run(shop.program("operators"), "OutOfRange", "BinaryCrossEntropyBackward")
    parts = sections(said.out)
    assert parts["OutOfRange"] == "synchronize: 507035\ncode: 507035\n"
    assert parts["BinaryCrossEntropyBackward"].count("-0.095238") == 4
    assert said.code == 1


def test_threads_of_a_program_each_have_a_device_and_a_stream(shop: Workshop) -> None:
    said = shop.run(shop.program("operators"), "Threads", NPUSIM_LEAKS="1")
    assert (said.code, said.err) == (0, "npusim: everything was given back\n")
    assert said.out.count("is: -0.095238\n") == 3 * 5 * 4


def test_a_chip_that_nobody_knows_ends_at_init(shop: Workshop) -> None:
    said = shop.run(shop.program("operators"), soc="Ascend910Z")
    assert said.out == "aclInit failed. ERROR: 500000\n"
    assert said.err.startswith("npusim: NPUSIM_SOC=Ascend910Z: unknown chip")


def test_streams_have_lanes_of_their_own_in_the_trace(shop: Workshop, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    words = ("exec", shop.program("streams"), "-s", "910A", "--trace", path, "--", tmp_path)
    assert shop.npusim(*words).code == 0
    lanes: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X":
            span = (event["ts"], event["ts"] + event["dur"])
            lanes.setdefault((event["pid"], event["tid"]), []).append(span)
    assert {("tasks", "stream"), ("stream 2", "tasks")} <= set(lanes)
    for spans in lanes.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(spans))


def test_a_program_needs_nothing_but_itself(shop: Workshop) -> None:
    """Started without PATH, PYTHONPATH or an activated environment."""
    import subprocess

    program = shop.program("cross_entropy")
    done = subprocess.run([program], capture_output=True, text=True, env={}, check=True)
    assert done.stdout == "".join(f"result[{i}] is: -0.095238\n" for i in range(4))
    assert done.stderr == "npusim: NPUSIM_SOC is not set, simulating Ascend910B3\n"


def test_exec_adds_the_table_and_writes_json_and_trace(shop: Workshop, tmp_path: Path) -> None:
    files = {"--json": tmp_path / "run.json", "--trace": tmp_path / "trace.json"}
    options = [word for pair in files.items() for word in pair]
    said = shop.npusim("exec", shop.program("cross_entropy"), "-s", "910B3", *options)
    assert said.code == 0, said.err
    printed, _, table = said.out.partition("\n\n")
    assert printed.splitlines()[-1] == "result[3] is: -0.095238"
    want = Device("Ascend910B3").estimate(
        "aclnnBinaryCrossEntropyBackward",
        **dict.fromkeys(("gradOutput", "self", "target", "weightOptional"), "fp32[2,2]"),
        reduction=0,
    )
    assert "on Ascend910B3" in table
    assert f"{want.cycles:,}" in table
    assert "4x[2,2] -> [2,2]" in table
    assert want.bound in table
    document = json.loads(files["--json"].read_text())
    (call,) = document["calls"]
    assert document["exit_code"] == 0
    assert call["duration_us"] == want.duration_us
    assert call["band_us"] == list(want.band_us)
    assert call["tensors"]["self"] == {
        "dtype": "FLOAT", "shape": [2, 2], "format": "ND", "io": "in"
    }  # fmt: skip
    events = json.loads(files["--trace"].read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == len(want.tasks) + len(list(want.timeline.slices()))
    again = shop.npusim("exec", shop.program("cross_entropy"), "-s", "910B3", *options)
    assert again.code == 2
    assert "already exists" in again.err
    assert "result" not in again.out  # the program was not run


def test_exec_hands_on_arguments_exit_code_and_reasons(shop: Workshop) -> None:
    program = shop.program("operators")
    said = shop.npusim("exec", program, "--", "GroupNormBackward", "OutOfRange", NPUSIM_SOC="310P3")
    assert said.code == 2  # of the program: two calls failed
    assert "## GroupNormBackward\nfirst phase: 561003" in said.out
    assert "note: no operator ran" in said.err
    reason = "aclnnGroupNormBackwardGetWorkspaceSize: ACLNN_ERR_INNER_FIND_KERNEL_ERROR (561003)"
    assert reason in said.err
    assert "Ascend310P3" in said.err


STREAMED = {"Ascend910B3": ml_dtypes.bfloat16, "Ascend910A": np.float16}


@pytest.mark.parametrize("soc", STREAMED)
def test_views_halves_streams_and_events_equal_the_python_api(
    shop: Workshop, tmp_path: Path, soc: str
) -> None:
    words = ("bf16",) if STREAMED[soc] is ml_dtypes.bfloat16 else ()
    said = shop.run(shop.program("streams"), tmp_path, *words, soc=soc, NPUSIM_LEAKS="1")
    assert said.code == 0, said.out + said.err
    assert said.err == "npusim: everything was given back\n"
    viewed, norm, low = python_calls(Device(soc), STREAMED[soc])
    for name, array in (
        ("viewed", viewed.outputs["out"].T),
        ("low", low.outputs["out"]),
        *norm.outputs.items(),
    ):
        stored = np.fromfile(tmp_path / f"{name}.bin", array.dtype)
        np.testing.assert_array_equal(stored, np.ascontiguousarray(array).ravel(), err_msg=name)
    times = {name: np.float32(text) for name, text in said.answers().items()}
    assert times.pop("before") == np.float32(number(0, 3))  # nothing was written before
    both_us = max(viewed.duration_us, norm.duration_us) + low.duration_us
    wanted_us = {
        "viewed_ms": viewed.duration_us,
        "norm_ms": norm.duration_us,
        "both_ms": both_us,
        "all_ms": both_us,
    }
    assert times == {name: np.float32(us / 1e3) for name, us in wanted_us.items()}


def test_a_stream_finds_in_l2_what_its_calls_before_left_there(
    shop: Workshop, tmp_path: Path
) -> None:
    """Twenty rounds on one stream, then one with memory and a stream of its own."""
    path = tmp_path / "run.json"
    said = shop.npusim("exec", shop.program("cycles"), "-s", "910B3", "--json", path, "--", "1")
    assert said.code == 0, said.err
    first, *rounds, alone = (each["duration_us"] for each in json.loads(path.read_text())["calls"])
    assert (len(rounds), alone) == (19, first)
    assert set(rounds) == {min(rounds)}
    assert rounds[0] < first


def number(i: Any, salt: int) -> Any:
    """As in streams.cpp."""
    return (1 + (i * 37 + salt) % 100) / 128


def python_calls(device: Device, low_dtype: Any) -> tuple[Any, Any, Any]:
    """The three calls of streams.cpp in Python."""

    def make(dtype: Any, salt: int, *shape: int) -> Any:
        return number(np.arange(np.prod(shape)), salt).reshape(shape).astype(dtype)

    single, half = np.float32, np.float16
    viewed = device.run(
        "aclnnBinaryCrossEntropyBackward",
        gradOutput=np.broadcast_to(make(single, 5, 1, 1), (32, 48)),
        self=make(single, 1, 48, 32).T,
        target=make(single, 2, 32, 64)[:, 8:56],
        reduction=1,
        out=make(single, 3, 48, 32).T,
    )
    norm = device.run(
        "aclnnGroupNormBackward",
        gradOut=make(half, 1, 2, 6, 40),
        input=make(half, 2, 2, 6, 40),
        mean=make(half, 3, 2, 3),
        rstd=make(half, 4, 2, 3),
        gamma=make(half, 5, 6),
        N=2,
        C=6,
        HxW=40,
        group=3,
        outputMask=[True] * 3,
    )
    low = device.run(
        "aclnnBinaryCrossEntropyBackward",
        gradOutput=make(low_dtype, 1, 30, 100),
        self=make(low_dtype, 2, 30, 100),
        target=make(low_dtype, 3, 30, 100),
        reduction=0,
    )
    return viewed, norm, low


# Attempts of misuse.cpp in its order, and the codes that they get.
ANSWERS = """
finalize_first 100001, device_before_init 0, reset_before_init 0, init_without_file 100000, init 0
init_twice 100002, malloc_without_device 107002, stream_without_device 107002, device_99 107001
device_negative 107001, reset_unset_device 107002, device 0
malloc_null 100000, malloc_zero 100000, malloc_too_much 207001, malloc_policy 100000
free_null 100000, free_inside 107000, free_host 107000, copy 0, copy_null 100000
copy_dest_max 107000, copy_past_end 107000, copy_before_start 107000, copy_back_too_much 107000
copy_wrong_way 107000, copy_device_as_host 107000, copy_unknown_kind 100000, copy_nothing 107000
copy_from_nowhere 107000, copy_to_nowhere 107000, set_past_end 107000, set_max_count 107000
free 0, free_twice 107000, copy_freed 107000, malloc_host 0
malloc_host_endless 207001, free_host_memory 0
free_host_twice 107000
stream_null 100000, destroy_stream 0, destroy_stream_twice 107000, destroy_null_stream 100000
synchronize_destroyed 107000, synchronize_invented 107000, failure_mode 100000
elapsed_null 100000, elapsed_unrecorded 107006, record_on_event 107000, elapsed_too_early 107006
elapsed_nothing 0, wait_unrecorded 0, synchronize_wait_unrecorded 107019, synchronize_again 0
destroy_event 0, destroy_event_twice 107000, record_destroyed 107000
other_device 0, stream_of_other_device 107003
tensor_without_dims null, tensor_negative null, tensor_of_rank_999 null, tensor_of_no_dtype null
array_without_values null, array_from_nowhere null
destroy_tensor 0, destroy_tensor_twice 161002, destroy_null 0
destroy_array_as_tensor 161002, size_of_null 161001, size_of_array 0, destroy_array 0
size_of_destroyed 161002, huge_tensor 161002, large_tensor 161002
tensor_says 2_2_3_2_5_7_1_1_2, shape_into_nothing 161001, destroy_list 0
destroy_member_of_destroyed_list 161002, scalar given, scalar_of_nothing null, size_of_list 0
list_has 1, destroy_scalar_list 0, destroy_scalar_of_list 161002, destroy_floats 0, half 0.0999756
copy_later 0, fill_later 0, not_yet 0_0, query 0, then -1_4_1, copy_later_into_freed 0
synchronize_copy_into_freed 0, fill_once_more 0, free_with_sync 0
memory_info 0, all_free 1, own_context 0
set_own_context 0, context 0, get_context 0
same_context 1, destroy_context 0, set_destroyed_context 107000, device_again 0
no_size 161001, no_executor 161001, null_self 161001, null_out 161001, wrong_dtype 161002
destroyed_tensor 161002, array_as_tensor 161002, invented_tensor 161002, planned 0
execute_nothing 161001, execute_other_operator 161002, execute_on_no_stream 361001
execute_null_workspace 161001, execute 0, execute_twice 161002, execute_tensor 161002
synchronize 0, make_repeatable 0, repeat_once 0, repeat_twice 0, synchronize_repeated 0
destroy_executor 0, execute_destroyed 161002, workspace_too_small 161002, workspace_on_host 0
synchronize_workspace 507035
synchronize_host_tensor 507035, synchronize_small_memory 507035, synchronize_freed_early 0
proper_call 0, proper_synchronize 0, proper_result -0.285714
message ACL_ERROR, message_again null
destroy_last_stream 0, reset 0, finalize 0, malloc_after_finalize 107002
plan_after_finalize 107002, synchronize_after_finalize 107002
finalize_twice 100037
"""
EXPECTED = dict(pair.split() for line in ANSWERS.strip().splitlines() for pair in line.split(", "))


WILD = ("copy_from_nowhere", "copy_to_nowhere", "array_from_nowhere")


def judge(said: Ran, *, without: tuple[str, ...] = ()) -> None:
    answers = {name: answer.replace(" ", "_") for name, answer in said.answers().items()}
    message = answers.pop("message")
    assert message.startswith("aclrtFree:_ACL_ERROR_RT_PARAM_INVALID_(107000):_0x77_was_not")
    answers.pop("Free")  # the remedy, in a line of its own
    expected = {name: code for name, code in EXPECTED.items() if name not in ("message", *without)}
    assert answers == expected
    assert list(answers) == list(expected)
    assert said.code == 0


def test_misuse_gets_codes_and_never_ends_the_program(shop: Workshop) -> None:
    wild = HostMemory().finds_wild_pointers  # a sandbox may forbid the call that tells
    said = shop.run(shop.program("misuse"), *(() if wild else ("tame",)), NPUSIM_LEAKS="1")
    judge(said, without=() if wild else WILD)
    *early, leaks = said.err.splitlines()
    assert leaks == "npusim: everything was given back"
    assert len(early) == 2  # freed before a synchronise: a call's memory, and a copy's
    assert all("memory that aclrtFree gave back" in note for note in early)
    assert sum(code != "0" for code in EXPECTED.values()) >= 25


def test_on_chips_without_vector_cores_apart_the_fault_is_the_ai_cores(shop: Workshop) -> None:
    codes = shop.run(shop.program("misuse"), "tame", soc="Ascend910A").answers()
    assert codes["synchronize_host_tensor"] == "507015"


def test_the_address_sanitizer_finds_nothing(shop: Workshop) -> None:
    """Leaks aside: Python keeps what it has until the end."""
    program = shop.program("misuse", "-fsanitize=address")
    said = shop.run(program, "sanitized", ASAN_OPTIONS="detect_leaks=0")
    judge(said, without=WILD)
    assert all("memory that aclrtFree gave back" in note for note in said.err.splitlines())


@pytest.mark.slow
def test_the_thread_sanitizer_finds_nothing(shop: Workshop) -> None:
    """On threads with a device and a stream each."""
    program = shop.program("operators", "-fsanitize=thread")
    said = shop.run(program, "Threads")
    assert said.code == 0, said.err
    assert "ThreadSanitizer" not in said.err


@pytest.mark.slow
def test_a_thousand_rounds_leave_nothing_behind(shop: Workshop) -> None:
    said = shop.run(shop.program("cycles"), "1000", NPUSIM_LEAKS="1")
    assert said.code == 0, said.out + said.err
    assert said.err == "npusim: everything was given back\n"
    # A round allocates 20 KiB on the device; one block kept each time would be 4 MB at the end.
    assert int(said.answers()["grown_kilobytes"]) < 3500


def test_what_is_not_given_back_is_told_on_request(shop: Workshop) -> None:
    program = shop.program("operators")
    words = ("OutOfRange",)  # returns before it destroys anything
    assert shop.run(program, *words).err == ""
    told = shop.npusim("exec", program, "-s", "910B3", "--leaks", "--", *words).err
    assert "npusim: never given back: 9 blocks of device memory, 1868 bytes" in told
    assert "9 aclTensor" in told


def test_a_log_on_request(shop: Workshop) -> None:
    said = shop.run(shop.program("operators"), "GroupNormBackward", soc="310P3", NPUSIM_LOG="1")
    assert said.err.startswith("npusim: EZ9999: aclnnGroupNormBackwardGetWorkspaceSize: ACLNN_ERR")
