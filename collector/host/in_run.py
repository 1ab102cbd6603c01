"""Verdicts of one run by itself: each arm against the naive and the optimized one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from collector.host.history import RunFacts, Subject
from collector.host.run_verdicts import SubjectVerdict
from detection.pairs import judge_pair
from detection.policy import Policy
from detection.verdict import Metric, Tier
from store.lake.lake import Lake

Rows = Sequence[Mapping[str, Any]]

_PAIRS = """
    SELECT run_id, subject_id, case_id, role, ratio_optimized, log_ratio_optimized_processes, log_ratio_naive_processes
    FROM results
    WHERE run_id IN (SELECT unnest($runs)) AND status = 'measured' AND ratio_optimized IS NOT NULL
          AND role IS DISTINCT FROM 'sentinel'
    ORDER BY subject_id
"""


def load_pairs(lake: Lake, run_ids: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    """The paired measurements of some runs, by run."""
    by_run: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in lake.sql(_PAIRS, {"runs": list(run_ids)}).to_pylist():
        by_run[row["run_id"]].append(row)
    return by_run


def judge_pairs(rows: Rows, run: RunFacts, subjects: Mapping[str, Subject], policy: Policy) -> list[SubjectVerdict]:
    """Candidates (and planted arms) against naive and optimized, naive against optimized.

    The A/A copy's error of the same case in this run widens the floor: a bias of placement is not a speed.
    """
    noise = {r["case_id"]: abs((r["ratio_optimized"] or 1.0) - 1.0) for r in rows if r["role"] == "aa"}
    said = []
    for row in rows:
        for against, column in (
            ("optimized", "log_ratio_optimized_processes"),
            ("naive", "log_ratio_naive_processes"),
        ):
            if row["role"] in (against, "optimized", "aa") or not row[column]:
                continue
            verdict = judge_pair(
                row[column],
                against,
                policy=policy,
                device_kind=run.device_kind,
                noise=noise.get(row["case_id"], 0.0),
            )
            subject = subjects[row["subject_id"]]
            said.append(
                SubjectVerdict(
                    subject=subject, metric=Metric.LATENCY_RATIO, verdict=verdict, tier=Tier.IN_RUN, against=against
                )
            )
    return said
