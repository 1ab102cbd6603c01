"""How the online detector and others do on one set of streams, one scorer, one table.

python benchmarks/detection.py [--recorded FOLDER] [--otava PYTHON] [--out FILE.md]

Simulated streams are made here, from a seed that was not used in development: eight kinds of noise of 1 to 10 %, steps
of 1 to 20 %. --recorded adds a folder of recorded streams (see `benchmarks.detection_streams.recorded`). --otava is a
Python that has apache-otava installed; without it that row is left out.
"""

# ruff: noqa: E402 the path is set first: this file is named like the package it measures

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.detection_peers import Cusum, Ours, Pelt, Ratio, TwoWindows, otava
from benchmarks.detection_streams import Detector, Score, Stream, recorded, score, simulated, tally

SEED, PER_KIND = 20_261_130, 20

PEERS: dict[str, Callable[[], Detector]] = {
    "**this detector**": Ours,
    "ratio > 200 % of the last run": lambda: Ratio(2.0, 1),
    "ratio > 10 % of the last run": lambda: Ratio(0.1, 1),
    "ratio > 10 % of the last 10 runs": lambda: Ratio(0.1, 10),
    "t of two windows > 7": lambda: TwoWindows(7.0),
    "t of two windows > 4": lambda: TwoWindows(4.0),
    "CUSUM k 0.5 h 5": Cusum,
    "CUSUM k 1 h 14": lambda: Cusum(1.0, 14.0),
    "PELT, 3 log n": Pelt,
    "PELT, 15 log n": lambda: Pelt(15.0),
}
OTAVA_P = (1e-3, 1e-6)
OTAVA_EVERY = 3
"""It takes a millisecond a value: it is fed every third stream."""
FALSE = ("none", "real_none", "steps", "bimod_none", "outl_none", "var3")


def rows(streams: list[Stream], python: Path | None) -> Iterator[tuple[str, Score]]:
    """Each detector and its score."""
    for name, make in PEERS.items():
        yield name, score(make, streams)
    if python is not None:
        some = streams[::OTAVA_EVERY]
        values = sum(len(stream.values) for stream in some)
        for p in OTAVA_P:
            alerts, seconds = otava(python, some, p)
            name = f"Apache Otava, p {p:g} (every {OTAVA_EVERY}rd stream)"
            yield name, tally(some, alerts, 1e3 * seconds / values)


def table(title: str, streams: list[Stream], python: Path | None) -> Iterator[str]:
    """Lines of one Markdown table."""
    groups = [g for g in FALSE if g == "steps" or any(s.scenario == g for s in streams)]
    yield f"## {title}: {len(streams)} streams"
    yield ""
    head = ["detector", "hit .5-1 sd", "1-2", "2-3", "3-5", "> 5", "chance", "lag", "located"]
    head += [f"false/1,000 {group}" for group in groups] + ["ms a value"]
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for name, got in rows(streams, python):
        cells = [name, *(f"{share:.2f}" for share in got.hit), f"{got.chance:.3f}", f"{got.lag:.0f}"]
        cells += [f"{got.located:.2f}", *(f"{got.false[group]:.2f}" for group in groups), f"{got.ms_per_value:.3f}"]
        yield "| " + " | ".join(cells) + " |"
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--otava", type=Path)
    parser.add_argument("--per-kind", type=int, default=PER_KIND)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    lines = [
        "# Detectors on streams with known steps",
        "",
        f"`python benchmarks/detection.py`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}. Definitions: benchmarks/detection_streams.py; rules and settings of the "
        "others: benchmarks/detection_peers.py. CPU time.",
        "",
    ]
    streams = simulated(SEED, args.per_kind)
    lines += table(f"Simulated (seed {SEED})", streams, args.otava)
    if args.recorded:
        lines += table("Recorded histories with injected steps", recorded(args.recorded), args.otava)
    text = "\n".join(lines)
    if args.out:
        args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
