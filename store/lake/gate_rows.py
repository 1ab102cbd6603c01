"""The questions behind a gate: which runs there are, what they measured, with which a confirmed finding begins."""

from __future__ import annotations

GATE_RUNS = """
    SELECT run_id, started_at, device_unit FROM runs
    WHERE kind <> 'confirm' AND device_kind IS DISTINCT FROM 'static' AND ($unit IS NULL OR device_unit = $unit)
      AND ($since IS NULL OR started_at >= $since)
    ORDER BY started_at, run_id
"""
"""$unit and $since may be null: every device, all time. Compiled kernels are no run of a device."""

GATE_ROWS = """
    SELECT r.run_id, r.subject_id, r.case_id, r.arm, r.phase, r.status, r.latency_p50_s, r.latency_p95_s,
           r.latency_p99_s, coalesce(r.latency_n, 0) AS n, r.latency_basis, r.ratio_optimized, r.flop_per_s,
           r.peak_memory_bytes, r.error_margin
    FROM results r JOIN runs USING (run_id)
    WHERE kind <> 'confirm' AND runs.device_unit = $unit AND r.arm IN (SELECT unnest($arms))
      AND ($since IS NULL OR (runs.started_at >= $since AND r.month >= strftime($since, '%Y-%m')))
    ORDER BY runs.started_at, r.run_id, r.subject_id
"""

CONFIRMED_RUNS = """
    SELECT DISTINCT since_run_id FROM findings_state WHERE state IN ('confirmed', 'acknowledged', 'resolved')
"""
