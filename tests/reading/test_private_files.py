"""What is left on the disk: caches of one's own, and nothing else (SECURITY.md)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.capi import without_code

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")


def test_caches_are_ours_alone_and_temporary_files_go(tmp_path: Path) -> None:
    cache, scratch, work = (tmp_path / name for name in ("cache", "tmp", "work"))
    scratch.mkdir()
    work.mkdir()
    (work / "m.yaml").write_text(
        "calls:\n  - {op: Relu, inputs: ['fp16[64]'], outputs: ['fp16[64]']}\n"
    )
    around = os.environ | {
        "NPUSIM_CACHE": str(cache),
        "NPUSIM_RUNS": str(cache / "runs"),
        "TMPDIR": str(scratch),
        **without_code(tmp_path),
    }
    for line in (
        "estimate aclnnRelu self=fp16[640] -s 910b3",
        "run aclnnRelu self=fp16[640] -s 910b3 -o y.npz",
        "model m.yaml -s 910b3,310p3 --csv m.csv",
        "report aclnnRelu self=fp16[64] -s 910b3 -o r.html",
        "exec -s 910b3 -- /bin/true",
    ):
        done = subprocess.run(
            [sys.executable, "-m", "npusim", *line.split()], env=around, cwd=work, text=True,
            capture_output=True, check=False, umask=0,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for folder in (cache, *(each for each in cache.iterdir() if each.is_dir())):
        assert not stat.S_IMODE(folder.stat().st_mode) & 0o077, folder
    kept = [each for each in cache.iterdir() if each.is_file()]
    assert kept
    assert not any(stat.S_IMODE(each.stat().st_mode) & 0o077 for each in kept)
    assert not list(scratch.iterdir())
    assert sorted(each.name for each in work.iterdir()) == ["m.csv", "m.yaml", "r.html", "y.npz"]
