"""A bundle that is not what it says is named with the reason and set aside; the others go in."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.bundle.errors import BundleError, FutureBundleError
from store.bundle.inbox import Inbox
from store.bundle.manifest import file_sha256
from store.bundle.reader import read_bundle
from store.bundle.schemas import ADDED, BUNDLE_TABLES, SCHEMA_VERSION, added_since
from store.bundle.writer import BundleWriter
from store.lake.lake import Lake
from store.lake.maintenance import quarantined

MakeBundle = Callable[..., Path]
Damage = Callable[[Path], None]


def cut(bundle: Path) -> None:
    """Takes the footer away."""
    path = bundle / "results.parquet"
    path.write_bytes(path.read_bytes()[:-40])


def empty(bundle: Path) -> None:
    """Zero bytes."""
    (bundle / "samples.parquet").write_bytes(b"")


def flip_a_bit(bundle: Path) -> None:
    """One bit in the body."""
    path = bundle / "results.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def lose_a_file(bundle: Path) -> None:
    """A table is gone."""
    (bundle / "telemetry.parquet").unlink()


def rewrite(bundle: Path, name: str, table: pa.Table) -> None:
    """Another table under a manifest that agrees with it."""
    path = bundle / f"{name}.parquet"
    pq.write_table(table, path)
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["files"][path.name] = {"sha256": file_sha256(path), "rows": table.num_rows}
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def change_a_type(bundle: Path) -> None:
    """A number column as text."""
    table = pq.read_table(bundle / "results.parquet")
    place = table.column_names.index("ratio_optimized")
    rewrite(bundle, "results", table.set_column(place, "ratio_optimized", table["ratio_optimized"].cast(pa.string())))


def drop_a_column(bundle: Path) -> None:
    """A column is missing."""
    rewrite(bundle, "results", pq.read_table(bundle / "results.parquet").drop_columns(["error_margin"]))


def add_a_column(bundle: Path) -> None:
    """A column that no one knows."""
    table = pq.read_table(bundle / "results.parquet")
    rewrite(bundle, "results", table.append_column("mystery", pa.nulls(table.num_rows, pa.string())))


def two_runs(bundle: Path) -> None:
    """Rows of another run."""
    table = pq.read_table(bundle / "results.parquet")
    other = pa.array(["someone else's"] * table.num_rows)
    rewrite(bundle, "results", table.set_column(0, "run_id", other))


def unknown_status(bundle: Path) -> None:
    """A status that is none."""
    table = pq.read_table(bundle / "results.parquet")
    place = table.column_names.index("status")
    rewrite(bundle, "results", table.set_column(place, "status", pa.array(["fine"] * table.num_rows)))


def lie_about_rows(bundle: Path) -> None:
    """The manifest counts other rows."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["files"]["results.parquet"]["rows"] += 1
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def future(bundle: Path) -> None:
    """Written by a version to come, with keys to come."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(
        json.dumps({"schema_version": 99, "new_key": [], "run_id": manifest["run_id"]})
    )


def no_json(bundle: Path) -> None:
    """The manifest is not JSON."""
    (bundle / "manifest.json").write_text('{"schema_version": 1,')


DAMAGES: list[tuple[Damage, str]] = [
    (cut, "results.parquet: sha256"),
    (empty, "samples.parquet: sha256"),
    (flip_a_bit, "results.parquet: sha256"),
    (lose_a_file, "telemetry.parquet: cannot be read"),
    (change_a_type, "results.ratio_optimized: type string where double"),
    (drop_a_column, "column 'error_margin' is missing"),
    (add_a_column, "unknown column 'mystery'"),
    (two_runs, "rows of another run"),
    (unknown_status, "results.status 'fine'"),
    (lie_about_rows, "2 rows where the manifest says 3"),
    (future, f"schema version 99 is newer than {SCHEMA_VERSION}"),
    (no_json, "is not JSON"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_damage_is_named_in_one_line(make_bundle: MakeBundle, damage: Damage, words: str) -> None:
    """Reading says which file is wrong and how; a sound bundle beside it reads."""
    bundle = make_bundle("run-1")
    damage(bundle)
    with pytest.raises(BundleError, match=words) as caught:
        read_bundle(bundle)
    assert "\n" not in str(caught.value)
    assert read_bundle(make_bundle("run-2")).run_id == "run-2"


def test_a_future_bundle_is_told_apart(make_bundle: MakeBundle) -> None:
    """A newer version is its own kind of error, so that a host can say: upgrade me."""
    bundle = make_bundle("run-1")
    future(bundle)
    with pytest.raises(FutureBundleError):
        read_bundle(bundle)


def test_bad_bundles_are_set_aside_and_good_ones_go_in(store_folder: Path, make_bundle: MakeBundle) -> None:
    """Every kind of damage ends in quarantine with its reason; all good bundles around them are ingested."""
    lake = Lake.create(store_folder)
    packable = [(damage, words) for damage, words in DAMAGES if damage not in (lose_a_file, future, no_json)]
    for number, (damage, _) in enumerate(packable):
        bundle = make_bundle(f"bad-{number}")
        damage(bundle)
        lake.inbox.put(bundle)
        lake.inbox.put(make_bundle(f"good-{number}"))
    report = lake.ingest()
    assert sorted(report.ingested) == sorted(f"good-{number}" for number in range(len(packable)))
    reasons = {entry.name.split("-")[1]: entry.reason for entry in quarantined(lake)}
    for number, (_, words) in enumerate(packable):
        assert words in reasons[str(number)]
    assert lake.inbox.names() == []


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0.0, 1.0, exclude_max=True), bit=st.integers(0, 7), cut_at=st.none() | st.floats(0.0, 0.999))
def test_one_bit_anywhere_is_found(sealed: tuple[Inbox, str], place: float, bit: int, cut_at: float | None) -> None:
    """An object of the inbox with one bit changed, or cut anywhere, is refused in one line."""
    inbox, name = sealed
    whole = inbox.place.read(f"inbox/{name}")
    assert whole is not None
    hurt = bytearray(whole)
    hurt[int(place * len(hurt))] ^= 1 << bit
    if cut_at is not None:
        hurt = bytearray(whole[: int(cut_at * len(whole))])
    with tempfile.TemporaryDirectory() as folder:
        other = Inbox(folder)
        other.place.create(f"inbox/{name}", bytes(hurt))
        with pytest.raises(BundleError, match=r"cut or changed on the way|has zero bytes") as caught:
            other.fetch(name, Path(folder) / "fetched")
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory, module_bundle: MakeBundle) -> tuple[Inbox, str]:
    """An inbox with a sound bundle, and its name there."""
    inbox = Inbox(tmp_path_factory.mktemp("sealed"))
    return inbox, inbox.put(module_bundle("run-1"))


def test_a_bundle_of_a_newer_node_waits_for_an_upgrade(store_folder: Path, make_bundle: MakeBundle) -> None:
    """Its version is named with the way out; the others of the inbox go in."""
    lake, bundle = Lake.create(store_folder), make_bundle("run-newer")
    manifest = json.loads((bundle / "manifest.json").read_text()) | {"schema_version": SCHEMA_VERSION + 1}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    archive = store_folder / "newer.tar"
    with tarfile.open(archive, "w") as tar:
        for path in sorted(bundle.iterdir()):
            tar.add(path, path.name)
    name = f"run-newer-{file_sha256(archive)[:16]}.bundle"
    lake.place.create(f"inbox/{name}", archive)
    lake.inbox.put(make_bundle("run-1"))
    report = lake.ingest()
    assert report.ingested == ("run-1",)
    ((refused, reason),) = report.quarantined
    assert refused == name
    assert (
        f"schema version {SCHEMA_VERSION + 1} is newer than {SCHEMA_VERSION}, the newest known: upgrade this host"
        in reason
    )


def test_foreign_objects_in_the_inbox_are_set_aside(store_folder: Path, make_bundle: MakeBundle) -> None:
    """A stray file, a cut object, zero bytes, a tar with a path that climbs out: all named, none followed."""
    lake = Lake.create(store_folder)
    name = lake.inbox.put(make_bundle("good"))
    data = lake.place.read(f"inbox/{name}")
    assert data is not None
    climbing = io.BytesIO()
    with tarfile.open(fileobj=climbing, mode="w") as tar:
        entry = tarfile.TarInfo("../../escaped.txt")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    import hashlib

    digest = hashlib.sha256(climbing.getvalue()).hexdigest()[:16]
    objects = {
        "notes.txt": b"hello",
        "folder/below.bundle": b"hello",
        "cut-0123456789abcdef.bundle": data[:100],
        "zero-0123456789abcdef.bundle": b"",
        f"climbs-{digest}.bundle": climbing.getvalue(),
    }
    for stray, content in objects.items():
        lake.place.create(f"inbox/{stray}", content)
    odd = "a name\nof two lines"
    (store_folder / "inbox" / odd).write_text("hello")
    report = lake.ingest()
    assert report.ingested == ("good",)
    assert {stray for stray, _ in report.quarantined} == {*objects, odd}
    assert lake.inbox.names() == []
    assert {entry.name for entry in quarantined(lake)} == {*objects, odd}
    assert not list(store_folder.parent.rglob("escaped.txt"))


def test_the_same_id_with_other_content_is_refused(store_folder: Path, make_bundle: MakeBundle, tmp_path: Path) -> None:
    """The first content of a run id stays; another is quarantined, in the same batch or a later one."""
    lake = Lake.create(store_folder)
    first = make_bundle("run-1", ratios={("case", "naive"): 1.1})
    lake.inbox.put(first)
    lake.inbox.put(make_bundle("run-1", ratios={("case", "naive"): 2.2}, folder=tmp_path / "second"))
    report = lake.ingest()
    lake.inbox.put(make_bundle("run-1", ratios={("case", "naive"): 3.3}, folder=tmp_path / "third"))
    later = lake.ingest()
    for refused in (*report.quarantined, *later.quarantined):
        assert "is known with other content" in refused[1]
    assert (len(report.quarantined), len(later.quarantined)) == (1, 1)
    assert lake.sql("SELECT ratio_optimized AS r FROM results").to_pylist() == [{"r": 1.1}]


def test_the_same_content_written_again_is_the_same_run(
    store_folder: Path, make_bundle: MakeBundle, tmp_path: Path
) -> None:
    """A bundle that was written anew at another time is known by its content."""
    lake = Lake.create(store_folder)
    lake.inbox.put(make_bundle("run-1"))
    lake.ingest()
    lake.inbox.put(make_bundle("run-1", folder=tmp_path / "again"))
    assert lake.ingest().already_known == ("run-1",)


def test_a_writer_refuses_what_no_run_is(tmp_path: Path, make_bundle: MakeBundle) -> None:
    """A second publish of an id, a run without its row, an unknown table and a foreign run id are refused."""
    make_bundle("run-1")
    with pytest.raises(BundleError, match="exists already"):
        BundleWriter(tmp_path / "bundles", "run-1")
    with BundleWriter(tmp_path / "bundles", "run-2") as writer:
        with pytest.raises(BundleError, match="0 rows in runs"):
            writer.publish()
        with pytest.raises(BundleError, match="table 'extra': unknown"):
            writer.add("extra", [])
        with pytest.raises(BundleError, match="in the bundle of 'run-2'"):
            writer.add("runs", read_bundle(tmp_path / "bundles" / "run-1").tables["runs"])
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == ["run-1"]
    with pytest.raises(BundleError, match="must be 1 to 200 characters"):
        BundleWriter(tmp_path, "line\nbreak")


def test_an_inbox_that_is_read_only_is_told(tmp_path: Path, make_bundle: MakeBundle) -> None:
    """Where nothing can be written the line says where."""
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(BundleError, match="file"):
        Inbox(blocker / "store").put(make_bundle("run-1"))
    with pytest.raises(BundleError, match="cannot be written"):
        BundleWriter(blocker / "bundles", "run-1")


def test_the_bundle_of_an_older_node_is_read(make_bundle: MakeBundle) -> None:
    """Columns that came after its version are null; the same columns missing from a bundle of today are damage."""
    bundle = make_bundle("run-1")
    late = added_since(1, "results")
    rewrite(bundle, "results", pq.read_table(bundle / "results.parquet").drop_columns(list(late)))
    with pytest.raises(BundleError, match=f"column '{sorted(late)[0]}' is missing"):
        read_bundle(bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps(manifest | {"schema_version": 1}))
    results = read_bundle(bundle).tables["results"]
    assert results.schema.equals(BUNDLE_TABLES["results"])
    assert all(results[column].null_count == results.num_rows for column in late)


FIRST_COLUMNS = {"runs": 28, "results": 67, "samples": 14, "telemetry": 8}


def test_a_new_column_is_a_new_version() -> None:
    """The columns are those of the versions' record: who adds one raises SCHEMA_VERSION and names it in ADDED."""
    count = {name: len(schema) for name, schema in BUNDLE_TABLES.items()}
    first = {name: count[name] - len(added_since(1, name)) for name in count}
    assert first == FIRST_COLUMNS
    assert max(ADDED) == SCHEMA_VERSION
    assert all(set(columns) <= set(BUNDLE_TABLES[name].names) for t in ADDED.values() for name, columns in t.items())
