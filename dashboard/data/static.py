"""Kernels compiled ahead of time for a chip: the newest compilation of each, the one before, and the series of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from dashboard.data.source import ask
from detection.static_change import StaticChange, static_change

MOST_RUNS = 200
"""The newest compilations that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """One kernel compiled for one chip in one run; the numbers are None where it does not compile."""

    run_id: str
    measured_at: datetime
    kernel: str
    chip: str
    operator: str | None
    family: str
    status: str
    status_reason: str | None
    settings: str | None
    repro: str | None
    revision: str | None
    triton: str | None
    compile_s: float | None
    static_registers: int | None
    static_spills: int | None
    static_shared_bytes: int | None
    static_stack_bytes: int | None
    static_instructions: int | None
    static_matrix_instructions: int | None
    static_load_widths: str | None
    static_binary_bytes: int | None
    static_binary_sha256: str | None

    @property
    def place(self) -> tuple[str, str]:
        """What names its series."""
        return self.kernel, self.chip

    @property
    def loads(self) -> dict[int, int]:
        """Bits -> loads of global memory, widest first; empty where it is not kept or cannot be read."""
        try:
            found = json.loads(self.static_load_widths or "{}")
            return dict(sorted(((int(bits), int(n)) for bits, n in found.items()), reverse=True))
        except (ValueError, TypeError, AttributeError):
            return {}

    @property
    def wide_share(self) -> float | None:
        """Share of the loads that are of 128 bits or a bulk copy, the widest there are; None without loads."""
        whole = sum(self.loads.values())
        return sum(n for bits, n in self.loads.items() if bits >= 128 or bits == 0) / whole if whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The newest compilation of a kernel for a chip, the one before it that gave a binary, and what that means."""

    now: Compiled
    before: Compiled | None
    change: StaticChange | None
    """None where the newest does not compile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    ingest_seq: int
    month: str


RUNS_QUERY = """
select ingest_seq, strftime(started_at, '%Y-%m') as month from runs
where device_kind = 'static' order by started_at desc limit $most
"""
ROWS_QUERY = """
select r.run_id, r.measured_at, r.case_id as kernel, coalesce(r.device_model, 'unknown chip') as chip, r.operator,
       coalesce(r.family, 'other') as family, r.status, r.status_reason, r.settings, r.repro, u.revision, u.triton,
       r.compile_s, r.static_registers, r.static_spills, r.static_shared_bytes, r.static_stack_bytes,
       r.static_instructions, r.static_matrix_instructions, r.static_load_widths, r.static_binary_bytes,
       r.static_binary_sha256
from results r join runs u using (run_id)
where r.device_kind = 'static' and r.ingest_seq in ({seqs}) and r.month >= $month
order by r.measured_at desc, r.run_id desc, r.case_id, r.device_model
"""


def compilations() -> tuple[list[Compiled], str, dict[str, object]]:
    """Every row of the newest compilations, newest first, with the question and what is bound in it.

    The runs are found first: their numbers lead to their files, so that no history of measurements is read.
    """
    runs = ask(_Run, RUNS_QUERY, {"most": MOST_RUNS})
    query = ROWS_QUERY.format(seqs=", ".join(f"$q{i}" for i in range(len(runs))) or "null")
    parameters: dict[str, object] = {f"q{i}": run.ingest_seq for i, run in enumerate(runs)}
    parameters["month"] = min((run.month for run in runs), default="9999-99")
    return (ask(Compiled, query, parameters) if runs else []), query, parameters


def standings(rows: Sequence[Compiled]) -> list[Standing]:
    """One a kernel and chip, in the order of their names. `rows` are newest first."""
    series: dict[tuple[str, str], list[Compiled]] = {}
    for row in rows:
        series.setdefault(row.place, []).append(row)
    found = []
    for place in sorted(series):
        now, *older = series[place]
        before = next((row for row in older if row.static_binary_sha256), None)
        change = None
        if now.static_binary_sha256:
            change = static_change(now.kernel, now.chip, asdict(before) if before else None, asdict(now))
        found.append(Standing(now=now, before=before, change=change))
    return found
