"""Writes reports/models.md: published rates of whole models, and what `npusim model` says of them.

python reports/models.py [--only PART] [--workers N]

All of them also make hw_profiles/calibration/networks.yaml, the bands of whole networks. Networks
are ONNX files without weights (reports/data/networks.tar.xz), rates those of
reports/data/model_rates.csv; the README beside them says where they come from.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import network_bands
from network_bands import Bands, Left, as_yaml, bands

from npusim.engine import Memo
from npusim.graph.target import IMPLEMENTATIONS
from npusim.hardware import load_profile, profile_names
from npusim.model import ModelFile, read_model, retime
from npusim.model.graph_model import Compilation
from npusim.values.errors import NpusimError

SOC = "Ascend310P3"
DATA = Path(__file__).parent / "data"
TARGET = Path(__file__).with_suffix(".md")
_CURVE = 4  # batches of a network whose best one is looked for
_SPREAD = 0.07  # between two publications of one case
_NO_OPTIONS = "none"
_LEAST = 0.01  # of our device time that a published one is taken for, beside what calls cost

HEAD = """# Whole models on {soc}

Rates that were published for offline models (OM, float16) against `npusim model FILE.onnx`: every
network is compiled as the graph compiler does (`npusim/graph/passes`), its tasks are simulated one
after the other. No constant was fitted to these rates. A published rate is a loop over resident
inputs on one device; where two publications give the same case they differ by 7 % in the median.
Rows that the collection marks as doubtful are left out.

Made by `python reports/models.py`.

"""


@dataclass(frozen=True)
class Rate:
    """One published rate and ours, in items per second; `why` says why there is none of ours."""

    network: str
    batch: int
    published: float
    simulated: float = 0.0
    share: float = 0.0
    device_us: float = 0.0
    launches: int = 0
    why: str = ""

    @property
    def error(self) -> float:
        """Relative, negative where we are too slow."""
        return self.simulated / self.published - 1

    @property
    def left(self) -> Left:
        """What the published rate leaves over of the device's part of ours."""
        idle_us = self.batch * 1e6 / self.simulated - self.device_us
        measured_us = max(self.batch * 1e6 / self.published - idle_us, _LEAST * self.device_us)
        return Left(self.network, measured_us / self.device_us, self.device_us / self.launches)


