"""A full disk, as the libraries tell it: one line, its own exit code, and nothing half-written counts."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

from collector.errors import exit_code
from store.bundle.errors import FullPlaceError, in_one_line, is_full
from store.bundle.inbox import Inbox
from store.bundle.schemas import BUNDLE_TABLES
from store.bundle.writer import BundleWriter
from store.lake.errors import StoreError, StoreFullError
from store.lake.lake import Lake
from store.lake.tables import HOST_TABLES

MakeBundle = Callable[..., Path]

OF_THE_LOG = (
    "Generic LocalFileSystem error\n          \x1b[31m↳\x1b[0m Unable to copy data to file\n"
    "           \x1b[31m↳\x1b[0m No space left on device (os error 28)\n"
)
"""What deltalake 1.6.6 said on a full tmpfs, and obstore in one line."""
OF_THE_INBOX = "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"
NO_BUCKET = (
    "Generic S3 error\n \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:1/x in 3 ms\n"
    " \x1b[31m↳\x1b[0m 404 Not Found\n"
    ' \x1b[31m↳\x1b[0m <?xml version="1.0"?>\n<Error><Code>{code}</Code></Error>\n'
)


def raises(error: Exception) -> object:
    """A function that raises, whatever it is given."""

    def full(*_: object, **__: object) -> None:
        raise error

    return full


@pytest.mark.parametrize("message", [OF_THE_LOG, OF_THE_INBOX, "Disk quota exceeded (os error 122)"])
def test_a_full_disk_is_known_by_its_words_and_by_its_number(message: str) -> None:
    """Whichever library tells it, and however many lines it takes."""
    assert is_full(OSError(message))
    assert is_full(OSError(errno.ENOSPC, "whatever"))
    assert not is_full(OSError(errno.EACCES, "Permission denied"))
    assert in_one_line(OSError(message)).startswith("no space is left on its device; free some")


def test_an_error_of_s3_is_one_line() -> None:
    """Known codes in our words, others without colours and XML."""
    assert in_one_line(OSError(NO_BUCKET.format(code="NoSuchBucket"))).startswith("there is no such bucket")
    assert in_one_line(OSError(NO_BUCKET.format(code="SlowDown"))) == (
        "Generic S3 error: Error performing GET http://127.0.0.1:1/x in 3 ms: 404 Not Found"
    )
    assert in_one_line(ValueError()) == "ValueError"


def test_a_commit_on_a_full_disk_is_one_line_and_can_be_done_again(
    store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3; the rows are not there, and are once there is space."""
    lake, row = Lake.create(store_folder), dict.fromkeys(HOST_TABLES["triage"].names)
    with monkeypatch.context() as patch:
        patch.setattr("store.lake.delta.write_deltalake", raises(OSError(OF_THE_LOG)))
        with pytest.raises(StoreFullError, match="table triage: not written: no space is left") as raised:
            lake.append("triage", [row])
    assert exit_code(raised.value) == 3
    assert lake.sql("SELECT count(*) AS n FROM triage").to_pylist() == [{"n": 0}]
    assert lake.append("triage", [row])


def test_an_inbox_on_a_full_disk_is_one_line(
    store_folder: Path, make_bundle: MakeBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be put is said with exit code 3; putting it again is all there is to do."""
    lake, bundle = Lake.create(store_folder), make_bundle("run-1")
    with monkeypatch.context() as patch:
        patch.setattr(obstore, "put", raises(obstore.exceptions.GenericError(OF_THE_INBOX)))
        with pytest.raises(FullPlaceError, match="no space is left") as raised:
            Inbox.of_store(store_folder).put(bundle)
    assert exit_code(raised.value) == 3
    Inbox.of_store(store_folder).put(bundle)
    assert lake.ingest().ingested == ("run-1",)


def test_a_store_cannot_be_made_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no store afterwards, and one when the same is done with space."""
    with monkeypatch.context() as patch:
        patch.setattr("store.lake.delta.DeltaTable.create", raises(OSError(OF_THE_LOG)))
        with pytest.raises(StoreFullError, match="no space is left") as raised:
            Lake.create(tmp_path / "store")
    assert exit_code(raised.value) == 3
    with pytest.raises(StoreError, match="is no store"):
        Lake.open(tmp_path / "store")
    assert Lake.create(tmp_path / "store").is_new


def test_a_bundle_on_a_full_disk_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer says so, exit code 3, and no folder of the run's name is there."""
    writer = BundleWriter(tmp_path, "run-1")
    writer.add("runs", [dict.fromkeys(BUNDLE_TABLES["runs"].names) | {"run_id": "run-1"}])
    monkeypatch.setattr("pyarrow.parquet.write_table", raises(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(FullPlaceError, match="not published: no space is left") as raised:
        writer.publish({})
    writer.abandon()
    assert exit_code(raised.value) == 3
    assert list(tmp_path.iterdir()) == []


def test_any_other_full_disk_is_no_bug_of_ours() -> None:
    """The system's own error, from wherever, is one line with exit code 3; another is not."""
    assert exit_code(OSError(errno.ENOSPC, "No space left on device", "/tmp/x")) == 3
    assert exit_code(OSError(errno.EACCES, "Permission denied", "/tmp/x")) is None
