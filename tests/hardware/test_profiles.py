"""Hardware profiles: what the chips are, where numbers come from, how mistakes are told."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest
import yaml
from pydantic import ValidationError

from npusim import Device, TensorSpec
from npusim.hardware.loading import profile_names
from npusim.hardware.naming import load_profile
from npusim.hardware.profile import GROUPS, Profile
from npusim.hardware.provenance import CONFIDENCES
from npusim.hardware.reading import (
    InvalidProfileError,
    built_in_sources,
    data_folder,
    relative_uncertainty,
)
from npusim.values.errors import FileError, ProfileError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024**2
GIB = 1024**3
A2 = ("Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1")
FIRST = ("Ascend910A", "Ascend910B", "Ascend910PremiumA", "Ascend910ProA", "Ascend910ProB")
A3 = ("Ascend910_9391",)
SPLIT = (*A2, *A3)
INFERENCE = ("Ascend310P1", "Ascend310P3")
ALL = (*INFERENCE, *FIRST, *A2, *A3)

# name: AI cores, cores of a vector kernel, extra vector cores, MHz, L2, memory, memory GB/s
IDENTITY = {
    "Ascend910A": (32, 32, 0, 1000, 32 * MIB, 32 * GIB, 1200),
    "Ascend910B": (30, 30, 0, 900, 32 * MIB, 32 * GIB, 1200),
    "Ascend910ProA": (32, 32, 0, 1100, 32 * MIB, 32 * GIB, 1200),
    "Ascend910ProB": (30, 30, 0, 1150, 32 * MIB, 32 * GIB, 1200),
    "Ascend910PremiumA": (32, 32, 0, 1220, 32 * MIB, 32 * GIB, 1200),
    "Ascend910B1": (24, 48, 0, 1850, 192 * MIB, 64 * GIB, 1600),
    "Ascend910B2": (24, 48, 0, 1800, 192 * MIB, 64 * GIB, 1600),
    "Ascend910B2C": (24, 48, 0, 1800, 192 * MIB, 64 * GIB, 1600),
    "Ascend910B3": (20, 40, 0, 1800, 192 * MIB, 64 * GIB, 1600),
    "Ascend910B4": (20, 40, 0, 1500, 96 * MIB, 32 * GIB, 800),
    "Ascend910B4-1": (20, 40, 0, 1500, 168 * MIB, 64 * GIB, 1600),
    "Ascend910_9391": (24, 48, 0, 1850, 192 * MIB, 64 * GIB, 1600),
    "Ascend310P1": (10, 10, 8, 1060, 16 * MIB, 24_000_000_000, 204.8),
    "Ascend310P3": (8, 8, 7, 1060, 16 * MIB, 24_000_000_000, 204.8),
}

# Per core: unified buffer, L1, L0A, L0B, L0C.
BUFFERS = {
    "910": (256 * 1024, MIB, 64 * 1024, 64 * 1024, 256 * 1024),
    "310P": (256 * 1024, MIB, 64 * 1024, 64 * 1024, 256 * 1024),
    "A2": (192 * 1024, MIB // 2, 64 * 1024, 64 * 1024, 128 * 1024),
    "A3": (192 * 1024, MIB // 2, 64 * 1024, 64 * 1024, 128 * 1024),
}

# Peak of the matrix units: fp16 TFLOPS and int8 TOPS, cores x 8192 (16384) x clock.
PEAKS = {
    "Ascend910A": (262.1, 524.3),
    "Ascend910B": (221.2, 442.4),
    "Ascend910ProA": (288.4, 576.7),
    "Ascend910ProB": (282.6, 565.2),
    "Ascend910PremiumA": (319.8, 639.6),
    "Ascend910B1": (363.7, 727.4),
    "Ascend910B2": (353.9, 707.8),
    "Ascend910B3": (294.9, 589.8),
    "Ascend910B4": (245.8, 491.5),
    "Ascend910_9391": (363.7, 727.4),
    "Ascend310P1": (86.8, 173.7),
    "Ascend310P3": (69.5, 138.9),
}


def leaves(values: Mapping[str, object], prefix: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_these_chips_are_built_in() -> None:
    assert profile_names() == sorted(ALL)


@pytest.mark.parametrize("name", ALL)
def test_identity_of_each_chip(name: str) -> None:
    chip = load_profile(name)
    ai_cores, vector_cores, extra, mhz, l2_bytes, capacity_bytes, gbps = IDENTITY[name]
    assert chip.name == name
    assert (chip.cores.ai_cores, chip.cores.cube_cores) == (ai_cores, ai_cores)
    assert (chip.cores.vector_cores, chip.cores.extra_vector_cores) == (vector_cores, extra)
    assert chip.clock_mhz == mhz
    assert (chip.memory.l2_bytes, chip.memory.capacity_bytes) == (l2_bytes, capacity_bytes)
    assert chip.memory.hbm_nominal_gbps == gbps


@pytest.mark.parametrize("name", ALL)
def test_buffers_of_each_chip(name: str) -> None:
    chip = load_profile(name)
    buffers = chip.buffers
    sizes = (buffers.ub_bytes, buffers.l1_bytes, buffers.l0a_bytes, buffers.l0b_bytes)
    assert (*sizes, buffers.l0c_bytes) == BUFFERS[chip.family]
    assert buffers.block_bytes == 32
    assert buffers.ub_banks * 4096 == buffers.ub_bytes  # banks of 4 KiB fill the buffer exactly


@pytest.mark.parametrize(
    ("names", "family", "architecture", "npu_arch", "style"),
    [
        (FIRST, "910", "dav-c100", 1001, "unified"),
        (INFERENCE, "310P", "dav-m200", 2002, "unified_plus_vector"),
        (A2, "A2", "dav-c220", 2201, "split"),
        (A3, "A3", "dav-c220", 2201, "split"),
    ],
)
def test_families(
    names: tuple[str, ...], family: str, architecture: str, npu_arch: int, style: str
) -> None:
    for chip in map(load_profile, names):
        found = (chip.family, chip.architecture, chip.npu_arch, chip.cores.style)
        assert found == (family, architecture, npu_arch, style)


def test_kernels_follow_the_software_of_a_chip_and_not_its_cores() -> None:
    chip = load_profile("Ascend910B3")
    older = chip.software.model_copy(update={"compiled_for_shape": True, "matmul_generation": 2})
    other = chip.model_copy(update={"software": older})
    assert other.cores == chip.cores
    product = {"self": "fp16[2048,4096]", "mat2": "fp16[4096,2048]", "cubeMathType": 0}
    new, old = (Device(each).estimate("aclnnMatmul", **product) for each in (chip, other))
    assert (new.tasks[-1].name, old.tasks[-1].name) == ("MatMulV3", "MatMulV2")
    view = TensorSpec((40, 64), "float32", strides=(1, 40))
    call = {"self": view, "other": TensorSpec((40, 64), "float32"), "out": "fp32[40,64]"}
    new, old = (Device(each).estimate("aclnnMul", **call) for each in (chip, other))
    assert new.tasks[0].cycles != old.tasks[0].cycles  # the transposition


@pytest.mark.parametrize("name", ALL)
def test_every_value_has_a_provenance_and_nothing_else_has(name: str) -> None:
    chip = load_profile(name)
    dumped = chip.model_dump(exclude_unset=True)
    values = {leaf for group in GROUPS for leaf in leaves(dumped.get(group, {}), f"{group}.")}
    assert set(chip.provenance) == values
    for entry in chip.provenance.values():
        assert entry.confidence in CONFIDENCES
        assert all(source.repository in entry.source for source in entry.sources)


def test_provenance_names_the_file_and_the_other_values_seen() -> None:
    chip = load_profile("Ascend910B4")
    clock = chip.provenance_of("clocks.cube_mhz")
    assert clock.confidence == "vendor_file"
    assert clock.source.startswith("hicann/runtime @681ef7610")
    assert "1650" in clock.notes


def test_provenance_of_a_group_is_that_of_its_least_sure_value() -> None:
    chip = load_profile("Ascend910B3")
    assert chip.provenance_of("memory.l2_bytes").confidence == "vendor_file"
    assert chip.provenance_of("memory").confidence == "assumed"
    assert chip.provenance_of("vector.instructions.vln.float32").confidence == "assumed"
    with pytest.raises(UnknownNameError, match=r"Did you mean memory\.l2_gbps"):
        chip.provenance_of("memory.l2gbps")


def test_every_source_is_cited_and_every_confidence_has_a_width() -> None:
    text = "".join(
        entry.read_text(encoding="utf-8")
        for folder in (
            data_folder(),
            *(data_folder() / name for name in ("microarchitecture", "interconnects")),
        )
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml") and entry.name != "sources.yaml"
    )
    uncited = [key for key in built_in_sources() if key not in text]
    assert uncited == ["own_statement"]  # that one is for a user's own profile
    widths = [relative_uncertainty(word) for word in CONFIDENCES]
    assert widths == sorted(widths)
    assert all(0 < width < 1 for width in widths)


@pytest.mark.parametrize(("name", "peaks"), PEAKS.items())
def test_peak_of_the_matrix_units(name: str, peaks: tuple[float, float]) -> None:
    chip = load_profile(name)
    found = (chip.cube_peak_tops("float16"), chip.cube_peak_tops("int8"))
    assert found == pytest.approx(peaks, abs=0.06)


def test_a2_multiplies_float32_at_a_quarter_of_the_rate_and_the_others_do_not_at_all() -> None:
    a2 = load_profile("Ascend910B2")
    assert a2.cube_peak_tops("float32") == pytest.approx(88.5, abs=0.06)
    assert a2.cube_peak_tops("bfloat16") == a2.cube_peak_tops("float16")
    for name in (*FIRST, *INFERENCE):
        assert not {"float32", "bfloat16"} & set(load_profile(name).cube.dtypes)


def test_l2_rate_of_the_first_generation_is_that_of_its_cores() -> None:
    for chip in map(load_profile, FIRST):
        per_core = chip.paths.gm_to_ub.bytes_per_cycle
        together = per_core * chip.cores.ai_cores * chip.clock_mhz / 1000
        assert chip.memory.l2_gbps == pytest.approx(together, rel=1e-3)


def test_memory_rate_of_the_910a_agrees_with_32_bytes_per_core_and_cycle() -> None:
    chip = load_profile("Ascend910A")
    from_platform_file = 32 * 32 * chip.clock_mhz / 1000
    assert from_platform_file == 1024
    assert chip.hbm_sustained_gbps == pytest.approx(from_platform_file, rel=0.05)


@pytest.mark.parametrize(
    ("name", "read_gbps", "write_gbps"),
    [
        ("Ascend910B1", 220.06, 186.8),
        ("Ascend910B2", 214.11, 181.75),
        ("Ascend910B3", 214.11, 181.75),
        ("Ascend910B4", 195.27, 176.75),
        ("Ascend910B4-1", 195.27, 176.75),
    ],
)
def test_one_vector_core_of_a2_reaches_the_profilers_maxima(
    name: str, read_gbps: float, write_gbps: float
) -> None:
    chip = load_profile(name)
    ghz = chip.clock_mhz / 1000
    assert chip.paths.gm_to_ub.bytes_per_cycle * ghz == pytest.approx(read_gbps, rel=1e-4)
    assert chip.paths.ub_to_gm.bytes_per_cycle * ghz == pytest.approx(write_gbps, rel=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_memories_are_ordered_as_in_a_machine(name: str) -> None:
    chip = load_profile(name)
    ghz = chip.clock_mhz / 1000
    memory, paths = chip.memory, chip.paths
    assert chip.hbm_sustained_gbps < memory.hbm_nominal_gbps < memory.l2_gbps
    assert memory.l2_latency_cycles < memory.hbm_latency_cycles
    all_cores = chip.cores.vector_cores * paths.gm_to_ub.bytes_per_cycle * ghz
    assert all_cores >= chip.hbm_sustained_gbps  # the cores together can use the memory
    assert paths.l1_to_l0a.bytes_per_cycle == 2 * paths.l1_to_l0b.bytes_per_cycle
    assert chip.paths.l1_to_l0a.setup_cycles == chip.cube.mte1_setup_cycles


def test_what_joins_cube_and_vector_unit_differs() -> None:
    a2, first = load_profile("Ascend910B3").paths, load_profile("Ascend910A").paths
    assert a2.l0c_to_gm is not None
    assert (a2.l0c_to_ub, a2.ub_to_l1, a2.l1_to_ub) == (None, None, None)
    assert (first.l0c_to_gm, first.l1_to_gm) == (None, None)
    assert first.l0c_to_ub is not None
    assert first.l0c_to_ub.bytes_per_cycle == 256
    inference = load_profile("Ascend310P3").paths
    assert inference.l0c_to_ub is not None
    assert inference.l0c_to_ub.bytes_per_cycle == 512


@pytest.mark.parametrize("name", ALL)
def test_only_what_the_chip_has_is_priced(name: str) -> None:
    chip = load_profile(name)
    instructions = dict(chip.vector.instructions)
    for move in ("vector_dup", "ub2ub"):  # not in the vendor's lists, on every chip
        assert set(instructions.pop(move)) == {"float16", "float32", "int16", "int32"}
    instructions.pop("set_cmpmask", None)  # moves a mask of bits, whatever the dtype
    instructions.pop("col2img", None)  # not in the lists; public pooling gradients call it
    for pair in instructions.pop("vconv"):
        assert chip.supports_convert(*pair.split("->")), pair
    for intrinsic, rows in instructions.items():
        assert set(rows) == set(chip.vector_dtypes(intrinsic)), intrinsic


@pytest.mark.parametrize(
    ("name", "intrinsic", "dtype", "start_cycles", "cycles_per_repeat"),
    [
        ("Ascend910B3", "vadd", "float32", 23.22, 1.32),
        ("Ascend910B3", "vmuls", "float16", 23.1, 0.91),
        ("Ascend910B3", "vdiv", "float32", 29.09, 2.91),
        ("Ascend910B3", "vexp", "float32", 28.04, 1.96),
        ("Ascend910B3", "vcadd", "float32", 32.0, 7.0),
        ("Ascend910B3", "vcgmax", "float16", 18.0, 1.27),
        ("Ascend910B3", "vcmpv_gt", "float32", 21.03, 1.98),
        ("Ascend910B3", "vgather", "float32", 15.0, 12.0),
        ("Ascend910B3", "vconv", "float16->float32", 20.12, 0.94),
        ("Ascend910B3", "vconv", "float32->bfloat16", 20.44, 0.56),
        ("Ascend910A", "vadd", "float32", 23.22, 1.32),
        ("Ascend910A", "vexp", "float32", 28.04, 3.93),
        ("Ascend910A", "vadd", "int32", 23.22, 4.0),
        ("Ascend310P3", "vdiv", "float16", 29.12, 11.78),
        ("Ascend310P3", "vadds", "int16", 22.09, 4.0),
        ("Ascend310P3", "vsel", "float32", 30.0, 1.47),
    ],
)
def test_price_of_a_vector_instruction(
    name: str, intrinsic: str, dtype: str, start_cycles: float, cycles_per_repeat: float
) -> None:
    rate = load_profile(name).vector.instructions[intrinsic][dtype]
    assert rate.start_cycles == pytest.approx(start_cycles, abs=0.011)
    assert rate.cycles_per_repeat == pytest.approx(cycles_per_repeat, abs=0.011)


def test_a_naive_scalar_loop_takes_34_cycles_per_element() -> None:
    scalar = load_profile("Ascend910B1").scalar
    body = 2 * scalar.ub_load_cycles + scalar.alu_cycles + scalar.ub_store_cycles
    assert body + scalar.loop_cycles == 34


@pytest.mark.parametrize(
    ("question", "yes"),
    [
        (lambda chip: chip.supports_vector("vadd", "float32"), ALL),
        (lambda chip: chip.supports_vector("vadd", "bfloat16"), ()),
        (lambda chip: chip.supports_vector("vadd", "int16"), (*INFERENCE, *SPLIT)),
        (lambda chip: chip.supports_vector("vadds", "int32"), (*INFERENCE, *SPLIT)),
        (lambda chip: chip.supports_vector("vcgmax", "float16"), ALL),
        (lambda chip: chip.supports_vector("vcgmax", "float32"), (*INFERENCE, *SPLIT)),
        (lambda chip: chip.supports_vector("vrelu", "float32"), (*INFERENCE, *SPLIT)),
        (lambda chip: chip.supports_vector("vgatherb", "uint16"), SPLIT),
        (lambda chip: chip.supports_convert("float32", "float16"), ALL),
        (lambda chip: chip.supports_convert("bfloat16", "float32"), SPLIT),
        (lambda chip: chip.supports_convert("float32", "bfloat16"), SPLIT),
        (lambda chip: chip.supports_convert("float32", "int64"), SPLIT),
        (lambda chip: chip.supports_convert("bfloat16", "float16"), ()),
        (lambda chip: chip.supports_mmad("float16", "float16", "float32"), ALL),
        (lambda chip: chip.supports_mmad("int8", "int8", "int32"), ALL),
        (lambda chip: chip.supports_mmad("float32", "float32", "float32"), SPLIT),
        (lambda chip: chip.supports_mmad("bfloat16", "bfloat16", "float32"), SPLIT),
        (lambda chip: chip.supports_mmad("hfloat32", "hfloat32", "float32"), SPLIT),
        (lambda chip: chip.supports_mmad("int4", "int4", "int32"), (*INFERENCE, *SPLIT)),
        (lambda chip: chip.has("data_move_pad"), SPLIT),
        (lambda chip: chip.has("data_move_out2l1_nd2nz"), SPLIT),
        (lambda chip: chip.has("data_move_l0c2ub"), (*FIRST, *INFERENCE)),
        (lambda chip: chip.has("fix_pipe_l0c2out"), SPLIT),
        (lambda chip: chip.has("syncall_software"), ALL),
        (lambda chip: chip.has("syncall_hardware"), SPLIT),
        (lambda chip: chip.has("cross_core_flag"), SPLIT),
        (lambda chip: chip.has("bfloat16"), SPLIT),
        (lambda chip: chip.has("no_such_thing"), ()),
    ],
)
def test_what_a_chip_can_do(question: object, yes: tuple[str, ...]) -> None:
    assert callable(question)
    assert {name for name in ALL if question(load_profile(name))} == set(yes)


def test_dtypes_of_an_intrinsic_are_spelled_out_whatever_the_vendor_writes() -> None:
    chip = load_profile("Ascend910B3")
    assert chip.vector_dtypes("vadd") == ("float16", "float32", "int32", "int16")
    assert chip.vector_dtypes("vmla") == ("float16", "float32")  # also f32f16f16, which is mixed
    assert chip.vector_dtypes("vgatherb")[:2] == ("uint16", "int16")  # u16u16, s16s16
    assert chip.vector_dtypes("vsubrelu") == ()


def test_a_loaded_profile_is_shared_and_cannot_be_changed() -> None:
    chip = load_profile("Ascend910B3")
    assert load_profile("910b3") is chip
    assert hash(chip) == hash(load_profile("Ascend910B3"))
    with pytest.raises(ValidationError, match="frozen"):
        chip.clocks.cube_mhz = 1  # type: ignore[misc]


# --- a user's own profile ---------------------------------------------------------------------

FASTER = """
inherits: Ascend910B3
name: MyChip
clocks:
  cube_mhz: 2000
  vector_mhz: 2000
  provenance:
    default: {source: own_statement, confidence: assumed, notes: overclocked}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "mychip.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_users_profile_changes_what_it_says_and_inherits_the_rest(tmp_path: Path) -> None:
    mine, base = load_profile(written(tmp_path, FASTER)), load_profile("Ascend910B3")
    assert (mine.name, mine.clock_mhz) == ("MyChip", 2000)
    assert mine.provenance_of("clocks.cube_mhz").notes == "overclocked"
    assert mine.provenance_of("memory.l2_gbps") == base.provenance_of("memory.l2_gbps")
    same = {"name": base.name, "clocks": base.clocks, "provenance": base.provenance}
    assert mine.model_copy(update=same) == base
    assert load_profile(str(tmp_path / "mychip.yaml")) is mine


