"""Gates over the lake: the latest run against its history, and dry runs: what would this gate have said, and was it
right?"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from detection.gate import (
    CURVE_METRICS,
    Against,
    Answer,
    GateCase,
    GateLine,
    GateMetric,
    GatePolicy,
    GateRule,
    check_rule,
    gate_from_mapping,
    whole_answer,
)
from detection.gate_curves import Curve, check_curves
from detection.policy import PolicyError
from store.lake.lake import Lake

Row = Mapping[str, Any]

_RUNS = """
    SELECT run_id, started_at, device_unit FROM runs
    WHERE kind <> 'confirm' AND ($unit IS NULL OR device_unit = $unit) ORDER BY started_at, run_id
"""
_ROWS = """
    SELECT r.run_id, r.subject_id, r.case_id, r.arm, r.phase, r.status, r.latency_p50_s, r.latency_p95_s,
           r.latency_p99_s, coalesce(r.latency_n, 0) AS n, r.latency_basis, r.ratio_optimized, r.flop_per_s,
           r.peak_memory_bytes, r.error_margin
    FROM results r JOIN runs USING (run_id)
    WHERE kind <> 'confirm' AND runs.device_unit = $unit AND r.arm IN (SELECT unnest($arms))
    ORDER BY runs.started_at, r.run_id, r.subject_id
"""
_COLUMN = {
    GateMetric.LATENCY_P50: "latency_p50_s",
    GateMetric.LATENCY_P95: "latency_p95_s",
    GateMetric.LATENCY_P99: "latency_p99_s",
    GateMetric.LATENCY_RATIO: "ratio_optimized",
    GateMetric.THROUGHPUT: "flop_per_s",
    GateMetric.PEAK_MEMORY: "peak_memory_bytes",
    GateMetric.ERROR: "error_margin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutcome:
    """What a gate says of one run."""

    run_id: str
    answer: Answer
    lines: tuple[GateLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a gate would have said over a history."""

    outcomes: tuple[GateOutcome, ...]
    fired: int
    confirmed: int
    """Of the runs at which it fired anew, those where a finding that was confirmed begins."""
    days: int

    @property
    def sentence(self) -> str:
        """In words."""
        undecided = sum(o.answer is Answer.UNDECIDED for o in self.outcomes)
        return (
            f"Would have fired {self.fired} times in {self.days} days over {len(self.outcomes)} runs, "
            f"{self.confirmed} confirmed; undecided at {undecided} runs."
        )


def load_gate(name_or_path: str) -> GatePolicy:
    """A shipped gate by name, or one's own by path. Raises PolicyError in one line."""
    folder = resources.files("configs") / "gates"
    known = sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))
    if name_or_path.endswith(".toml"):
        try:
            text = Path(name_or_path).read_text(encoding="utf-8")
        except OSError as error:
            raise PolicyError(f"gate {name_or_path}: cannot be read: {error.strerror}") from error
        where = name_or_path
    elif name_or_path in known:
        text, where = (
            (folder / f"{name_or_path}.toml").read_text(encoding="utf-8"),
            f"configs/gates/{name_or_path}.toml",
        )
    else:
        raise PolicyError(f"gate {name_or_path!r} is unknown, must be one of {', '.join(known)} or end in .toml")
    try:
        mapping = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{where}: not TOML: {error}") from error
    return gate_from_mapping(mapping, where)


def check_run(
    lake: Lake, gate: GatePolicy, run_id: str | None = None, *, curves: Sequence[Curve] = ()
) -> GateOutcome | None:
    """The gate's answer for a run, by default the latest one; None where there is no such run.

    `curves` are the evidence of the rules over training runs; without them those rules are undecided.
    """
    runs = lake.sql(_RUNS, {"unit": None}).to_pylist()
    chosen = [r for r in runs if run_id is None or r["run_id"] == run_id]
    if not chosen:
        return None
    run = chosen[-1]
    (outcome,) = _outcomes(lake, gate, run["device_unit"], {run["run_id"]})
    lines = (*outcome.lines, *(check_curves(rule, curves) for rule in gate.rules if rule.metric in CURVE_METRICS))
    return replace(outcome, answer=whole_answer(lines), lines=lines)


