"""A slow unit of many: the last nights of every unit of a model, side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from collector.host.life import Moment
from collector.host.segments import SLOW_UNIT, WHOLE_RUN
from detection.classify import FindingClass
from detection.findings import EventKind, Evidence, Facts, Finding, FindingEvent, Tile, finding_id
from detection.policy import Policy
from detection.units import UnitEffect, compare_units
from detection.verdict import Metric, percent
from store.lake.lake import Lake

NIGHTS = 3
"""Nights in a row on which a unit must be slow: the last ones of every unit."""

_LATEST = """
    WITH nights AS (
        SELECT run_id, device_unit, device_kind, host, started_at,
               row_number() OVER (PARTITION BY device_unit ORDER BY started_at DESC, run_id DESC) AS back
        FROM runs WHERE device_model = $model AND kind <> 'confirm' AND started_at <= $now
    )
    SELECT n.run_id, n.device_unit, n.device_kind, n.host, n.started_at, n.back, r.case_id, r.latency_p50_s
    FROM nights n JOIN results r USING (run_id)
    WHERE n.back <= 3 AND r.arm = 'optimized' AND r.status = 'measured' AND r.latency_p50_s > 0
    ORDER BY n.back, n.device_unit, r.case_id
"""


def slow_unit_events(
    lake: Lake, model: str, findings: Mapping[str, Finding], policy: Policy, moment: Moment
) -> list[FindingEvent]:
    """Units that were slower than their fellows in each of their last nights, and those that no longer are.

    The optimized arm is compared, the same library call on every unit; a candidate may differ by its own choice.
    """
    rows = lake.sql(_LATEST, {"model": model, "now": moment.at}).to_pylist()
    nights = [_effects([r for r in rows if r["back"] == back], policy) for back in range(1, NIGHTS + 1)]
    events = []
    for unit, tonight in nights[0].items():
        seen = [night[unit] for night in nights if unit in night]
        open_finding = _open(unit, findings)
        if _known_by_its_past(unit, findings):
            continue  # it became slow, and that was said when it did
        if open_finding is None and len(seen) == NIGHTS and all(effect.slow for effect in seen):
            last = next(r for r in rows if r["device_unit"] == unit and r["back"] == 1)
            facts = _facts(model, last, tonight, seen)
            if finding_id(facts.group, facts.metric, facts.direction, facts.since_run_id) not in findings:
                events.append(moment.event(EventKind.CONFIRMED, facts, last["run_id"]))
        elif open_finding is not None and len(seen) >= 2 and not any(effect.slow for effect in seen[:2]):
            last = next(r for r in rows if r["device_unit"] == unit and r["back"] == 1)
            back = replace(open_finding.facts, sentence=f"{unit} is as fast as its fellows again ({last['run_id']}).")
            events.append(moment.event(EventKind.RESOLVED, back, last["run_id"]))
    return events


def _effects(rows: Sequence[Mapping[str, Any]], policy: Policy) -> dict[str, UnitEffect]:
    units = sorted({r["device_unit"] for r in rows})
    cases = sorted({r["case_id"] for r in rows})
    table = np.full((len(units), len(cases)), np.nan)
    at_unit, at_case = ({name: i for i, name in enumerate(names)} for names in (units, cases))
    for row in rows:
        table[at_unit[row["device_unit"]], at_case[row["case_id"]]] = row["latency_p50_s"]
    kind = rows[0]["device_kind"] if rows else ""
    floor = policy.floor(Metric.LATENCY, kind)
    return {effect.unit: effect for effect in compare_units(units, table, floor=floor)}


def _group(unit: str) -> str:
    return f"{unit}{SLOW_UNIT}"


def _open(unit: str, findings: Mapping[str, Finding]) -> Finding | None:
    return next((f for f in findings.values() if f.facts.group == _group(unit) and f.state.open), None)


def _known_by_its_past(unit: str, findings: Mapping[str, Finding]) -> bool:
    group = f"{unit}{WHOLE_RUN}"
    return any(f.facts.group == group and f.facts.direction > 0 and f.state.open for f in findings.values())


def _facts(model: str, last: Mapping[str, Any], effect: UnitEffect, seen: Sequence[UnitEffect]) -> Facts:
    unit = effect.unit
    by_night: dict[int, UnitEffect] = defaultdict(lambda: effect, enumerate(seen))
    return Facts(
        group=_group(unit),
        finding_class=FindingClass.HOST,
        direction=1,
        metric=Metric.LATENCY,
        operator="",
        family="",
        title=f"{unit} is slower than its fellows",
        shape=f"{effect.cases} cases that other {model} run too",
        case_id="",
        arm="optimized",
        subject_id="",
        subject_ids=(),
        device_model=model,
        device_unit=unit,
        host=last["host"] or "",
        change=effect.effect,
        change_low=effect.low,
        change_high=effect.high,
        price=None,
        since_run_id=last["run_id"],
        since_at=last["started_at"],
        last_good_run_id=None,
        cause="The same library calls take longer on this unit than on the others of its model: the unit or its host.",
        sentence=(
            f"{unit} is {percent(effect.effect)} slower than the median {model} over {effect.cases} cases "
            f"(95 % interval {percent(effect.low, signed=True)} to {percent(effect.high, signed=True)}), "
            f"in each of its last {len(seen)} nights."
        ),
        evidence=Evidence(
            baseline=f"the other units of {model} in the same nights",
            tiles=tuple(
                Tile(
                    label="Tonight" if i == 0 else f"{i} nights before",
                    change=by_night[i].effect,
                    low=by_night[i].low,
                    high=by_night[i].high,
                    words=f"{by_night[i].cases} cases, optimized arm",
                )
                for i in range(len(seen))
            ),
        ),
    )
