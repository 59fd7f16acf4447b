"""Sweeps on a Dask cluster: the same results, also when a worker is lost on the way."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from npusim.sweeping.cluster import ClusterCrew
from npusim.values.errors import ArgumentError
from support import sweeps
from support.commands import npusim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and two worker processes on this machine, at ports of their own."""
    distributed = pytest.importorskip("distributed", reason="needs npusim[cluster]")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",  # or every cluster of the machine wants the same port
        memory_limit=0,
    ) as started:
        yield started


def pids(cluster: Any) -> list[int]:
    """The processes of the workers."""
    return [nanny.pid for nanny in cluster.workers.values()]


def test_a_cluster_gives_the_same_file_as_this_process(
    tmp_path: Path, capsys: Capsys, cluster: Any
) -> None:
    spec = sweeps.write(tmp_path, sweeps.LOSS)
    out, here = tmp_path / "cluster.jsonl", tmp_path / "here.jsonl"
    said = npusim(capsys, f"sweep --json --scheduler {cluster.scheduler_address}", spec, "-o", out)
    assert said.code == 0, said.err
    assert said.json["answered_now"] == sweeps.LOSS_POINTS
    assert npusim(capsys, "sweep --workers 1", spec, "-o", here).code == 0
    assert sweeps.lines(out) == sweeps.lines(here)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_a_worker_that_is_killed_loses_no_point(
    tmp_path: Path, capsys: Capsys, cluster: Any
) -> None:
    spec = sweeps.write(tmp_path, sweeps.NORM)
    out, here = tmp_path / "cluster.jsonl", tmp_path / "here.jsonl"
    process = sweeps.start(spec, out, "--scheduler", cluster.scheduler_address)
    sweeps.wait_for_lines(process, out, 3)
    victim = pids(cluster)[0]
    os.kill(victim, signal.SIGKILL)
    said, complained = process.communicate(timeout=120)
    assert process.returncode == 0, said + complained
    assert victim not in pids(cluster)
    assert npusim(capsys, "sweep --workers 1", spec, "-o", here).code == 0
    assert len(sweeps.rows(out)) == sweeps.NORM_POINTS
    assert sweeps.lines(out) == sweeps.lines(here)


def test_ctrl_c_leaves_the_cluster_to_others(tmp_path: Path, capsys: Capsys, cluster: Any) -> None:
    spec, out = sweeps.write(tmp_path, sweeps.NORM), tmp_path / "out.jsonl"
    process = sweeps.start(spec, out, "--scheduler", cluster.scheduler_address)
    sweeps.wait_for_lines(process, out, 3)
    process.send_signal(signal.SIGINT)
    _, complained = process.communicate(timeout=60)
    assert process.returncode == 130, complained
    assert "Traceback" not in complained
    done = len(sweeps.rows(out))
    said = npusim(
        capsys,
        f"sweep --json --resume --scheduler {cluster.scheduler_address}",
        spec,
        "-o",
        out,
    )
    assert said.json["answered_now"] == sweeps.NORM_POINTS - done > 0
    assert len({row["key"] for row in sweeps.rows(out)}) == sweeps.NORM_POINTS


def test_a_scheduler_that_isnt_there_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs npusim[cluster]")
    monkeypatch.setattr("npusim.sweeping.cluster.PATIENCE_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ArgumentError, match="no Dask scheduler answers"):
            ClusterCrew(address)
    with pytest.raises(ArgumentError, match="no Dask scheduler answers"):
        ClusterCrew("nonsense://")


def test_without_the_extra_the_message_says_what_to_install(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # an import of it fails
    spec = sweeps.write(tmp_path, sweeps.LOSS)
    said = npusim(capsys, "sweep --scheduler tcp://127.0.0.1:1", spec, "-o", tmp_path / "o.jsonl")
    assert said.code == 2
    assert "pip install 'npusim[cluster]'" in said.err
