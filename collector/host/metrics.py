"""Figures of a store for Prometheus: runs, failures, open findings, freshness, inbox, quarantine and outbox.

Everything is read from the logs and the small tables when it is asked for; nothing is counted in this process, so that
a restart resets no counter. Ages are seconds up to the moment of asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.host.notify.outbox import Outbox
from store.lake.lake import Lake
from store.lake.maintenance import quarantined

PREFIX = "kernel_observatory"
_ROWS = "SELECT status, count(*) AS n FROM series GROUP BY status ORDER BY status"
_FINDINGS = """
    SELECT state, finding_class, count(*) AS n FROM findings_state
    WHERE state NOT IN ('refuted', 'resolved') GROUP BY ALL ORDER BY ALL
"""
_FRESH = """
    SELECT coalesce(host, '') AS host, coalesce(device_unit, '') AS device_unit, max(started_at) AS latest
    FROM runs GROUP BY ALL ORDER BY ALL
"""
_RUNS = "SELECT count(*) AS n, count(*) FILTER (WHERE status <> 'complete') AS partial FROM runs"


class StoreMetrics(Collector):
    """The figures of a store at the moment of asking."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All of them."""
        now = datetime.now(UTC)
        runs = self._lake.sql(_RUNS).to_pylist()[0]
        yield _one("runs", "Runs that readers see.", runs["n"])
        yield _one("runs_partial", "Runs that ended before their plan did.", runs["partial"])
        yield _one("ingest_sequence", "The highest ingest sequence that readers see.", self._lake.latest_seq())
        rows = [((row["status"] or "",), row["n"]) for row in self._lake.sql(_ROWS).to_pylist()]
        yield _many("series", "Series by the status of their latest row.", ["status"], rows)
        findings = [((r["state"], r["finding_class"] or ""), r["n"]) for r in self._lake.sql(_FINDINGS).to_pylist()]
        yield _many("findings_open", "Open findings.", ["state", "finding_class"], findings)
        fresh = [
            ((r["host"], r["device_unit"]), (now - r["latest"]).total_seconds())
            for r in self._lake.sql(_FRESH).to_pylist()
            if r["latest"] is not None
        ]
        yield _many("device_age_seconds", "Since the start of the latest run.", ["host", "device_unit"], fresh)
        yield from self._places(now)

    def _places(self, now: datetime) -> Iterator[GaugeMetricFamily]:
        waiting = self._lake.place.list("inbox")
        oldest = max(((now - item.modified_at).total_seconds() for item in waiting), default=0.0)
        yield _one("inbox_bundles", "Bundles that wait to be ingested.", len(waiting))
        yield _one("inbox_bytes", "Size of the bundles that wait.", sum(item.size_bytes for item in waiting))
        yield _one("inbox_oldest_age_seconds", "Since the oldest waiting bundle came; 0 for none.", oldest)
        yield _one("quarantined_bundles", "Bundles that were refused.", len(quarantined(self._lake)))
        outbox = Outbox(self._lake)
        due = outbox.waiting()
        eldest = max(((now - delivery.queued_at).total_seconds() for delivery in due), default=0.0)
        yield _one("outbox_waiting", "Messages that still have to go out.", len(due))
        yield _one("outbox_oldest_age_seconds", "Since the oldest of them was queued; 0 for none.", eldest)
        yield _one("outbox_dead", "Messages that were given up on.", len(outbox.dead()))


def metrics_text(lake: Lake) -> str:
    """The figures in Prometheus' text format."""
    return generate_latest(_registry(lake)).decode()


def write_textfile(lake: Lake, path: Path) -> None:
    """For node_exporter's textfile collector: written aside, then renamed."""
    write_to_textfile(str(path), _registry(lake))


def serve(lake: Lake, host: str, port: int) -> Any:
    """Answers `GET /metrics` from a thread; returns the server and its thread."""
    from prometheus_client import start_http_server

    return start_http_server(port, addr=host, registry=_registry(lake))


def _registry(lake: Lake) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(StoreMetrics(lake))
    return registry


def _one(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", words, value=value)


def _many(name: str, words: str, labels: list[str], rows: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", words, labels=labels)
    for values, value in rows:
        family.add_metric(list(values), value)
    return family
