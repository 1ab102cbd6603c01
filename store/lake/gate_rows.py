"""The questions behind a gate: which runs there are, what they measured, what was confirmed and what accepted."""

from __future__ import annotations

GATE_RUNS = """
    SELECT run_id, started_at, device_unit FROM runs
    WHERE kind <> 'confirm' AND device_kind IS DISTINCT FROM 'static' AND ($unit IS NULL OR device_unit = $unit)
      AND ($since IS NULL OR started_at >= $since)
    ORDER BY started_at, run_id
"""
"""$unit and $since may be null: every device, all time. Compiled kernels are no run of a device."""

GATE_ROWS = """
    SELECT r.run_id, runs.started_at, r.subject_id, r.case_id, r.arm, r.phase, r.status, r.latency_p50_s,
           r.latency_p95_s, r.latency_p99_s, coalesce(r.latency_n, 0) AS n, r.latency_basis, r.ratio_optimized,
           r.ratio_optimized_low, r.ratio_optimized_high,
           coalesce(len(r.log_ratio_optimized_processes), 0) AS ratio_processes, r.flop_per_s, r.peak_memory_bytes,
           r.error_margin
    FROM results r JOIN runs USING (run_id)
    WHERE kind <> 'confirm' AND runs.device_unit = $unit AND r.arm IN (SELECT unnest($arms))
      AND ($since IS NULL OR (runs.started_at >= $since AND r.month >= strftime($since, '%Y-%m')))
    ORDER BY runs.started_at, r.run_id, r.subject_id
"""

CONFIRMED_SERIES = """
    SELECT unnest(subject_ids) AS subject_id, metric, since_at AS since,
           CASE WHEN state = 'resolved' THEN updated_at END AS until
    FROM findings_state
    WHERE state IN ('confirmed', 'acknowledged', 'expected', 'snoozed', 'resolved')
      AND direction > 0 AND finding_class <> 'baseline'
"""
"""Series that a finding for the worse was confirmed of. Of a moved baseline nothing got worse."""

ACCEPTED_SERIES = """
    WITH acts AS (
        SELECT subject_id, metric, from_run_id, "at" AS said_at, event FROM baselines
        QUALIFY row_number() OVER (PARTITION BY subject_id, metric, from_run_id ORDER BY "at" DESC, event_id DESC) = 1
    ),
    said AS (
        SELECT subject_id, metric, from_run_id, said_at FROM acts WHERE event = 'moved'
        UNION ALL
        SELECT unnest(subject_ids), metric, since_run_id, updated_at FROM findings_state WHERE state = 'expected'
    )
    SELECT said.subject_id, said.metric, runs.started_at AS since, said.said_at
    FROM said JOIN runs ON runs.run_id = said.from_run_id ORDER BY said.said_at
"""
"""Changes that somebody accepted, by moving a baseline or by calling a finding expected, and from which run on."""