def test_a_users_profile_is_read_again_when_it_changes(tmp_path: Path) -> None:
    assert load_profile(written(tmp_path, FASTER)).clock_mhz == 2000
    assert load_profile(written(tmp_path, FASTER.replace("2000", "2100"))).clock_mhz == 2100


def test_a_users_profile_may_cite_sources_of_its_own(tmp_path: Path) -> None:
    text = FASTER.replace("own_statement", "lab") + (
        "sources:\n  lab: {repository: our lab notes, kind: measurement, snapshot: '2026-01'}\n"
    )
    chip = load_profile(written(tmp_path, text))
    assert chip.provenance_of("clocks.cube_mhz").source == "our lab notes @2026-01"


def test_a_profile_may_be_complete_in_itself(tmp_path: Path) -> None:
    base = load_profile("Ascend310P3")
    raw = base.model_dump(exclude_unset=True)
    said = {"default": {"source": "own_statement", "confidence": "assumed"}}
    for group in GROUPS:
        raw[group] = {**raw.get(group, {}), "provenance": said}
    text = yaml.safe_dump(yaml.safe_load(yaml.dump(_plain(raw))))
    chip = load_profile(written(tmp_path, text))
    assert chip.model_copy(update={"provenance": base.provenance}) == base
    assert {entry.confidence for entry in chip.provenance.values()} == {"assumed"}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


