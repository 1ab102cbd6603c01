"""Whole simulated fleets by seed: what was planted, what was found, what was said besides.

    python -m benchmarks.demo_seeds --first 201 --last 220 --out benchmarks/results/demo_seeds.md [--keep seeds.jsonl]

A seed takes about two minutes of processor time. With --keep every seed is written down when it is done, and a second
call goes on with those that are missing. Each seed that --renamed names is simulated once more with every case and
device called otherwise: its findings must have the same classes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from collector.host.demo import build_demo
from store.lake.lake import Lake

PREFIX = "zz_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """One fleet, judged."""

    seed: int
    prefix: str
    planted: tuple[tuple[str, bool, bool], ...]
    """What happened, whether it was found, whether it was rightly classed."""
    unplanted: tuple[str, ...]
    """Sentences of the confirmed findings that nothing planted explains."""
    classes: tuple[str, ...]
    """Metric, direction and class of every confirmed finding, in order."""


def run_seed(seed: int, prefix: str = "") -> SeedResult:
    """Builds the fleet of a seed in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="kernel-observatory-seed-") as folder:
        report = build_demo(f"{folder}/store", seed=seed, prefix=prefix)
        lake = Lake.open(f"{folder}/store")
        rows = lake.sql("SELECT finding_id, metric, direction, finding_class, sentence FROM findings_state").to_pylist()
        lake.close()
    said = {row["finding_id"]: row for row in rows}
    confirmed = {name for p in report.planted for name in p.findings} | set(report.unplanted)
    return SeedResult(
        seed=seed,
        prefix=prefix,
        planted=tuple((p.event.happening.value, p.found, p.classed) for p in report.planted),
        unplanted=tuple(said[name]["sentence"] for name in report.unplanted),
        classes=tuple(
            sorted(f"{said[n]['metric']} {said[n]['direction']:+d} {said[n]['finding_class']}" for n in confirmed)
        ),
    )


def document(results: Sequence[SeedResult]) -> Iterator[str]:
    """The results as a page."""
    plain = [r for r in results if not r.prefix]
    seeds = ", ".join(str(r.seed) for r in plain)
    yield f"# Simulated fleets, seeds {seeds}\n"
    yield "`python -m benchmarks.demo_seeds`: three models of four units, 120 nights, ten planted events a seed.\n"
    found: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for result in plain:
        for happening, was_found, classed in result.planted:
            found[happening].append((was_found, was_found and classed))
    yield "| planted | seeds | found | found and rightly classed |\n|---|---|---|---|"
    for happening, answers in found.items():
        yield f"| {happening} | {len(answers)} | {sum(a for a, _ in answers)} | {sum(b for _, b in answers)} |"
    every = [answer for answers in found.values() for answer in answers]
    yield f"| all | {len(every)} | {sum(a for a, _ in every)} | {sum(b for _, b in every)} |"
    besides = [(r.seed, sentence) for r in plain for sentence in r.unplanted]
    yield f"\nConfirmed findings that nothing planted explains: {len(besides) / len(plain):.2f} a seed."
    yield from (f"- {seed}: {sentence}" for seed, sentence in besides)
    for renamed in (r for r in results if r.prefix):
        first = next((r for r in plain if r.seed == renamed.seed), None)
        if first is not None:
            same = "the same classes" if first.classes == renamed.classes else "OTHER CLASSES"
            yield f"\nSeed {renamed.seed} with every case and device renamed: {same} ({len(renamed.classes)} findings)."


def main() -> None:
    """Runs what is missing, then writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=201)
    parser.add_argument("--last", type=int, default=220)
    parser.add_argument("--renamed", type=int, nargs="*", default=[])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    results = _kept(chosen.keep)
    known = {(r.seed, r.prefix) for r in results}
    wanted = [(seed, "") for seed in range(chosen.first, chosen.last + 1)] + [(s, PREFIX) for s in chosen.renamed]
    for seed, prefix in wanted:
        if (seed, prefix) not in known:
            results.append(run_seed(seed, prefix))
            if chosen.keep:
                with chosen.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(results[-1])) + "\n")
    page = "\n".join(document(results)) + "\n"
    print(page)
    if chosen.out:
        partial = chosen.out.with_suffix(".partial")
        partial.write_text(page, encoding="utf-8")
        shutil.move(partial, chosen.out)


def _kept(path: Path | None) -> list[SeedResult]:
    if path is None or not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        values["planted"] = tuple((h, f, c) for h, f, c in values["planted"])
        found.append(SeedResult(**values | {k: tuple(values[k]) for k in ("unplanted", "classes")}))
    return found


if __name__ == "__main__":
    main()
