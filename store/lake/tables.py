"""The tables of the lake: those of the bundles with two ingest columns, and those the host writes.

Everything a person or a judge says is an event with an ingest sequence: late data add events, they rewrite none.
`series`, `findings_state` and `cliffs` are folds that the host computes once and overwrites; both can be rebuilt.
"""

from __future__ import annotations

import pyarrow as pa

from store.bundle.schemas import BUNDLE_TABLES, DOUBLES, TIMESTAMP

INGEST_COLUMNS = [pa.field("ingest_seq", pa.int64()), pa.field("ingested_at", TIMESTAMP)]

VERDICTS = pa.schema(
    [
        ("verdict_id", pa.string()),  # hash of run, subject, metric, tier, policy: saying it twice is saying it once
        ("run_id", pa.string()),
        ("as_of_seq", pa.int64()),  # the highest ingest_seq it had seen
        ("made_at", TIMESTAMP),
        ("subject_id", pa.string()),
        ("case_id", pa.string()),
        ("arm", pa.string()),
        ("device_unit", pa.string()),
        ("metric", pa.string()),  # latency, latency_ratio, latency_p99, peak_memory, error
        ("tier", pa.string()),  # in_run | tonight | confirm | online
        ("against", pa.string()),  # naive | optimized | sentinel | history | model (what is expected of a new shape)
        ("status", pa.string()),  # detection.verdict.VerdictStatus
        ("code", pa.string()),  # detection.verdict.ReasonCode
        ("sentence", pa.string()),
        ("change", pa.float64()),  # relative: +0.15 is 15 % more
        ("change_low", pa.float64()),
        ("change_high", pa.float64()),
        ("smallest_visible_change", pa.float64()),
        ("baseline", pa.string()),  # in words: which runs
        ("baseline_run_id", pa.string()),  # the last good run
        ("baseline_n", pa.int64()),
        ("p_value", pa.float64()),
        ("policy", pa.string()),
        ("policy_version", pa.string()),
    ]
)

FINDINGS = pa.schema(
    [
        ("event_id", pa.string()),
        ("finding_id", pa.string()),
        (
            "event",
            pa.string(),
        ),  # detection.findings.FindingEvent: suspected, confirmed, refuted, resolved, reopened, moved
        ("at", TIMESTAMP),
        ("as_of_seq", pa.int64()),
        ("actor", pa.string()),
        ("run_id", pa.string()),
        ("payload", pa.string()),  # JSON: see detection.findings
    ]
)

TRIAGE = pa.schema(
    [
        ("event_id", pa.string()),
        ("finding_id", pa.string()),
        ("event", pa.string()),  # acknowledged, assigned, expected, snoozed, resolved, note, linked
        ("at", TIMESTAMP),
        ("actor", pa.string()),
        ("payload", pa.string()),  # JSON: until, owner, text, link
    ]
)

FINDINGS_STATE = pa.schema(
    [
        ("finding_id", pa.string()),
        ("state", pa.string()),  # suspected confirmed refuted acknowledged expected snoozed resolved reopened
        ("finding_class", pa.string()),  # code environment host method baseline noise
        ("direction", pa.int32()),  # +1 slower / more, -1 faster / less
        ("metric", pa.string()),
        ("operator", pa.string()),
        ("family", pa.string()),
        ("title", pa.string()),  # "Attention decode"
        ("shape", pa.string()),  # in words
        ("case_id", pa.string()),
        ("arm", pa.string()),
        ("subject_id", pa.string()),
        ("subject_ids", pa.list_(pa.string())),  # all of its group
        ("device_model", pa.string()),
        ("device_unit", pa.string()),
        ("host", pa.string()),
        ("change", pa.float64()),
        ("change_low", pa.float64()),
        ("change_high", pa.float64()),
        ("price", pa.float64()),  # share of production time; null where no weight is known
        ("since_run_id", pa.string()),
        ("since_at", TIMESTAMP),
        ("last_good_run_id", pa.string()),
        ("confirm_run_id", pa.string()),
        ("revision_good", pa.string()),
        ("revision_bad", pa.string()),
        ("differing", pa.string()),  # JSON: field -> [good, bad]
        ("cause", pa.string()),  # one sentence
        ("sentence", pa.string()),
        ("evidence", pa.string()),  # JSON
        ("owner", pa.string()),
        ("snoozed_until", TIMESTAMP),
        ("opened_at", TIMESTAMP),
        ("updated_at", TIMESTAMP),
        ("repro", pa.string()),
    ]
)

