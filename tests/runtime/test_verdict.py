"""What limits a kernel, in the profiler's words, and how far off its time may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npusim import Device, Result, TensorSpec
from npusim.engine import KernelRun, Pipe, Program, verdict
from npusim.hardware import load_profile, relative_uncertainty
from npusim.hardware.provenance import CONFIDENCES
from npusim.runtime.bands import by_confidence
from support.programs import MemoryRates, Writer, machine, pipeline, play, transfer

RATES = MemoryRates(hbm=100.0, l2_read=400.0, l2_write=400.0)


def streaming(count: int, *, compute: float, nbytes: float = 5000.0) -> Program:
    return pipeline(count, 1, compute, 1, moves=(transfer(nbytes, 100.0), None))


@pytest.mark.parametrize(
    ("program", "launch", "words"),
    [
        (streaming(100, compute=60), 0.0, "compute bound"),
        (streaming(100, compute=10), 0.0, "memory bound"),
        (streaming(100, compute=45), 0.0, "memory bound"),  # both above 80 %, memory ahead
        # The vector unit is busy all the time, but most of the task is launch.
        (streaming(10, compute=60), 9000.0, "latency bound: compute caused"),
        # Small transfers: MTE2 is busy with their overhead, not with bytes.
        (pipeline(100, 90, 20, 20), 0.0, "latency bound: memory caused"),
        (pipeline(100, 30, 30, 30, depth=1), 0.0, "latency bound: pipeline caused"),
        (Program(), 0.0, "latency bound: pipeline caused"),
    ],
)
def test_what_limits_a_kernel(program: Program, launch: float, words: str) -> None:
    assert verdict(play((1, program), on=machine(RATES, launch=launch))) == words


def test_a_busy_scalar_unit_counts_as_compute() -> None:
    writer = Writer()
    writer.do(Pipe.SCALAR, "decide", 100)
    run = play((1, writer.program), on=machine(RATES))
    assert verdict(run) == "latency bound: compute caused"


def test_hits_are_measured_against_l2() -> None:
    """A kernel that finds everything in L2 is bound by L2, though HBM idles."""
    moves = (transfer(5000, 1e6, reuse=0.0), None)
    run = play((1, pipeline(100, 0.1, 0.1, 0.1, moves=moves)), on=machine(RATES))
    assert run.traffic.hbm_bytes == 0
    assert verdict(run) == "memory bound"


def test_atomic_additions_that_keep_memory_busy_are_bound_by_it() -> None:
    """Their bytes are half of what memory could store meanwhile."""
    adding = transfer(5000, 1e6, write=True)._replace(rate_fraction=0.5)
    run = play((4, pipeline(50, 0.1, 0.1, 0.1, moves=(None, adding))), on=machine(RATES))
    assert run.traffic.l2_written_bytes / RATES.l2_write < 0.6 * run.core_cycles
    assert verdict(run) == "memory bound"


# -- bands -----------------------------------------------------------------------------------------

VECTOR_ONLY = Writer()
VECTOR_ONLY.do(Pipe.VECTOR, "add", 1000)


def run_of(program: Program, launch: float) -> KernelRun:
    return play((1, program), on=machine(RATES, launch=launch))


def test_a_task_that_is_all_launch_is_as_sure_as_the_launch() -> None:
    profile = load_profile("Ascend910B3")
    launch = max(
        relative_uncertainty(profile.provenance_of(f"launch.{key}").confidence)
        for key in ("base_us", "per_block_us")
    )
    core = relative_uncertainty(profile.provenance_of("vector.instructions.vadd").confidence)
    assert by_confidence(profile, run_of(Program(), 1000.0)) == pytest.approx(launch)
    assert by_confidence(profile, run_of(VECTOR_ONLY.program, 0.0)) == pytest.approx(core)
    both = by_confidence(profile, run_of(VECTOR_ONLY.program, 3000.0))
    assert both == pytest.approx(0.75 * launch + 0.25 * core)
    assert by_confidence(profile, run_of(Program(), 0.0)) == 0.0


def test_surer_values_make_narrower_bands() -> None:
    profile = load_profile("Ascend910B3")
    run = run_of(VECTOR_ONLY.program, 0.0)
    widths = []
    for confidence in CONFIDENCES:
        known = {
            key: replace(entry, confidence=confidence) for key, entry in profile.provenance.items()
        }
        widths.append(by_confidence(profile.model_copy(update={"provenance": known}), run))
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def cross_entropy(elements: int, soc: str = "Ascend910B3") -> Result:
    x = TensorSpec((elements,), "float32")
    return Device(soc).estimate(
        "aclnnBinaryCrossEntropyBackward",
        gradOutput=x,
        self=x,
        target=x,
        weightOptional=x,
        reduction=0,
    )


def test_the_verdict_of_an_operator_follows_its_size() -> None:
    assert cross_entropy(100).bound == "latency bound: pipeline caused"
    assert cross_entropy(2**28).bound == "memory bound"


@pytest.mark.parametrize(
    ("soc", "words"),
    [
        ("Ascend910B3", "measured on dav-c220, widened"),
        ("Ascend910A", "measured on dav-c100, widened"),
        ("Ascend310P3", "confidence of the profile values"),
    ],
)
def test_every_result_has_a_band_and_says_what_it_rests_on(soc: str, words: str) -> None:
    for elements in (1, 10**4, 10**8):
        result = cross_entropy(elements, soc)
        low, high = result.band_us
        assert 0 < low < result.duration_us < high < 4 * result.duration_us
        assert words in result.band_basis
