"""Keeps the `series` table: folds in what is new, refolds what was retracted, rebuilds it all."""

from __future__ import annotations

from collections.abc import Set

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from store.lake.delta import Commit, DeltaTables
from store.lake.ingest import SEQUENCE
from store.lake.lease import Lease
from store.lake.query import QueryEngine
from store.lake.summary import (
    BEFORE,
    CATALOGS,
    FOLD,
    JUDGED,
    NEW_RUNS,
    NEW_SUBJECTS,
    NEW_VERDICTS,
    RUNS,
    WANTED,
    catalog_words,
)
from store.lake.tables import SERIES

FOLDED_RUNS = "series\nruns"
FOLDED_VERDICTS = "series\nverdicts"
FOLDED_RETRACTIONS = "series\nretractions"
STEP = 2_000
"""Runs that are folded at a time, so that a history of years fits into memory."""


class SeriesKeeper:
    """The only writer of `series`; its caller holds the lease of the ingester."""

    def __init__(self, tables: DeltaTables, engine: QueryEngine, lease: Lease) -> None:
        self._tables = tables
        self._engine = engine
        self._lease = lease

    def refresh(self) -> bool:
        """Adds runs, verdicts and retractions that are new. A kill leaves an older table and where to go on from.

        Returns whether anything changed.
        """
        handle = self._tables.load("series")
        runs, verdicts, retractions = (
            int(handle.transaction_version(name) or 0) for name in (FOLDED_RUNS, FOLDED_VERDICTS, FOLDED_RETRACTIONS)
        )
        latest, acts = self._latest(), self._acts()
        judged = self._engine.table(NEW_VERDICTS, {"after": verdicts})
        if runs == latest and retractions == acts and judged.num_rows == 0:
            return False
        before = self._engine.table("SELECT * FROM series ORDER BY subject_id").cast(SERIES)
        refolded = self._retracted_subjects() if retractions != acts else frozenset[str]()
        moved = (self._subjects_between(runs, latest) | set(judged["subject_id"].to_pylist())) - refolded
        gone = pc.is_in(before["subject_id"], value_set=pa.array(moved | refolded, pa.string()))
        parts = [
            before.filter(pc.invert(gone)),
            self._folded(_only(before, moved), moved, runs, latest, judged),
            self._folded(SERIES.empty_table(), refolded, 0, latest, self._engine.table(NEW_VERDICTS, {"after": 0})),
        ]
        data = pa.concat_tables(parts).sort_by("subject_id")
        if runs == latest and data.equals(before):
            return False
        self._replace(data, latest, acts)
        return True

    def rebuilt(self) -> pa.Table:
        """What the table should be: everything folded from the start. Writes nothing."""
        latest = self._latest()
        judged = self._engine.table(NEW_VERDICTS, {"after": 0})
        return self._folded(SERIES.empty_table(), self._subjects_between(0, latest), 0, latest, judged)

    def rebuild(self) -> None:
        """Puts the rebuilt table in the place of the one that is there."""
        latest, acts = self._latest(), self._acts()
        self._replace(self.rebuilt(), latest, acts)

    def _folded(self, before: pa.Table, subjects: Set[str], after: int, until: int, judged: pa.Table) -> pa.Table:
        """The series of these subjects: those before, with the runs of a window added in steps."""
        if not subjects:
            return before
        wanted = pa.table({"subject_id": pa.array(sorted(subjects), pa.string())})
        start, nobody = after, judged.slice(0, 0)
        while True:
            self._lease.renew()
            end = min(start + STEP, until)
            window = {"after": start, "until": end}
            runs = self._engine.table(NEW_RUNS, window)
            catalogs = catalog_words(runs["catalog"].to_pylist())
            verdicts = _only(judged, subjects) if end == until else nobody
            given = {BEFORE: before, RUNS: runs, CATALOGS: catalogs, JUDGED: verdicts, WANTED: wanted}
            before = self._engine.table(FOLD, window, given=given).cast(SERIES)
            start = end
            if start == until:
                return before

    def _retracted_subjects(self) -> frozenset[str]:
        """Every subject of a run that was ever retracted or released; read past the views, which hide them."""
        acts = self._engine.table("SELECT DISTINCT run_seq FROM retractions")
        wanted = ds.field("ingest_seq").isin(acts["run_seq"].to_pylist())
        found = self._tables.dataset("results").to_table(columns=["subject_id"], filter=wanted)
        return frozenset(found["subject_id"].to_pylist())

    def _subjects_between(self, after: int, until: int) -> set[str]:
        rows = self._engine.table(NEW_SUBJECTS, {"after": after, "until": until})
        return set(rows["subject_id"].to_pylist())

    def _latest(self) -> int:
        return int(self._tables.load("runs").transaction_version(SEQUENCE) or 0)

    def _acts(self) -> int:
        return int(self._engine.table("SELECT count(*) AS n FROM retractions").to_pylist()[0]["n"])

    def _replace(self, data: pa.Table, latest: int, acts: int) -> None:
        transactions = {FOLDED_RUNS: latest, FOLDED_VERDICTS: latest, FOLDED_RETRACTIONS: acts}

        def plan(handle: DeltaTable) -> Commit:
            del handle  # whoever wrote in between wrote an older fold
            return Commit(rows=data, transactions=transactions, overwrite=True)

        self._tables.commit("series", plan)


def _only(table: pa.Table, subjects: Set[str]) -> pa.Table:
    return table.filter(pc.is_in(table["subject_id"], value_set=pa.array(sorted(subjects), pa.string())))
