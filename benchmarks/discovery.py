"""Thousands of series at once, neighbours in time alike: what share of what is called changed did not change?

python benchmarks/discovery.py [--seeds 5] [--first-seed 9000] [--changed 0,0.01,0.05] [--recorded FOLDER]
                               [--out FILE.md]

3,000 series; 240 earlier runs each; a share of them steps up by 5 to 20 %, and ten runs later all are judged together.
Noise is 1 to 6 %; a block of five consecutive runs shares half of its variance. Called changed is: a two-sample t-test
at p < 0.01, or at a false discovery rate of 0.1 (Benjamini and Hochberg); the same with the variance multiplied by the
long-run factor; and `detection.shifts`. --recorded adds noise of recorded histories
(see `benchmarks.detection_streams.recorded`), resampled in blocks of five consecutive runs: all of them, and those
whose noise is that of the simulated ones, at most 6 %.
"""

# ruff: noqa: E402 beside `detection.py`, which must not hide the package of that name

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from benchmarks.detection_streams import recorded
from detection.discovery import benjamini_hochberg, long_run_factor
from detection.shifts import discover_shifts
from detection.stats import robust_sd

SERIES, HISTORY, RECENT, BLOCK, SHARED, RATE = 3_000, 240, 10, 5, 0.5, 0.1
QUIET = 0.06

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


Noise = Callable[[np.random.Generator], Floats]


def night(seed: int, changed: float, noise: Noise) -> tuple[Floats, Floats, Mask]:
    """Log history [S, 240], log recent runs [S, 10], and which series stepped."""
    rng = np.random.default_rng(seed)
    x = noise(rng)
    stepped = np.zeros(SERIES, dtype=bool)
    stepped[rng.choice(SERIES, round(changed * SERIES), replace=False)] = True
    x[stepped, HISTORY:] += np.log1p(rng.uniform(0.05, 0.20, (int(stepped.sum()), 1)))
    return x[:, :HISTORY], x[:, HISTORY:], stepped


def simulated(rng: np.random.Generator, shared: float) -> Floats:
    """Normal noise of 1 to 6 %; a block of five runs shares a part of its variance."""
    sd = np.exp(rng.uniform(np.log(0.01), np.log(0.06), (SERIES, 1)))
    length = HISTORY + RECENT
    blocks = np.repeat(rng.standard_normal((SERIES, length // BLOCK + 1)), BLOCK, axis=1)
    offset = int(rng.integers(0, BLOCK))
    blocks = blocks[:, offset : offset + length]
    x: Floats = sd * (np.sqrt(shared) * blocks + np.sqrt(1 - shared) * rng.standard_normal((SERIES, length)))
    return x


def resampled(rng: np.random.Generator, stretches: list[Floats]) -> Floats:
    """Each series from one recorded stretch, in blocks of five consecutive runs."""
    rows = []
    for which in rng.integers(0, len(stretches), SERIES):
        starts = rng.integers(0, stretches[which].size - BLOCK + 1, (HISTORY + RECENT) // BLOCK)
        rows.append(stretches[which][(starts[:, None] + np.arange(BLOCK)).ravel()])
    return np.array(rows)


def t_test(history: Floats, recent: Floats, *, deflated: bool = False) -> Floats:
    """Two-sided p-values of the pooled two-sample t, if asked with the long-run factor on the variance."""
    n, k = history.shape[1], recent.shape[1]
    variance = (history.var(axis=1) * n + recent.var(axis=1) * k) / (n + k - 2)
    factor = long_run_factor(history, 30) if deflated else np.ones(len(history))
    t = (recent.mean(axis=1) - history.mean(axis=1)) / np.sqrt(variance * factor * (1 / n + 1 / k))
    return np.asarray(2 * student.sf(np.abs(t), n + k - 2))


METHODS: dict[str, Callable[[Floats, Floats], Mask]] = {
    "t-test, p < 0.01": lambda h, r: t_test(h, r) < 0.01,
    "t-test, false discovery rate 0.1": lambda h, r: benjamini_hochberg(t_test(h, r), RATE),
    "t-test x long-run factor, rate 0.1": lambda h, r: benjamini_hochberg(t_test(h, r, deflated=True), RATE),
    "**detection.shifts**, rate 0.1": lambda h, r: discover_shifts(h, r, rate=RATE).found,
}


def lines(seeds: range, noises: dict[str, Noise], shares: tuple[float, ...]) -> list[str]:
    """The table."""
    out = [
        "# False discoveries over a night of correlated series",
        "",
        f"`python benchmarks/discovery.py`, {len(seeds)} seeds from {seeds.start}: {SERIES:,} series x {HISTORY} runs, "
        f"judged {RECENT} runs after a step of 5 to 20 %; blocks of {BLOCK} runs share half of the noise's variance.",
        "",
        "| changed | noise | judged by | share of false among the called | power | false calls a night |",
        "|---|---|---|---|---|---|",
    ]
    for changed in shares:
        for title, noise in noises.items():
            for name, method in METHODS.items():
                false_shares, powers, wrong = [], [], []
                for seed in seeds:
                    history, recent, stepped = night(seed, changed, noise)
                    found = method(history, recent)
                    false = int((found & ~stepped).sum())
                    false_shares.append(false / max(1, int(found.sum())))
                    powers.append(float((found & stepped).sum() / stepped.sum()) if stepped.any() else np.nan)
                    wrong.append(false)
                power = "-" if changed == 0 else f"{np.mean(powers):.2f}"
                cells = f"{np.mean(false_shares):.3f} | {power} | {np.mean(wrong):.1f}"
                out.append(f"| {changed:.0%} | {title} | {name} | {cells} |")
    return [*out, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=9_000)
    parser.add_argument("--changed", default="0,0.01,0.05", help="shares of the series that step")
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    noises: dict[str, Noise] = {
        "independent": lambda rng: simulated(rng, 0.0),
        "blocks of 5": lambda rng: simulated(rng, SHARED),
    }
    if args.recorded:
        stretches = [np.log(s.values) for s in recorded(args.recorded) if s.scenario == "real_none"]
        quiet = [x for x in stretches if robust_sd(x) <= QUIET]
        noises[f"recorded ({len(stretches)}), blocks of 5"] = lambda rng: resampled(rng, stretches)
        noises[f"recorded, at most {QUIET:.0%} ({len(quiet)}), blocks of 5"] = lambda rng: resampled(rng, quiet)
    changed = tuple(map(float, args.changed.split(",")))
    text = "\n".join(lines(range(args.first_seed, args.first_seed + args.seeds), noises, changed))
    if args.out:
        args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
