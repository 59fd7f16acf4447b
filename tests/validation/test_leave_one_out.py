"""Fits without one workload, from responses simulated once, judged on what was left out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from calibrate import KEPT, PROFILES
from leave_one_out import left_out, respond, simulated

from npusim.hardware import load_profile
from npusim.validation.fitting import CONSTANTS, value_of
from npusim.validation.replay import predict
from npusim.validation.table import MeasuredRow, read_rows

CHIP = "910 gen1 (30 cores)"
KEYS = ("launch.base_us", "launch.per_block_us", "paths.gm_to_ub.latency_cycles")
COLUMNS = "chip,op,input_shapes,input_dtypes,output_shapes,output_dtypes,duration_us,workload"


def rows_of(folder: Path) -> list[MeasuredRow]:
    """Products of two networks; one chip; times that are near those simulated."""
    sizes = (1, 37, 999, 4096, 8191, 20_011, 65_536, 100_003, 300_007, 500_001)
    lines = [
        f'{CHIP},Mul,"{size};{size}",FLOAT;FLOAT,"{size}",FLOAT,{1.4 + size / 2e5},{net}'
        for net in ("first_1", "second_1")
        for size in sizes
    ]
    path = folder / "t.csv"
    path.write_text("\n".join([COLUMNS, *lines]))
    return list(read_rows(path))


def test_what_is_interpolated_is_what_is_simulated(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)[2:8:3]
    chosen = [each for each in CONSTANTS if each.key in KEYS]
    profile = load_profile(rows[0].soc)
    fitted = {each.key: value_of(profile, each.key) for each in chosen}
    published = {key: 1.3 * value for key, value in fitted.items()}
    with ThreadPoolExecutor(1) as pool:
        responses = respond(rows, chosen, published, pool)
        for key in KEYS:
            for share, off in ((1.0, 1e-9), (1.3, 1e-9), (1.1, 0.01)):
                values = fitted | {key: share * fitted[key]}
                times = simulated(rows, values, pool)
                found = np.exp(responses.logarithms(chosen, values))
                np.testing.assert_allclose(found, times, rtol=off)


def test_every_network_is_left_out_once(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    known = [predict(row, "in_graph") for row in rows]
    chosen = [each for each in CONSTANTS if each.key in KEYS]
    profile = load_profile(rows[0].soc)
    published = {each.key: 1.5 * value_of(profile, each.key) for each in chosen}
    with ThreadPoolExecutor(1) as pool:
        found = list(left_out(known, rows, chosen, published, pool))
    assert [(name, count) for _, name, count, *_ in found] == [("first", 10), ("second", 10)]
    for _, _, _, seen, unseen, inside in found:
        assert seen == pytest.approx(np.median([abs(each.error or 0.0) for each in known[:10]]))
        assert unseen < seen + 0.05
        assert 0.7 <= inside <= 1.0


@pytest.mark.parametrize("key", KEPT["dav-c220"])
def test_what_is_measured_by_itself_is_in_no_fitted_layer(key: str) -> None:
    """Constants that counters bear out, the wait for code among them, hang on no workload alone."""
    file = PROFILES / "microarchitecture" / "dav-c220-calibrated.yaml"
    node = yaml.safe_load(file.read_text(encoding="utf-8"))
    for name in key.split("."):
        node = node.get(name, {})
    assert node == {}
    assert value_of(load_profile("Ascend910B2"), key) > 0.0
