"""The long run: ``python tests/fuzz --cases 20000``; ``--seed N --cases 1 --show`` repeats one.

Every case is a process of its own with 2 GiB of address space and 10 s of processor time, 40 where
layouts are searched. Exit code
0 when no case ended in an internal error, a hang or a crash.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from fuzz.running import REFUSED, SUCCESS, Outcome, described, prepare, run, seeds_of

_FEW = 500  # cases that a thorough preparation isn't worth


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="one kind of cases, e.g. onnx_graphs")
    parser.add_argument("--show", action="store_true", help="what each faulty case said")
    given = parser.parse_args()
    faults: list[Outcome] = []
    start, done = time.monotonic(), 0

    def say(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        if outcome.verdict not in (SUCCESS, REFUSED):
            faults.append(outcome)
            print(f"{outcome.verdict}: {outcome.case!s:.300} {outcome.site}", flush=True)
            if given.show:
                print(outcome.about)
        if done % 100 == 0:
            print(
                f"{done} cases, {len(faults)} faults, {time.monotonic() - start:.0f} s", flush=True
            )

    prepare(thoroughly=given.cases > _FEW)
    counts = run(seeds_of(given.seed, given.cases), given.jobs, say, given.only)
    print(described(faults))
    print(", ".join(f"{count} x {verdict}" for verdict, count in counts.most_common()))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