def published(only: str = "") -> dict[str, list[tuple[int, float]]]:
    """Batches and rates by network, without the doubtful ones."""
    found = defaultdict(list)
    with (DATA / "model_rates.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            here = row["chip"] == SOC.removeprefix("Ascend") and only in row["onnx"]
            if here and not row["flags"]:
                found[row["onnx"]].append((int(row["batch"]), float(row["value"])))
    return dict(found)


def simulated(asked: tuple[str, list[tuple[int, float]]], folder: Path) -> list[Rate]:
    """The rates of one network, its batches side by side."""
    name, rows = asked
    memo, model = Memo(), read_model(folder / name, how=compilation(Path(name).stem))
    known: dict[int, Rate] = {}
    for batch, _ in rows:
        if batch not in known:
            known[batch] = _rate(folder / name, model, batch, memo)
    return [
        Rate(**{**vars(known[batch]), "network": Path(name).stem, "published": value})
        for batch, value in rows
    ]


def _rate(file: Path, model: ModelFile, batch: int, memo: Memo) -> Rate:
    profile = load_profile(SOC)
    try:
        result = retime(model.at(batch, profile), profile, memo=memo)
    except NpusimError as error:
        return Rate(file.stem, batch, 0.0, why=error.message)
    per_second = batch * 1e6
    return Rate(
        file.stem,
        batch,
        0.0,
        per_second / result.duration_us,
        result.simulated_share,
        result.device_us,
        result.step.launches,
    )


def page(rates: Sequence[Rate]) -> str:
    """The whole page."""
    known = [rate for rate in rates if not rate.why]
    found = bands([rate.left for rate in known])
    lines = [*_summary(known, rates, found), "", *_networks(known), "", *_doubts(known), ""]
    lines += [*_recipes(known), "", _others()]
    return HEAD.format(soc=SOC) + "\n".join(lines) + "\n"


def _summary(known: Sequence[Rate], rates: Sequence[Rate], found: Bands) -> Iterator[str]:
    errors = sorted(abs(rate.error) for rate in known)
    yield "| | |"
    yield "|---|---:|"
    yield f"| rows | {len(rates)}, of them simulated {len(known)} |"
    yield f"| median error | {median(errors):.1%} |"
    yield f"| P90 | {errors[int(0.9 * (len(errors) - 1))]:.1%} |"
    doubts = doubtful()
    sure = sorted(abs(rate.error) for rate in known if rate.network not in doubts) or errors
    yield f"| P90 without networks in doubt (below) | {sure[int(0.9 * (len(sure) - 1))]:.1%} |"
    yield f"| bias (median) | {median(rate.error for rate in known):+.1%} |"
    yield f"| rank correlation | {rank_correlation(known):.3f} |"
    yield f"| in 80 % bands made without a fifth of the networks, of those | {found.held:.0%} |"
    yield f"| time simulated (mean) | {sum(rate.share for rate in known) / len(known):.1%} |"
    best, asked = best_batches(known)
    yield f"| best batch found, of networks with {_CURVE} batches or more | {best} of {asked} |"
    for rate in rates:
        if rate.why:
            yield f"| not simulated: {rate.network} | {rate.why} |"


def _networks(rates: Sequence[Rate]) -> Iterator[str]:
    yield "| network | batches | error by batch (median) | simulated |"
    yield "|---|---|---|---:|"
    by_network = defaultdict(list)
    for rate in rates:
        by_network[rate.network].append(rate)
    ranked = sorted(by_network.items(), key=lambda pair: -median(abs(r.error) for r in pair[1]))
    for name, members in ranked:
        rows = sorted(members, key=lambda rate: rate.batch)
        batches = ", ".join(str(rate.batch) for rate in rows)
        errors = ", ".join(f"{rate.error:+.0%}" for rate in rows)
        middle = median(rate.error for rate in rows)
        share = sum(rate.share for rate in rows) / len(rows)
        yield f"| {name} | {batches} | {errors} ({middle:+.0%}) | {share:.0%} |"


def doubtful() -> dict[str, str]:
    """Networks whose publication contradicts another one, itself or the file; they are counted."""
    with (DATA / "model_doubts.csv").open(encoding="utf-8", newline="") as file:
        return {row["network"]: row["evidence"] for row in csv.DictReader(file)}


def recipes() -> dict[str, str]:
    """Options of ATC that networks were converted with, beyond those that all have."""
    with (DATA / "model_recipes.csv").open(encoding="utf-8", newline="") as file:
        return {row["network"]: row["options"] for row in csv.DictReader(file)}


def compilation(network: str) -> Compilation | None:
    """What is followed of the options that a network was converted with, if any are told."""
    options = recipes().get(network)
    if options is None:
        return None
    told = "high_performance" in options or options == _NO_OPTIONS
    named = tuple(name for name in IMPLEMENTATIONS if name in options)
    aipp = "insert_op_conf" in options
    return Compilation(aipp=aipp, fast=named) if told else Compilation(aipp=aipp)


def _recipes(rates: Sequence[Rate]) -> Iterator[str]:
    named = {rate.network for rate in rates}
    yield (
        "Converted with other options, of which images in bytes (insert_op_conf) and faster "
        "implementations (implmode) are followed. Where nothing is told Gelu is the faster one:"
    )
    yield ""
    for network, options in recipes().items():
        if network in named:
            yield f"* {network}: `{options}`"


def _doubts(rates: Sequence[Rate]) -> Iterator[str]:
    named = {rate.network for rate in rates}
    yield "Rates in doubt, counted all the same except where the table says otherwise:"
    yield ""
    for network, evidence in doubtful().items():
        if network in named:
            yield f"* {network}: {evidence}."


_OTHERS = """## Other chips

Offline rates in the collection, by chip; a rate is compared where there is a profile of its chip:

| chip | rows | networks | profile |
|---|---:|---:|---|
{rows}

Of Ascend910A and of Atlas A2 it has none. Whole steps that were profiled on chips of these families
are replayed kernel by kernel in `networks.md`; profiles hold device time alone, so there the host
has no part. Where torch_npu launches call by call (`--mode eager`), the host's part is a time for
each call, and none where the calls were captured:

{launches}"""


def _others() -> str:
    """What the collection has of other chips, and where whole steps of theirs are compared."""
    chips = _chips()
    rows = []
    for chip, count in Counter(chip for chip, _ in chips).most_common():
        networks = len({network for each, network in chips if each == chip})
        known = "there" if f"Ascend{chip}" in profile_names() else "none, so not compared"
        rows.append(f"| Ascend{chip} | {count} | {networks} | {known} |")
    launches = [
        f"* {name}: {load_profile(name).launch.host_dispatch_us:g} us"
        for name in ("Ascend910A", "Ascend910B3")
    ]
    return _OTHERS.format(rows="\n".join(rows), launches="\n".join(launches))


def _chips() -> list[tuple[str, str]]:
    """Chip and network of every row, doubtful ones too."""
    with (DATA / "model_rates.csv").open(encoding="utf-8", newline="") as file:
        return [(row["chip"], row["onnx"]) for row in csv.DictReader(file)]


def best_batches(rates: Sequence[Rate]) -> tuple[int, int]:
    """How many networks have the published best batch as ours, and how many have a curve.

    Publications of one case differ by 7 % in the median: a batch is a best one if its published
    rate is within that of the highest.
    """
    by_network = defaultdict(list)
    for rate in rates:
        by_network[rate.network].append(rate)
    curves = [each for each in by_network.values() if len({r.batch for r in each}) >= _CURVE]
    found = 0
    for members in curves:
        ours = max(members, key=lambda rate: rate.simulated)
        highest = max(rate.published for rate in members)
        found += ours.published >= (1 - _SPREAD) * highest
    return found, len(curves)


def rank_correlation(rates: Sequence[Rate]) -> float:
    """Spearman's, without ties."""
    ours = _ranks([rate.simulated for rate in rates])
    theirs = _ranks([rate.published for rate in rates])
    count = len(rates)
    apart = sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True))
    return 1 - 6 * apart / (count * (count**2 - 1))


