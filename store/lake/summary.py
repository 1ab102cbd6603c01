"""`series`: one row a subject with its latest state and its last thirty measured runs, so that no page scans history.

The table is a fold over `results`, in SQL: rows that exist plus rows that are new give the rows that hold. The fold
does not depend on the order in which runs arrive, and folding everything from the start gives the same table. Equal
times are told apart by run id (latest) and by value (sparkline), so that no order of arrival shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from store.lake.tables import SERIES

SPARKLINE_RUNS = 30
BEFORE, RUNS, CATALOGS, JUDGED, WANTED = "fold_before", "fold_runs", "fold_catalogs", "fold_judged", "fold_wanted"
"""Tables that the fold is given: series as they are, the new runs, their catalogs, new verdicts, subjects."""

FROM_LATEST = (
    "case_id", "operator", "family", "dtype", "phase", "weight", "arm", "role", "implementation", "host", "device_kind",
    "device_model", "device_slice", "device_unit", "settings", "status", "status_kind", "status_reason",
    "latency_p50_s", "latency_p99_s", "ratio_optimized", "ratio_optimized_low", "ratio_optimized_high", "ratio_naive",
    "roofline_fraction", "peak_memory_bytes", "error_margin",
)  # fmt: skip
"""Columns of a series that are those of the latest row of its subject."""
OF_LATEST_RUN = ("suite", "title", "shape")

NEW_RUNS = "SELECT run_id, suite, catalog FROM runs WHERE ingest_seq > $after AND ingest_seq <= $until"
NEW_SUBJECTS = "SELECT DISTINCT subject_id FROM results WHERE ingest_seq > $after AND ingest_seq <= $until"
NEW_VERDICTS = """
SELECT subject_id, status, sentence, smallest_visible_change
FROM (
    SELECT *, row_number() OVER (PARTITION BY subject_id ORDER BY as_of_seq DESC, made_at DESC, verdict_id DESC) AS back
    FROM verdicts
    WHERE metric = 'latency_ratio' AND against = 'history' AND as_of_seq >= $after
)
WHERE back = 1
"""

_FRESH = f"""
fresh AS (
    SELECT subject_id, run_id, coalesce(measured_at, TIMESTAMPTZ '1970-01-01 00:00:00+00') AS moment,
           {", ".join(FROM_LATEST)}
    FROM results
    WHERE ingest_seq > $after AND ingest_seq <= $until AND subject_id IN (SELECT subject_id FROM {WANTED})
),
counted AS (SELECT subject_id, count(*) AS n_runs, min(moment) AS first_at FROM fresh GROUP BY subject_id),
latest AS (
    SELECT f.*, r.suite, c.title, c.shape
    FROM (
        SELECT *, row_number() OVER (PARTITION BY subject_id ORDER BY moment DESC, run_id DESC) AS back FROM fresh
    ) f
    LEFT JOIN {RUNS} r ON f.run_id = r.run_id
    LEFT JOIN {CATALOGS} c ON r.catalog = c.catalog AND f.case_id = c.case_id
    WHERE f.back = 1
)"""  # noqa: S608 own column and table names
_SPARKS = f"""
points AS (
    SELECT subject_id, unnest(sparkline_at) AS moment, unnest(sparkline_ratio) AS ratio,
           unnest(sparkline_latency_s) AS latency
    FROM {BEFORE}
    UNION ALL
    SELECT subject_id, moment, CASE WHEN isnan(ratio_optimized) THEN NULL ELSE ratio_optimized END,
           CASE WHEN isnan(latency_p50_s) THEN NULL ELSE latency_p50_s END
    FROM fresh WHERE status = 'measured'
),
placed AS (
    SELECT *, row_number() OVER (
        PARTITION BY subject_id ORDER BY moment DESC, coalesce(ratio, -1) DESC, coalesce(latency, -1) DESC
    ) AS back
    FROM points
),
sparks AS (
    SELECT subject_id, list(ratio ORDER BY back DESC) AS sparkline_ratio,
           list(latency ORDER BY back DESC) AS sparkline_latency_s, list(moment ORDER BY back DESC) AS sparkline_at,
           max(CASE WHEN back = 1 THEN ratio END) AS last_ratio, max(CASE WHEN back = 2 THEN ratio END) AS ratio_before
    FROM placed WHERE back <= {SPARKLINE_RUNS} GROUP BY subject_id
)"""  # noqa: S608 own table names
_NEWER = (
    "(b.subject_id IS NULL OR (l.subject_id IS NOT NULL AND (l.moment, l.run_id) >= (b.latest_at, b.latest_run_id)))"
)


def _of_newer(name: str) -> str:
    return f"CASE WHEN {_NEWER} THEN l.{name} ELSE b.{name} END"


def _column(name: str) -> str:
    """The SQL of one column of a series."""
    special = {
        "subject_id": "coalesce(b.subject_id, l.subject_id)",
        "n_runs": "coalesce(b.n_runs, 0) + coalesce(n.n_runs, 0)",
        "first_at": "least(coalesce(b.first_at, n.first_at), coalesce(n.first_at, b.first_at))",
        "latest_at": f"CASE WHEN {_NEWER} THEN l.moment ELSE b.latest_at END",
        "latest_run_id": f"CASE WHEN {_NEWER} THEN l.run_id ELSE b.latest_run_id END",
        "ratio_previous": f"CASE WHEN {_of_newer('status')} = 'measured' THEN s.ratio_before ELSE s.last_ratio END",
        "verdict": "CASE WHEN j.subject_id IS NULL THEN b.verdict ELSE j.status END",
        "verdict_sentence": "CASE WHEN j.subject_id IS NULL THEN b.verdict_sentence ELSE j.sentence END",
        "smallest_visible_change": "CASE WHEN j.subject_id IS NULL THEN b.smallest_visible_change"
        " ELSE j.smallest_visible_change END",
        "sparkline_ratio": "coalesce(s.sparkline_ratio, [])",
        "sparkline_latency_s": "coalesce(s.sparkline_latency_s, [])",
        "sparkline_at": "coalesce(s.sparkline_at, [])",
    }
    expression = special.get(name) or _of_newer(name)
    return f"{expression} AS {name}"


FOLD = f"""
WITH {_FRESH}, {_SPARKS}
SELECT {", ".join(_column(name) for name in SERIES.names)}
FROM {BEFORE} b
FULL JOIN latest l ON b.subject_id = l.subject_id
LEFT JOIN counted n ON n.subject_id = coalesce(b.subject_id, l.subject_id)
LEFT JOIN sparks s ON s.subject_id = coalesce(b.subject_id, l.subject_id)
LEFT JOIN {JUDGED} j ON j.subject_id = coalesce(b.subject_id, l.subject_id)
ORDER BY 1
"""  # noqa: S608 own column and table names
"""The series of the wanted subjects: BEFORE and the results of a window of runs, with the newest verdicts."""


def catalog_words(catalogs: Iterable[str | None]) -> pa.Table:
    """Title and shape of each case, in the words its run brought along, for each different catalog."""
    rows = [
        {"catalog": catalog, "case_id": case_id, "title": _text(entry, "title"), "shape": _text(entry, "shape")}
        for catalog in sorted({catalog for catalog in catalogs if catalog})
        for case_id, entry in _parsed(catalog).items()
    ]
    names = ("catalog", "case_id", "title", "shape")
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))


def _text(entry: object, name: str) -> str | None:
    value = entry.get(name) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else None


def _parsed(catalog: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(catalog)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
