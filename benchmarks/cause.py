"""How often the shape rule is right, and how far the cost model is off: `python -m benchmarks.cause [REPEATS]`.

Shape rule: GEMM cases of the suites' sizes, labels by chance or by a planted rule, with and without wrong labels.
Cost model: published A100 times (benchmarks/data/vidur_a100_gemm_ms.csv), some of them learnt from, others predicted.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from detection.cliffs import CliffKind, ShapeTimes, find_cliffs
from detection.cost_model import Costed, fit_cost_model
from detection.shape_features import Shape
from detection.shape_rule import ShapeCase, find_shape_rule

DATA = Path(__file__).parent / "data" / "vidur_a100_gemm_ms.csv"
PEAK, BANDWIDTH = 312e12, 2.039e12
"""Dense bf16 FLOP/s and bytes/s of an A100 SXM 80 GB, by its datasheet."""
HIDDEN = {"Meta-Llama-3-8B": (4096, 32, 8, 14336), "Meta-Llama-3-70B": (8192, 64, 8, 28672)}
"""Model -> hidden size, heads, kv heads, width of the feed-forward part."""
M = (1, 4, 6, 8, 16, 37, 64, 93, 256, 470, 1182, 2048)
NK = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096), (18944, 3584), (2880, 2880))
Size = tuple[int, int, int]


def gemm(m: int, n: int, k: int) -> Shape:
    """A bf16 GEMM."""
    return Shape(
        case_id=f"gemm[bf16,M={m},N={n},K={k}]",
        axes={"M": (m,), "N": (n,), "K": (k,)},
        operator="gemm",
        phase="decode" if m <= 64 else "prefill",
        dtype="bf16",
        flops=2.0 * m * n * k,
        traffic_bytes=2.0 * (m * k + n * k + m * n),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A rule, or none."""

    name: str
    moved: Callable[[Size, np.random.Generator], bool]


PLANTED = (
    Planted(name="chance (a rule is wrong)", moved=lambda size, rng: bool(rng.random() < 0.4)),
    Planted(name="M ≥ 64", moved=lambda size, rng: size[0] >= 64),
    Planted(name="M ≤ 64 and N > 10,000", moved=lambda size, rng: size[0] <= 64 and size[1] > 10_000),
    Planted(name="K % 128 ≠ 0", moved=lambda size, rng: size[2] % 128 != 0),
    Planted(name="M % 16 ≠ 0 and M > 16", moved=lambda size, rng: size[0] % 16 != 0 and size[0] > 16),
)


def rule_lines(repeats: int) -> Iterator[str]:
    """Share of draws in which a rule is stated, by number of cases and of wrong labels."""
    sizes = [(m, n, k) for m in M for n, k in NK]
    yield "| planted | 20 cases | 40 cases | 80 cases | 40 cases, 5 % wrong | 80 cases, 5 % wrong |"
    yield "|---|---|---|---|---|---|"
    for planted in PLANTED:
        cells = []
        for count, wrong in ((20, 0.0), (40, 0.0), (80, 0.0), (40, 0.05), (80, 0.05)):
            rng = np.random.default_rng(2026)
            stated = 0
            for _ in range(repeats):
                chosen = [sizes[i] for i in rng.permutation(len(sizes))[:count]]
                cases = [
                    ShapeCase(shape=gemm(*s), moved=planted.moved(s, rng) != bool(rng.random() < wrong)) for s in chosen
                ]
                stated += find_shape_rule(cases).rule is not None
            cells.append(f"{stated / repeats:.2f}")
        yield f"| {planted.name} | {' | '.join(cells)} |"


