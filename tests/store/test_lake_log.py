"""The log of a table stays short, and whoever has the table open does not notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.lake.lake import Lake
from store.lake.maintenance import backup, verify
from store.lake.tables import HOST_TABLES

KEPT, EVERY = 20, 20
COMMITS = 100


@pytest.fixture(scope="module")
def long_lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Lake, Path]:
    """A writer after many commits, a reader that has had the store open since the first, and the log's folder."""
    patch = pytest.MonkeyPatch()
    patch.setattr("store.lake.log.KEPT_VERSIONS", KEPT)
    patch.setattr("store.lake.delta.TRIM_EVERY", EVERY)
    folder = tmp_path_factory.mktemp("long") / "store"
    writer = Lake.create(folder)
    row = dict.fromkeys(HOST_TABLES["triage"].names)
    writer.append("triage", [row], key="0")
    reader = Lake.open(folder)
    assert reader.sql("SELECT count(*) AS n FROM triage").to_pylist() == [{"n": 1}]
    for number in range(1, COMMITS):
        writer.append("triage", [row], key=str(number))
    patch.undo()
    return writer, reader, folder / "tables/triage/_delta_log"


def test_the_log_does_not_grow_with_commits(long_lived: tuple[Lake, Lake, Path]) -> None:
    """What a checkpoint summed up long ago is gone, the last versions are there."""
    versions = {int(path.name[:20]) for path in long_lived[2].glob("*.json")}
    assert COMMITS - KEPT in versions
    assert min(versions) > EVERY
    assert len(versions) <= KEPT + 2 * EVERY


def test_an_old_reader_reads_on(long_lived: tuple[Lake, Lake, Path]) -> None:
    """A handle whose version is no longer in the log sees every row."""
    assert long_lived[1].sql("SELECT count(*) AS n FROM triage").to_pylist() == [{"n": COMMITS}]


def test_a_transaction_is_remembered_for_good(long_lived: tuple[Lake, Lake, Path]) -> None:
    """A key of the first versions still happens once."""
    row = dict.fromkeys(HOST_TABLES["triage"].names)
    assert not Lake.open(long_lived[0].uri).append("triage", [row], key="0")
    assert not long_lived[1].append("triage", [row], key="1")


def test_a_backup_of_a_trimmed_log_is_whole(long_lived: tuple[Lake, Lake, Path], tmp_path: Path) -> None:
    """What is left of the log is enough: the copy passes verify and has every row."""
    copy = Lake.open(backup(long_lived[0], tmp_path / "copy").uri)
    assert verify(copy) == ()
    assert copy.sql("SELECT count(*) AS n FROM triage").to_pylist() == [{"n": COMMITS}]