PROVENANCE = "{source: own_statement, confidence: assumed}"


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        (
            FASTER.replace("cube_mhz: 2000", "cube_mhz: -5"),
            "clocks.cube_mhz = -5",
            "greater than 0",
        ),
        (FASTER.replace("cube_mhz: 2000", "cube_mhz: 0"), "clocks.cube_mhz = 0", "greater than 0"),
        (FASTER.replace("cube_mhz: 2000", "cube_mhz: fast"), "clocks.cube_mhz = 'fast'", "integer"),
        (FASTER.replace("cube_mhz: 2000", "cube_mhz: yes"), "clocks.cube_mhz = True", "integer"),
        (
            FASTER.replace("vector_mhz", "vector_ghz"),
            "clocks.vector_ghz = 2000",
            "one of the keys cube_mhz, vector_mhz",
        ),
        (FASTER + "colour: red\n", "colour = 'red'", "one of the keys name, family"),
        (FASTER.replace("own_statement", "hearsay"), "clocks.provenance.default.source", "rt, "),
        (
            FASTER.replace("confidence: assumed", "confidence: sure"),
            "clocks.provenance.default.confidence = 'sure'",
            "vendor_file, measured, vendor_document, fitted, derived, assumed",
        ),
        (FASTER.replace("notes:", "note:"), "clocks.provenance.default = ['note']", "notes only"),
        (FASTER[: FASTER.index("  provenance")], "clocks.provenance = None", "a mapping"),
        (
            FASTER.replace("default:", "cube_mhz:"),
            "clocks.provenance.vector_mhz = None",
            "a source, or a default",
        ),
        (
            FASTER + f"    base_mhz: {PROVENANCE}\n",
            "clocks.provenance.base_mhz",
            "only keys that clocks has in this file",
        ),
        (
            FASTER.replace("910B3", "910B9"),
            "inherits = 'Ascend910B9'",
            "dav-c220, dav-c220-calibrated, dav-m200, Ascend310P1",
        ),
        (FASTER + f"provenance: {PROVENANCE}\n", "provenance = {", "a provenance in each group"),
        (
            FASTER + f"buffers:\n  ub_banks: 50\n  provenance: {{default: {PROVENANCE}}}\n",
            "buffers.ub_banks = 50",
            "a multiple of ub_bank_groups",
        ),
        (
            FASTER + f"memory:\n  l2_sector_bytes: 96\n  provenance: {{default: {PROVENANCE}}}\n",
            "memory.l2_sector_bytes = 96",
            "a divisor of l2_line_bytes",
        ),
        (
            FASTER
            + f"memory:\n  hbm_sustained_fraction: 1.2\n  provenance: {{default: {PROVENANCE}}}\n",
            "memory.hbm_sustained_fraction = 1.2",
            "less than or equal to 1",
        ),
        (
            FASTER + f"paths:\n  gm_to_ub: {{speed: 9}}\n  provenance: {{default: {PROVENANCE}}}\n",
            "paths.gm_to_ub.speed = 9",
            "one of the keys bytes_per_cycle, setup_cycles",
        ),
        (FASTER + "sources: {lab: {kind: rumour, repository: x}}\n", "sources.lab.kind", "one of"),
        (
            FASTER + "sources: {lab: somewhere}\n",
            "sources.lab = 'somewhere'",
            "repository and kind",
        ),
        (FASTER + "sources: [lab]\n", "sources = ['lab']", "a mapping"),
    ],
)
def test_a_wrong_profile_is_refused_in_one_line(
    tmp_path: Path, text: str, key: str, expected: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        load_profile(file)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{file}: {key}")
    assert expected in message.partition("expected ")[2]
    assert caught.value.exit_code == 2


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    text = FASTER.replace("Ascend910B3", "dav-c220")  # the microarchitecture lacks what bins have
    with pytest.raises(InvalidProfileError) as caught:
        load_profile(written(tmp_path, text))
    missing = {problem.key for problem in caught.value.problems}
    assert {"cores.ai_cores", "memory.l2_gbps", "paths.gm_to_ub.bytes_per_cycle"} <= missing
    assert "cores.ai_cores = None is not allowed; expected a value" in str(caught.value)


def test_all_mistakes_are_told_at_once_and_survive_pickling(tmp_path: Path) -> None:
    text = (
        FASTER.replace("cube_mhz: 2000", "cube_mhz: -5")
        + "colour: red\n"
        + ("memory:\n  l2_gbps: 0\n")
    )
    file = written(tmp_path, text)
    with pytest.raises(InvalidProfileError) as caught:
        load_profile(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.problems) == 4
    assert all(line.startswith(f"{file}: ") for line in lines)
    keys = {problem.key for problem in caught.value.problems}
    assert keys == {"clocks.cube_mhz", "colour", "memory.l2_gbps", "memory.provenance"}
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


@pytest.mark.parametrize(
    ("text", "problem"), [("a: [1", "is no YAML"), ("- 1\n", "no mapping"), ("", "no mapping")]
)
def test_a_file_that_is_no_profile(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FileError, match=problem):
        load_profile(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nothing\.yaml: there is no such file"):
        load_profile(tmp_path / "nothing.yaml")


def test_the_model_alone_refuses_what_a_program_builds_wrongly() -> None:
    raw = load_profile("Ascend910A").model_dump(exclude_unset=True)
    with pytest.raises(ValidationError, match=r"clocks\.cube_mhz"):
        Profile.model_validate({**raw, "clocks": {"cube_mhz": 1.5}, "provenance": {}})