def dry_run_gate(lake: Lake, gate: GatePolicy, *, device_unit: str | None = None) -> DryRun:
    """The gate over all runs of a unit, or of every one, each against what was before it.

    Rules over loss curves are left out: runs keep none. A case and rule that failed the time before as well do not fire
    again. `confirmed` counts against the findings that were confirmed in the same run.
    """
    runs = lake.sql(_RUNS, {"unit": device_unit}).to_pylist()
    units = sorted({r["device_unit"] for r in runs if r["device_unit"] is not None})
    outcomes = [o for unit in units for o in _outcomes(lake, gate, unit, None)]
    unit_of = {r["run_id"]: r["device_unit"] for r in runs}
    fired, failing = [], defaultdict(set)  # type: ignore[var-annotated]
    for outcome in outcomes:
        unit = unit_of[outcome.run_id]
        now = {(line.rule, line.case_id) for line in outcome.lines if line.answer is Answer.FAILED}
        if now - failing[unit]:
            fired.append(outcome.run_id)
        failing[unit] = now
    query = "SELECT DISTINCT since_run_id FROM findings_state WHERE state IN ('confirmed', 'acknowledged', 'resolved')"
    real = {row["since_run_id"] for row in lake.sql(query).to_pylist()}
    times = [r["started_at"] for r in runs]
    return DryRun(
        outcomes=tuple(outcomes),
        fired=len(fired),
        confirmed=len(real.intersection(fired)),
        days=(max(times) - min(times)).days + 1 if times else 0,
    )


def _outcomes(lake: Lake, gate: GatePolicy, unit: str, wanted: set[str] | None) -> list[GateOutcome]:
    arms = sorted({rule.arm for rule in gate.rules} | {"optimized"})
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in lake.sql(_ROWS, {"unit": unit, "arms": arms}).to_pylist():
        by_run[row["run_id"]].append(row)
    history: dict[tuple[str, GateMetric], list[float]] = defaultdict(list)
    outcomes = []
    for run_id, rows in by_run.items():
        if wanted is None or run_id in wanted:
            rules = [rule for rule in gate.rules if rule.metric not in CURVE_METRICS]
            lines = [line for rule in rules for line in _lines(rule, rows, history)]
            outcomes.append(GateOutcome(run_id=run_id, answer=whole_answer(lines), lines=tuple(lines)))
        for row in rows:
            for metric in _COLUMN:
                history[row["subject_id"], metric].append(_value(row, metric))
    return outcomes


def _lines(
    rule: GateRule, rows: Sequence[Row], history: Mapping[tuple[str, GateMetric], list[float]]
) -> list[GateLine]:
    own = [row for row in rows if row["arm"] == rule.arm]
    if rule.metric is GateMetric.FAILURES:
        bad = [row["case_id"] for row in own if row["status"] in ("wrong", "failed")]
        case = GateCase(case_id=", ".join(bad) or "all cases", phase="", value=len(bad), samples=len(own), history=())
        return list(
            check_rule(
                GateRule(name=rule.name, metric=rule.metric, against=Against.LIMIT, at_most=rule.at_most), [case]
            )
        )
    vendor = {row["case_id"]: _value(row, rule.metric) for row in rows if row["arm"] == "optimized"}
    cases = [
        GateCase(
            case_id=row["case_id"],
            phase=row["phase"] or "",
            value=_value(row, rule.metric),
            samples=int(row["n"]),
            history=tuple(history[row["subject_id"], rule.metric]),
            optimized=vendor.get(row["case_id"], math.nan),
        )
        for row in own
        if row["status"] not in ("skipped",)
    ]
    return list(check_rule(rule, cases))


def _value(row: Row, metric: GateMetric) -> float:
    """NaN where the row is no evidence; a percentile only from single calls."""
    value = row[_COLUMN[metric]] if row["status"] == "measured" else None
    tail = metric in (GateMetric.LATENCY_P95, GateMetric.LATENCY_P99)
    if value is None or (tail and row["latency_basis"] != "single"):
        return math.nan
    return float(value)
