"""The same store on object storage: a real S3 protocol server, real HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from s3_server import serving_s3

from store.bundle.errors import NoStoreError, PlaceError
from store.bundle.inbox import Inbox
from store.bundle.place import Place
from store.lake.errors import StoreBusyError, StoreError
from store.lake.lake import Lake
from store.lake.lease import held
from store.lake.maintenance import backup, optimize, release, retract, verify

MakeBundle = Callable[..., Path]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with an empty bucket `lab`; the standard variables point to it."""
    with serving_s3(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture
def root(endpoint: str, request: pytest.FixtureRequest) -> str:
    """A prefix of its own for each test."""
    return f"s3://lab/{request.node.name}"


def test_inbox_and_lake_on_s3(root: str, make_bundle: MakeBundle) -> None:
    """A bundle that is put twice over HTTP is one run, read back by SQL and by pandas."""
    lake = Lake.create(root)
    bundle = make_bundle("run <1>")
    node = Inbox(root)
    assert node.put(bundle) == node.put(bundle)
    assert lake.ingest().ingested == ("run <1>",)
    node.put(bundle)
    assert lake.ingest().already_known == ("run <1>",)
    again = Lake.open(root)
    assert again.sql("SELECT count(*) AS n, max(ratio_optimized) AS r FROM results").to_pylist() == [{"n": 2, "r": 1.5}]
    assert again.frame("SELECT * FROM series WHERE arm = ?", ["naive"])["n_runs"].tolist() == [1]


def test_a_cut_object_is_set_aside(root: str, make_bundle: MakeBundle) -> None:
    """A cut upload is named in quarantine and the next bundle goes in."""
    lake = Lake.create(root)
    good = Inbox(root).put(make_bundle("good"))
    data = lake.place.read(f"inbox/{good}")
    assert data is not None
    lake.place.create("inbox/bad-0123456789abcdef.bundle", data[: len(data) // 2])
    report = lake.ingest()
    assert report.ingested == ("good",)
    assert [name for name, _ in report.quarantined] == ["bad-0123456789abcdef.bundle"]
    assert lake.place.read("quarantine/bad-0123456789abcdef.bundle.reason.json") is not None


def test_an_expired_lease_is_taken_over_and_a_live_one_is_not(root: str) -> None:
    """A second ingester is told who holds the lease; when it has expired it takes over and the first notices."""
    place = Place(root)
    second = held(place, "ingest", wait_s=0.0)
    busy = pytest.raises(StoreBusyError, match=f"pid {os.getpid()}")
    with held(place, "ingest", wait_s=0.0, lease_s=60.0), busy, second:
        pass
    taken_over = pytest.raises(StoreBusyError, match="taken over")
    with held(place, "ingest", wait_s=0.0, lease_s=0.0) as first, held(place, "ingest", wait_s=0.0), taken_over:
        first.renew()


def test_two_processes_ingest_one_inbox_on_s3(root: str, make_bundle: MakeBundle) -> None:
    """Two spawned ingesters contend over HTTP; every run is in once, none is lost."""
    lake = Lake.create(root)
    pushed = sorted(f"run-{number}" for number in range(6))
    for run_id in pushed:
        lake.inbox.put(make_bundle(run_id))
    repository = Path(__file__).parents[2]
    script = "import sys; from store.lake.lake import Lake; Lake.open(sys.argv[1]).ingest()"
    environment = os.environ | {"PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", script, root]
    hosts = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [host.wait(120) for host in hosts] == [0, 0]
    counts = lake.sql("SELECT run_id, count(*) AS n FROM results GROUP BY run_id ORDER BY run_id").to_pylist()
    assert counts == [{"run_id": run_id, "n": 2} for run_id in pushed]
    assert lake.sql("SELECT count(*) AS n, max(ingest_seq) AS seq FROM runs").to_pylist() == [{"n": 6, "seq": 6}]


def test_a_missing_bucket_and_a_missing_store_are_told_apart(root: str, make_bundle: MakeBundle) -> None:
    """Each is one line, whoever asks; and no run is handed over where there is no store."""
    there_is_none = "there is no such bucket; make it, or mend the address$"
    for act in (Lake.open, Lake.create):
        with pytest.raises(StoreError, match=there_is_none):
            act("s3://absent/store")
    with pytest.raises(PlaceError, match=there_is_none):
        Inbox.of_store("s3://absent/store")
    with pytest.raises(StoreError, match=r"is no store, it has no store\.json"):
        Lake.open(root)
    with pytest.raises(NoStoreError, match=r"is no store, it has no store\.json"):
        Inbox.of_store(root)
    lake = Lake.create(root)
    with pytest.raises(StoreError, match=there_is_none):
        backup(lake, "s3://absent/backup")
    Inbox.of_store(root).put(make_bundle("run-1"))
    assert lake.ingest().ingested == ("run-1",)


def test_upkeep_on_s3(root: str, make_bundle: MakeBundle, tmp_path: Path) -> None:
    """Optimize, verify, retract and a backup to a folder work over HTTP as on a folder."""
    lake = Lake.create(root)
    for night in range(3):
        lake.inbox.put(make_bundle(f"run-{night}", nights=night))
        lake.ingest()
    before = lake.sql("SELECT * FROM results ORDER BY run_id, subject_id").to_pylist()
    assert optimize(lake, now=datetime(2026, 3, 20, tzinfo=UTC))
    retract(lake, ["run-1"], reason="fan", actor="ada")
    assert lake.sql("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 2}]
    release(lake, ["run-1"], reason="no", actor="ada")
    assert lake.sql("SELECT * FROM results ORDER BY run_id, subject_id").to_pylist() == before
    assert verify(lake) == ()
    copy = Lake.open(backup(lake, tmp_path / "backup").uri)
    assert copy.sql("SELECT * FROM results ORDER BY run_id, subject_id").to_pylist() == before
    assert verify(copy) == ()