REQUESTS = pa.schema(
    [
        ("event_id", pa.string()),
        ("request_id", pa.string()),
        ("event", pa.string()),  # open, taken, done, expired
        ("at", TIMESTAMP),
        ("finding_id", pa.string()),
        ("case_id", pa.string()),
        ("arm", pa.string()),
        ("suite", pa.string()),
        ("host", pa.string()),
        ("device_unit", pa.string()),
        ("replicates", pa.int32()),
        ("priority", pa.float64()),
        ("run_id", pa.string()),  # the run that raised it, or of event done: the confirm run
        ("reason", pa.string()),
    ]
)

DELIVERIES = pa.schema(
    [
        ("event_id", pa.string()),
        ("delivery_id", pa.string()),
        ("event", pa.string()),  # queued, sent, failed, dead
        ("at", TIMESTAMP),
        ("finding_id", pa.string()),
        ("finding_event_id", pa.string()),  # the event that is told
        ("route", pa.string()),
        ("attempt", pa.int32()),
        ("not_before", TIMESTAMP),
        ("message", pa.string()),  # JSON: collector.host.notify.message.Message; no secret
        ("response", pa.string()),  # status and first words, secrets masked
    ]
)

DETECTOR_STATE = pa.schema(
    [
        ("subject_id", pa.string()),
        ("metric", pa.string()),
        ("as_of_seq", pa.int64()),
        ("n", pa.int64()),
        ("state", pa.binary()),
    ]
)

BASELINES = pa.schema(
    [
        ("event_id", pa.string()),
        ("event", pa.string()),  # moved, undone
        ("at", TIMESTAMP),
        ("actor", pa.string()),
        ("subject_id", pa.string()),
        ("metric", pa.string()),
        ("from_run_id", pa.string()),  # the baseline starts with this run
        ("reason", pa.string()),
    ]
)

AUDITS = pa.schema(
    [
        ("run_id", pa.string()),
        ("at", TIMESTAMP),
        ("subject_id", pa.string()),
        ("kind", pa.string()),  # aa | planted
        ("planted", pa.float64()),  # size of the slow-down: 0.05 is 5 %
        ("alarmed", pa.bool_()),  # of an A/A copy: would have been told; of a planted slow-down: noticed that night
        ("change", pa.float64()),
        ("suspected", pa.bool_()),  # this night would have asked for a confirm run
        ("event", pa.string()),  # of an A/A copy: suspected | confirmed | refuted, as a finding would be
        ("since_run_id", pa.string()),  # first run of the change that the event is of
        ("as_of_seq", pa.int64()),  # the highest ingest_seq that the judge had seen
    ]
)

SERIES = pa.schema(
    [
        ("subject_id", pa.string()),
        ("case_id", pa.string()),
        ("operator", pa.string()),
        ("family", pa.string()),
        ("dtype", pa.string()),
        ("phase", pa.string()),
        ("title", pa.string()),
        ("shape", pa.string()),
        ("weight", pa.float64()),
        ("arm", pa.string()),
        ("role", pa.string()),
        ("implementation", pa.string()),
        ("suite", pa.string()),
        ("host", pa.string()),
        ("device_kind", pa.string()),
        ("device_model", pa.string()),
        ("device_slice", pa.string()),
        ("device_unit", pa.string()),
        ("settings", pa.string()),
        ("n_runs", pa.int64()),
        ("first_at", TIMESTAMP),
        ("latest_at", TIMESTAMP),
        ("latest_run_id", pa.string()),
        ("status", pa.string()),  # RowStatus of the latest run
        ("status_kind", pa.string()),
        ("status_reason", pa.string()),
        ("latency_p50_s", pa.float64()),
        ("latency_p99_s", pa.float64()),
        ("ratio_optimized", pa.float64()),
        ("ratio_optimized_low", pa.float64()),
        ("ratio_optimized_high", pa.float64()),
        ("ratio_naive", pa.float64()),
        ("roofline_fraction", pa.float64()),
        ("peak_memory_bytes", pa.int64()),
        ("error_margin", pa.float64()),
        ("ratio_previous", pa.float64()),  # of the run before
        ("verdict", pa.string()),  # of latency_ratio against history, latest
        ("verdict_sentence", pa.string()),
        ("smallest_visible_change", pa.float64()),
        ("sparkline_ratio", DOUBLES),  # last 30 measured runs, oldest first; NaN never, a gap is a null
        ("sparkline_latency_s", DOUBLES),
        ("sparkline_at", pa.list_(TIMESTAMP)),
    ]
)

