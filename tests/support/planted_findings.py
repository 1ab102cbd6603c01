"""Findings put into a lake as the judge puts them, for what tells them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from collector.host.notify.routes import AlertConfig, Route
from collector.host.notify.secrets import Reference, Secret
from store.lake.lake import Lake
from store.lake.tables import FINDINGS_STATE

NIGHT = datetime(2026, 11, 30, 3, 10, tzinfo=UTC)


def config_of(url: str, service: str = "json", name: str = "team", **keys: Any) -> AlertConfig:
    route = Route(name=name, service_name=service, url=Reference(source="env:WEBHOOK", secret=Secret(url)), **keys)
    return AlertConfig(routes=(route,), base_url="https://observatory.example.com", source="alerts.toml")


def finding(lake: Lake, *numbers: int, event: str = "confirmed", at: datetime = NIGHT, **changed: Any) -> None:
    """Adds an event of each numbered finding to the lake, as the judge does."""
    events, states = [], lake.sql("SELECT * FROM findings_state").to_pylist()
    for number in numbers:
        name = f"F-{number:04d}"
        events.append(
            {
                "event_id": f"{name}-{event}-{at:%Y%m%d}",
                "finding_id": name,
                "event": event,
                "at": at,
                "as_of_seq": number,
                "actor": "judge",
                "run_id": "run-2",
                "payload": "{}",
            }
        )
        states = [row for row in states if row["finding_id"] != name]
        states.append(
            dict.fromkeys(FINDINGS_STATE.names)
            | {
                "finding_id": name,
                "state": event,
                "finding_class": "code",
                "direction": 1,
                "metric": "latency_ratio",
                "operator": "gemm",
                "title": "GEMM",
                "shape": f"M {number}",
                "subject_id": f"s{number}",
                "subject_ids": [f"s{number}"],
                "device_model": "CPU",
                "host": "node-1",
                "change": 0.15,
                "change_low": 0.14,
                "change_high": 0.16,
                "sentence": f"GEMM M {number} is 15.0 ± 1.0 % slower.",
            }
            | changed
        )
    lake.append("findings", events)
    lake.overwrite("findings_state", states)