def _ranks(values: Sequence[float]) -> list[int]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for rank, place in enumerate(order):
        ranks[place] = rank
    return ranks


def all_rates(only: str = "", workers: int | None = None) -> list[Rate]:
    """Every published rate with ours, network by network."""
    asked = published(only)
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(folder), asked)
        work = partial(simulated, folder=Path(folder))
        found: list[Rate] = []
        with ProcessPoolExecutor(workers) as pool:
            for number, rates in enumerate(pool.map(work, asked.items()), 1):
                found += rates
                sys.stderr.write(f"\r{number} of {len(asked)} networks")
    sys.stderr.write("\n")
    return found


def unpack(folder: Path, names: Iterable[str]) -> None:
    """The networks of some names."""
    wanted = set(names)
    with tarfile.open(DATA / "networks.tar.xz") as packed:
        for member in packed:
            if Path(member.name).name in wanted:
                packed.extract(member, folder, filter="data")


def main() -> None:
    """Write the page and the bands of networks, or print it for a part of the networks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="networks whose names have this in them")
    parser.add_argument("--workers", type=int, default=None)
    asked = parser.parse_args()
    rates = all_rates(asked.only, asked.workers)
    text = page(rates)
    if asked.only:
        sys.stdout.write(text)
        return
    TARGET.write_text(text, encoding="utf-8")
    made = bands([rate.left for rate in rates if not rate.why])
    network_bands.TARGET.write_text(as_yaml(SOC, made), encoding="utf-8")


if __name__ == "__main__":
    main()
