"""What an administrator does to a store, one function each. All but `stats` and `verify` hold the ingester's lease."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from store.bundle.place import MARKER, Place
from store.lake.checksums import ChecksumKeeper
from store.lake.delta import DeltaTables
from store.lake.errors import StoreError
from store.lake.ingest import IngestReport, QuarantineReason
from store.lake.lake import Lake
from store.lake.layout import is_marked, prepare_place
from store.lake.optimize import Optimizer, Rewrite
from store.lake.series import SeriesKeeper
from store.lake.tables import HOST_TABLES, LAKE_TABLES
from store.lake.verify import Problem, Verifier

VACUUM_KEEPS = timedelta(hours=24)
VACUUM_KEEPS_AT_LEAST = timedelta(hours=1)
"""A reader holds a list of files for the length of one query; a vacuum must not overtake it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """Size of one table as the log has it."""

    table: str
    version: int
    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What a store holds."""

    tables: tuple[TableStats, ...]
    runs: int
    retracted_runs: int
    latest_seq: int
    waiting: int
    """Objects in the inbox."""
    quarantined: tuple[QuarantineReason, ...]


def optimize(lake: Lake, *, now: datetime | None = None, wait_s: float = 60.0) -> tuple[Rewrite, ...]:
    """Sorts and compacts closed days and months; readers notice nothing."""
    with lake.exclusive(wait_s) as lease:
        rewrites = Optimizer(lake.tables, lease, now=now).run()
        if rewrites:
            keeper = ChecksumKeeper(lake.place, lake.tables)
            keeper.record_new()
            keeper.forget_gone()
        for name in LAKE_TABLES:
            lake.tables.checkpoint(name)
    return rewrites


def vacuum(
    lake: Lake, *, keep: timedelta = VACUUM_KEEPS, dry_run: bool = False, wait_s: float = 60.0
) -> tuple[str, ...]:
    """Deletes files that no version of the last `keep` needs, and orphans of killed commits; returns their paths.

    Raises:
        StoreError: `keep` is so short that running queries would lose their files.
    """
    if keep < VACUUM_KEEPS_AT_LEAST:
        raise StoreError(f"vacuum: keep is {keep}, must be at least {VACUUM_KEEPS_AT_LEAST} for the sake of readers")
    hours = keep / timedelta(hours=1)
    gone: list[str] = []
    with lake.exclusive(wait_s) as lease:
        for name in LAKE_TABLES:
            lease.renew()
            gone.extend(f"{name}/{path}" for path in lake.tables.vacuum(name, hours, dry_run=dry_run))
    return tuple(gone)


def expire_samples(lake: Lake, *, before: datetime, wait_s: float = 60.0) -> int:
    """Lets raw samples go whose month ended before `before`; results stay. Returns the number of rows."""
    month = before.astimezone(UTC).strftime("%Y-%m")
    with lake.exclusive(wait_s):
        return lake.tables.delete_where("samples", f"month < '{month}'")


def verify(lake: Lake, *, rebuild: bool = True) -> tuple[Problem, ...]:
    """Everything that is wrong with the store; with `rebuild` also whether `series` equals its fold from the start."""
    problems = list(Verifier(lake.place, lake.tables, lake.queries()).problems())
    if rebuild and not problems:
        with lake.exclusive() as lease:
            keeper = SeriesKeeper(lake.tables, lake.queries(), lease)
            keeper.refresh()
            stored = lake.sql("SELECT * FROM series ORDER BY subject_id")
            if not keeper.rebuilt().equals(stored.cast(HOST_TABLES["series"])):
                problems.append(
                    Problem(table="series", path="", what="differs from its fold over all results; rebuild it")
                )
    return tuple(problems)


def stats(lake: Lake) -> StoreStats:
    """Sizes and counts, from the logs alone."""
    tables = tuple(_table_stats(lake.tables, name) for name in LAKE_TABLES)
    hidden = len(lake.queries().retracted())
    runs = next(table.rows for table in tables if table.table == "runs")
    return StoreStats(
        tables=tables,
        runs=runs - hidden,
        retracted_runs=hidden,
        latest_seq=lake.latest_seq(),
        waiting=len(lake.inbox.names()),
        quarantined=quarantined(lake),
    )


def quarantined(lake: Lake) -> tuple[QuarantineReason, ...]:
    """What was refused, and why."""
    found = []
    for item in lake.place.list("quarantine"):
        if item.path.endswith(".reason.json") and (data := lake.place.read(item.path)) is not None:
            found.append(msgspec.json.decode(data, type=QuarantineReason))
    return tuple(found)


def requeue(lake: Lake, name: str, *, check_clock: bool = True) -> IngestReport:
    """Puts a refused bundle back into the inbox and ingests, without the check of its clock if so wished.

    Raises:
        StoreError: there is no such bundle in quarantine.
    """
    if lake.place.read(f"quarantine/{name}.reason.json") is None:
        raise StoreError(f"quarantine: {name!r} is not in it; `collector store stats` lists what is")
    lake.place.move(f"quarantine/{name}", f"inbox/{name}")
    lake.place.remove(f"quarantine/{name}.reason.json")
    return lake.ingest(check_clock=check_clock)


def retract(lake: Lake, run_ids: Sequence[str], *, reason: str, actor: str) -> None:
    """Hides runs from every reader, with the reason; nothing is deleted, `release` brings them back.

    Raises:
        StoreError: the reason is empty, or a run is not in the store or retracted already.
    """
    _act(lake, "retracted", run_ids, reason, actor)


def release(lake: Lake, run_ids: Sequence[str], *, reason: str, actor: str) -> None:
    """Shows retracted runs again.

    Raises:
        StoreError: the reason is empty, or a run is not retracted.
    """
    _act(lake, "released", run_ids, reason, actor)


def runs_of_host(lake: Lake, host: str) -> tuple[str, ...]:
    """The runs of a node that readers see: what `retract` needs to take a whole node back."""
    rows = lake.sql("SELECT run_id FROM runs WHERE host = ? ORDER BY ingest_seq", [host]).to_pylist()
    return tuple(row["run_id"] for row in rows)


def backup(lake: Lake, target: str | Path, *, wait_s: float = 60.0) -> Place:
    """Copies the store into a new place, which is a store when this returns.

    Raises:
        StoreError: the target is a store already.
    """
    with lake.exclusive(wait_s):
        copy = prepare_place(target)
        if is_marked(copy) or copy.list("tables"):
            raise StoreError(f"backup {copy.uri}: is a store already; give a new place")
        for name in LAKE_TABLES:
            active = lake.tables.active_files(name)
            prefix = f"{lake.uri}/"
            paths = [item.path for item in lake.place.list(f"tables/{name}/_delta_log")]
            kept = [path for path in paths if _log_version(path) <= active.version]
            for path in [*(path.removeprefix(prefix) for path in active.paths), *kept]:
                _copy(lake.place, copy, path)
        for folder in ("inbox", "quarantine"):
            for item in lake.place.list(folder):
                _copy(lake.place, copy, item.path)
        _copy(lake.place, copy, MARKER)  # last: not a store until all is there
    return copy


def _act(lake: Lake, event: str, run_ids: Sequence[str], reason: str, actor: str) -> None:
    if not reason.strip():
        raise StoreError(f"{event}: a reason is needed; say why")
    with lake.exclusive():
        hidden = lake.queries().retracted()
        rows = []
        for run_id in run_ids:
            seq = lake.tables.load("runs").transaction_version(run_id)
            if seq is None:
                raise StoreError(f"run {run_id!r}: is not in the store")
            if (seq in hidden) == (event == "retracted"):
                raise StoreError(f"run {run_id!r}: is {'already' if event == 'retracted' else 'not'} retracted")
            rows.append(
                {
                    "event_id": uuid.uuid4().hex,
                    "event": event,
                    "at": datetime.now(UTC),
                    "actor": actor,
                    "run_id": run_id,
                    "run_seq": seq,
                    "reason": reason,
                }
            )
        lake.append("retractions", rows)
    lake.refresh_series()


def _table_stats(tables: DeltaTables, name: str) -> TableStats:
    active = tables.active_files(name)
    rows = sum(count or 0 for count in active.stats["num_records"].to_pylist())
    size_bytes = sum(active.stats["size_bytes"].to_pylist())
    return TableStats(table=name, version=active.version, files=len(active.paths), rows=rows, size_bytes=size_bytes)


def _log_version(path: str) -> int:
    """The version a file of the log belongs to; what belongs to none (the pointer to the last checkpoint) is newest."""
    digits = path.rsplit("/", 1)[1][:20]
    return int(digits) if digits.isdigit() else 1 << 62


def _copy(source: Place, target: Place, path: str) -> None:
    data = source.read(path)
    if data is not None:
        target.replace(path, data)
