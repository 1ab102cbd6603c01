"""The gates that ship, and what each says of a device's runs: by the functions and questions of `collector gate`."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import resources

import streamlit as st

from dashboard.data.source import ask, stamp, store_uri, table
from detection.gate import CURVE_METRICS, Answer, GateLine, GatePolicy, gate_from_mapping, whole_answer
from detection.gate_curves import check_curves
from detection.gate_dry_run import Covered, DryRun, GateRun, fold_dry_run
from detection.gate_history import Accepted, gate_arms, gate_outcomes
from store.lake.gate_rows import ACCEPTED_SERIES, CONFIRMED_SERIES, GATE_ROWS, GATE_RUNS

AT_ONCE = 20_000
"""Rows up to which a dry run is made without being asked for: they take about two seconds."""


def shipped_gates() -> list[GatePolicy]:
    """The gates of configs/gates, by name."""
    folder = resources.files("configs") / "gates"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return [gate_from_mapping(tomllib.loads(f.read_text(encoding="utf-8")), f.name) for f in files]


def gate_runs(device_unit: str, since: datetime) -> list[GateRun]:
    """The runs of the device since then, oldest first; confirm runs left out."""
    return ask(GateRun, GATE_RUNS, {"unit": device_unit, "since": since})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    n: int


def rows_to_read(device_unit: str, runs: int) -> int:
    """About how many rows a dry run reads, from the number of the device's series."""
    query = "select count(*) as n from series where device_unit is not distinct from $unit"
    return ask(_Count, query, {"unit": device_unit})[0].n * runs


@st.cache_resource(show_spinner=False, max_entries=32, ttl=900)
def _dry_run(uri: str, at: str, gate: GatePolicy, device_unit: str, since: datetime) -> DryRun:
    rows = table(GATE_ROWS, {"unit": device_unit, "arms": tuple(gate_arms(gate)), "since": since}).to_pylist()
    return fold_dry_run(
        gate,
        gate_outcomes(gate, rows, accepted=ask(Accepted, ACCEPTED_SERIES)),
        runs=gate_runs(device_unit, since),
        covered=ask(Covered, CONFIRMED_SERIES),
    )


def dry_run(gate: GatePolicy, device_unit: str, since: datetime) -> DryRun:
    """The gate over every run of the device since then, each against what was before it in that span."""
    return _dry_run(store_uri(), stamp(), gate, device_unit, since)


def newest_answer(gate: GatePolicy, dry: DryRun) -> Answer:
    """What `collector gate` says of the newest run: rules over loss curves are undecided, a store keeps none."""
    lines = dry.outcomes[-1].lines if dry.outcomes else ()
    return whole_answer([*lines, *(check_curves(rule, ()) for rule in gate.rules if rule.metric in CURVE_METRICS)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUse:
    """What one rule says of the newest run, and how many runs it failed or could not answer over the span."""

    newest: Mapping[Answer, int]
    """Answer -> cases of the newest run; empty where the rule concerns none of them."""
    telling: GateLine | None
    """A case of the newest run that did not pass: a failed one before an undecided one."""
    failed_runs: int
    undecided_runs: int


def rule_use(dry: DryRun, rule: str) -> RuleUse:
    """One rule of the gate over the outcomes, oldest first."""
    by_run = [[line for line in outcome.lines if line.rule == rule] for outcome in dry.outcomes]
    last = by_run[-1] if by_run else []
    order = (Answer.FAILED, Answer.UNDECIDED)
    telling = [line for answer in order for line in last if line.answer is answer]
    answers = [{line.answer for line in lines} for lines in by_run]
    return RuleUse(
        newest=Counter(line.answer for line in last),
        telling=telling[0] if telling else None,
        failed_runs=sum(Answer.FAILED in found for found in answers),
        undecided_runs=sum(Answer.UNDECIDED in found and Answer.FAILED not in found for found in answers),
    )