CLIFFS = pa.schema(
    [
        ("cliff_id", pa.string()),  # hash of device unit, arm, settings, axis and the two cases
        ("kind", pa.string()),  # detection.cliffs.CliffKind: jump | inverted
        ("axis", pa.string()),
        ("operator", pa.string()),
        ("family", pa.string()),
        ("dtype", pa.string()),
        ("arm", pa.string()),
        ("device_model", pa.string()),
        ("device_unit", pa.string()),
        ("small_case_id", pa.string()),
        ("large_case_id", pa.string()),
        ("small_subject_id", pa.string()),
        ("large_subject_id", pa.string()),
        ("small", pa.float64()),  # sizes of the axis on either side
        ("large", pa.float64()),
        ("small_s", pa.float64()),  # median times on either side
        ("large_s", pa.float64()),
        ("change", pa.float64()),  # of the time for a unit of work; of kind inverted: of the time as a whole
        ("change_low", pa.float64()),  # ends of the 99 % interval
        ("change_high", pa.float64()),
        ("n", pa.int64()),  # runs, or processes of one run, behind it
        ("since_run_id", pa.string()),  # the run at which it was first found
        ("since_at", TIMESTAMP),
        ("run_id", pa.string()),  # the newest run
        ("sentence", pa.string()),
    ]
)

RETRACTIONS = pa.schema(
    [
        ("event_id", pa.string()),
        ("event", pa.string()),  # retracted, released
        ("at", TIMESTAMP),
        ("actor", pa.string()),
        ("run_id", pa.string()),
        ("run_seq", pa.int64()),  # the run's ingest_seq: its rows are hidden by it
        ("reason", pa.string()),
    ]
)

CHECKSUMS = pa.schema(
    [
        ("table_name", pa.string()),
        ("path", pa.string()),  # below the store
        ("sha256", pa.string()),
        ("at", TIMESTAMP),
    ]
)

HOST_TABLES: dict[str, pa.Schema] = {
    "verdicts": VERDICTS,
    "findings": FINDINGS,
    "triage": TRIAGE,
    "findings_state": FINDINGS_STATE,
    "requests": REQUESTS,
    "deliveries": DELIVERIES,
    "detector_state": DETECTOR_STATE,
    "baselines": BASELINES,
    "audits": AUDITS,
    "series": SERIES,
    "cliffs": CLIFFS,
    "retractions": RETRACTIONS,
    "checksums": CHECKSUMS,
}


def with_ingest_columns(schema: pa.Schema) -> pa.Schema:
    """The schema of a bundle table as the lake keeps it."""
    return pa.schema([*schema, *INGEST_COLUMNS])


RUN_COLUMNS = [pa.field("bundle_sha256", pa.string())]
"""Of `runs` only: the identity of the bundle's content, by which a bundle that comes twice is told from another."""

LAKE_TABLES: dict[str, pa.Schema] = {name: with_ingest_columns(s) for name, s in BUNDLE_TABLES.items()} | HOST_TABLES
LAKE_TABLES["runs"] = pa.schema([*LAKE_TABLES["runs"], *RUN_COLUMNS])

PARTITIONED_BY: dict[str, list[str]] = {"results": ["month"], "samples": ["month"], "telemetry": ["month"]}
"""`month` is the UTC month in which the run started, "2026-11"; added at ingest, so that a run is in one partition."""

MADE_ANEW = ("series", "findings_state", "cliffs")
"""Tables that a migration makes where they are missing: folds, which the next judging or a rebuild fills. A table that
a later version adds belongs here too. Any other that is missing was lost."""

STATISTICS_OF: dict[str, list[str]] = {
    "runs": ["run_id", "started_at", "ingest_seq"],
    "results": ["subject_id", "measured_at", "ingest_seq"],
    "samples": ["subject_id", "ingest_seq"],
    "telemetry": ["run_id", "ingest_seq"],
    "verdicts": ["run_id", "as_of_seq", "subject_id"],
    "series": ["subject_id"],
}
"""Columns whose smallest and largest value the Delta log keeps for each file; without an entry Delta's own choice."""

NEVER_TWICE: dict[str, tuple[str, ...]] = {
    "results": (
        "latency_p50_s", "latency_p90_s", "latency_p95_s", "latency_p99_s", "ratio_optimized", "ratio_optimized_low",
        "ratio_optimized_high", "ratio_naive", "ratio_naive_low", "ratio_naive_high", "flop_per_s",
        "bandwidth_bytes_per_s", "bandwidth_utilization", "roofline_fraction", "first_call_s", "energy_j",
    ),
    "samples": ("wall_s", "thread_s", "device_s", "monotonic_s"),
    "telemetry": ("monotonic_s",),
}  # fmt: skip
"""Columns of measured numbers, which repeat so rarely that a dictionary of them is only overhead."""


def stored_schema(table_name: str) -> pa.Schema:
    """The schema of the Delta table: the lake's columns and those it is partitioned by."""
    partitions = [pa.field(name, pa.string()) for name in PARTITIONED_BY.get(table_name, [])]
    return pa.schema([*LAKE_TABLES[table_name], *partitions])