def measured() -> dict[str, list[Costed]]:
    """Model -> its measured GEMMs."""
    found: dict[str, list[Costed]] = {name: [] for name in HIDDEN}
    with DATA.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            hidden, heads, kv, wide = HIDDEN[row["model"]]
            tp, m = int(row["tensor_parallel"]), int(row["num_tokens"])
            for name, n, k in (
                ("qkv_ms", (heads + 2 * kv) * 128 // tp, hidden),
                ("o_ms", hidden, hidden // tp),
                ("gate_up_ms", 2 * wide // tp, hidden),
                ("down_ms", hidden, wide // tp),
            ):
                shape = gemm(m, n, k)
                roof = max((shape.flops or 0) / PEAK, (shape.traffic_bytes or 0) / BANDWIDTH)
                found[row["model"]].append(Costed(shape=shape, roofline_s=roof, seconds=float(row[name]) * 1e-3))
    return found


def error_cells(learnt: Sequence[Costed], asked: Sequence[Costed]) -> tuple[float, float, float, float, float]:
    """Median and p90 error, coverage of the 95 % interval, share called far, and half-width of the interval."""
    model = fit_cost_model(learnt)
    assert model is not None
    errors, held, far, widths = [], 0, 0, []
    for case in asked:
        expected = model.expect(case)
        assert expected is not None
        errors.append(abs(math.log(case.seconds / expected.seconds)))
        held += expected.low_s <= case.seconds <= expected.high_s
        far += expected.is_far(case.seconds)
        widths.append(math.log(expected.high_s / expected.seconds))
    n = len(asked)
    return float(np.median(errors)), float(np.quantile(errors, 0.9)), held / n, far / n, float(np.median(widths))


def cost_lines(repeats: int) -> Iterator[str]:
    """Errors on shapes that were not learnt from, which lie evenly over the octaves of M."""
    cases = measured()
    every = [case for of_model in cases.values() for case in of_model]
    yield "| learnt from | median error | p90 | in the 95 % interval | called far | half-width |"
    yield "|---|---|---|---|---|---|"

    def line(name: str, rows: Sequence[tuple[float, ...]]) -> str:
        median, p90, held, far, width = np.mean(rows, axis=0)
        return f"| {name} | {median:.1%} | {p90:.1%} | {held:.2f} | {far:.3f} | ± {width:.0%} |"

    chance = np.array([1 / case.shape.axes["M"][0] for case in every])
    chance /= chance.sum()
    for count in (8, 12, 20, 40, 80):
        rows = []
        for seed in range(repeats):
            drawn = np.random.default_rng(seed).choice(len(every), count + 200, replace=False, p=chance)
            rows.append(error_cells([every[i] for i in drawn[:count]], [every[i] for i in drawn[count:]]))
        yield line(f"{count} shapes of both models", rows)
    for known, other in (("Meta-Llama-3-70B", "Meta-Llama-3-8B"), ("Meta-Llama-3-8B", "Meta-Llama-3-70B")):
        rows = []
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            learnt = rng.choice(len(cases[known]), 40, replace=False)
            asked = rng.choice(len(cases[other]), 200, replace=False)
            rows.append(error_cells([cases[known][i] for i in learnt], [cases[other][i] for i in asked]))
        yield line(f"40 shapes of {known}, asked of {other}", rows)


def cliff_lines(most: int = 5) -> Iterator[str]:
    """The largest cliffs of the measured GEMMs."""
    for name, cases in measured().items():
        times = [ShapeTimes(shape=c.shape, seconds=(c.seconds,) * 3, work=c.roofline_s) for c in cases]
        found = find_cliffs(times)
        jumps = [c for c in found if c.kind is CliffKind.JUMP]
        yield f"{name}: {len(jumps)} jumps and {len(found) - len(jumps)} inversions among {len(cases)} shapes."
        yield ""
        yield from (f"- {cliff.sentence.split(' (99 %')[0]}" for cliff in jumps[:most])
        yield ""


def main() -> None:
    """Prints the three tables."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print(f"## Share of {repeats} draws in which a shape rule is stated\n", flush=True)
    for text in rule_lines(repeats):
        print(text, flush=True)
    print(f"\n## Cost model on published A100 GEMM times, mean of {max(1, repeats // 4)} draws\n")
    for text in cost_lines(max(1, repeats // 4)):
        print(text, flush=True)
    print("\n## Cliffs in the same times\n")
    print("\n".join(cliff_lines()))


if __name__ == "__main__":
    main()
