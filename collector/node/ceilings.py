"""Which roofs a run is held against: measured ones that are young enough, else measured anew.

Kept per device unit and thread count in the cache folder, with every try and the date.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench_suite.roofline import CeilingKind, Ceilings
from collector.node.crew import Crew
from collector.node.devices.base import DeviceIdentity
from collector.node.protocol import Calibrate, CeilingSamples

KEPT_FOR = timedelta(days=30)
QUICK_TRIES = 5
"""Tries of each probe when a run finds no ceilings; `collector calibrate` makes more."""
CALIBRATE_LIMIT_S = 120.0


def ceilings_for(
    crew: Crew, identity: DeviceIdentity, dtypes: list[str], threads: int, folder: Path
) -> Ceilings | None:
    """The kept ceilings where young, not stale and of these dtypes, else fresh ones; None where none can be had."""
    path = ceilings_path(folder, identity, threads)
    kept = load(path)
    if kept is not None and set(dtypes) <= set(kept.flop_per_s) and not _old(kept) and not kept.stale:
        return kept
    return measure(crew, dtypes, threads, QUICK_TRIES, path)


def measure(crew: Crew, dtypes: list[str], threads: int, tries: int, path: Path) -> Ceilings | None:
    """Ceilings as the best of all tries, written to `path`; None where the probes fail."""
    outcome = crew.do(Calibrate(dtypes=dtypes, tries=tries, threads=threads), limit_s=CALIBRATE_LIMIT_S)
    probes = {m.probe: m for m in outcome.messages if isinstance(m, CeilingSamples)}
    if outcome.death is not None or "triad" not in probes:
        return None
    found = Ceilings(
        flop_per_s={d: max(probes[f"gemm.{d}"].values) for d in dtypes if f"gemm.{d}" in probes},
        bandwidth_bytes_per_s=max(probes["triad"].values),
        kind=CeilingKind.MEASURED,
        source=f"collector calibrate, best of {tries} tries a size",
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        threads=threads,
        samples={name: tuple(m.values) for name, m in probes.items()},
    )
    _keep(path, found)
    return found


def mark_stale(path: Path, ceilings: Ceilings, words: str) -> Ceilings:
    """The ceilings with what was measured beyond them; the kept file says it too: the next run measures anew."""
    stale = replace(ceilings, stale=words)
    kept = load(path)
    if kept is not None and kept.measured_at == ceilings.measured_at:
        _keep(path, stale)
    return stale


def _keep(path: Path, ceilings: Ceilings) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".tmp")
    staged.write_text(ceilings.to_json())
    staged.replace(path)


def ceilings_path(folder: Path, identity: DeviceIdentity, threads: int) -> Path:
    """One file a device unit, slice and thread count."""
    key = "\0".join([identity.kind, identity.model, identity.unit, identity.slice or "", str(threads)])
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def load(path: Path) -> Ceilings | None:
    """The ceilings of a file; None where there is none or it cannot be read: they are measured again then."""
    try:
        return Ceilings.from_json(path.read_text())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _old(ceilings: Ceilings) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(ceilings.measured_at) > KEPT_FOR
    except (ValueError, TypeError):
        return True
