"""Gates over the lake: the latest run against its history, and dry runs: what would this gate have said, and was it
right?"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

from detection.gate import CURVE_METRICS, GatePolicy, gate_from_mapping, nothing_to_judge, whole_answer
from detection.gate_curves import Curve, check_curves
from detection.gate_dry_run import Covered, DryRun, GateRun, fold_dry_run
from detection.gate_history import Accepted, GateOutcome, gate_arms, gate_outcomes
from detection.policy import PolicyError
from store.lake.gate_rows import ACCEPTED_SERIES, CONFIRMED_SERIES, GATE_ROWS, GATE_RUNS
from store.lake.lake import Lake


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
    runs = lake.sql(GATE_RUNS, {"unit": None, "since": None}).to_pylist()
    chosen = [r for r in runs if run_id is None or r["run_id"] == run_id]
    if not chosen:
        return None
    run = chosen[-1]
    rows = _rows(lake, gate, run["device_unit"], None)
    found = gate_outcomes(gate, rows, accepted=_accepted(lake), until=run["run_id"])
    lines = found[0].lines if found else (nothing_to_judge(gate, ()),)
    lines = (*lines, *(check_curves(rule, curves) for rule in gate.rules if rule.metric in CURVE_METRICS))
    return GateOutcome(run_id=run["run_id"], answer=whole_answer(lines), lines=lines)


def dry_run_gate(lake: Lake, gate: GatePolicy, *, device_unit: str | None = None, days: int | None = None) -> DryRun:
    """The gate over the runs of a unit, or of every one, each against what was before it; with `days` of the last days.

    Rules over loss curves are left out: runs keep none. `confirmed` counts against findings that were confirmed.
    """
    since = datetime.now(UTC) - timedelta(days=days) if days is not None else None
    runs = [GateRun(**row) for row in lake.sql(GATE_RUNS, {"unit": device_unit, "since": since}).to_pylist()]
    units = sorted({run.device_unit for run in runs if run.device_unit is not None})
    accepted = _accepted(lake)
    outcomes = [
        outcome for unit in units for outcome in gate_outcomes(gate, _rows(lake, gate, unit, since), accepted=accepted)
    ]
    covered = [Covered(**row) for row in lake.sql(CONFIRMED_SERIES).to_pylist()]
    return fold_dry_run(gate, outcomes, runs=runs, covered=covered)


def _rows(lake: Lake, gate: GatePolicy, unit: str | None, since: datetime | None) -> list[dict[str, Any]]:
    asked = {"unit": unit, "arms": gate_arms(gate), "since": since}
    rows: list[dict[str, Any]] = lake.sql(GATE_ROWS, asked).to_pylist()
    return rows


def _accepted(lake: Lake) -> list[Accepted]:
    return [Accepted(**row) for row in lake.sql(ACCEPTED_SERIES).to_pylist()]
