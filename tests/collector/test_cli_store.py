"""`collector store`: each command over a real small store, in one process; what it says, and its exit code."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from collector.cli.main import app
from collector.errors import exit_code
from collector.host.night import main as host_verb
from store.bundle.inbox import Inbox
from store.bundle.schemas import BUNDLE_TABLES
from store.bundle.writer import BundleWriter
from store.lake.lake import Lake, StoreBusyError
from store.lake.lease import held

NIGHTS = 3
START = datetime(2026, 2, 27, 2, 0, tzinfo=UTC)
LAST_MONTH = "2026-03"

Collector = Callable[..., Result]


def publish(folder: Path, run_id: str, started_at: datetime, ratio: float = 1.0) -> Path:
    """A bundle of one case, two arms, with raw samples."""
    run = {"kind": "night", "status": "complete", "started_at": started_at, "finished_at": started_at}
    run |= {"suite": "quick", "host": "node-1", "device_kind": "cpu", "device_unit": "cpu-0", "run_id": run_id}
    writer = BundleWriter(folder, run_id)
    writer.add("runs", [dict.fromkeys(BUNDLE_TABLES["runs"].names) | run | {"catalog": '{"gemm[M=16]": {}}'}])
    for arm, value in (("optimized", 1.0), ("candidate", ratio)):
        key = {"run_id": run_id, "case_id": "gemm[M=16]", "arm": arm, "subject_id": f"gemm|{arm}"}
        row = key | {"measured_at": started_at, "status": "measured", "latency_p50_s": value * 1e-3}
        row |= {"ratio_optimized": value, "host": "node-1", "device_kind": "cpu", "device_unit": "cpu-0"}
        writer.add("results", [dict.fromkeys(BUNDLE_TABLES["results"].names) | row])
        sample = key | {"replicate": 0, "pass": "rounds", "calls_per_sample": 1, "wall_s": [1e-3], "mark": [""]}
        writer.add("samples", [dict.fromkeys(BUNDLE_TABLES["samples"].names) | sample])
    return writer.publish({})


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three nights, ingested one by one: the end of February and the beginning of March."""
    folder = tmp_path_factory.mktemp("filled")
    lake = Lake.create(folder / "store")
    for night in range(NIGHTS):
        bundle = publish(folder / "bundles", f"run-{night}", START + timedelta(days=night), 1.0 + 0.01 * night)
        lake.inbox.put(bundle)
        lake.ingest()
    lake.close()
    return folder / "store"


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    """A copy of the three nights."""
    return Path(shutil.copytree(filled, tmp_path / "store"))


@pytest.fixture
def collector(store: Path) -> Collector:
    """Runs `collector store ...` on the copy, in this process."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["store", *arguments, "--store", str(store)])

    return run


def said(result: Result) -> str:
    """The output of a command that was to succeed."""
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def document(result: Result) -> Any:
    """The one JSON document that it printed."""
    return json.loads(said(result))


def refusal(result: Result, code: int = 2) -> str:
    """The message of the error that `collector` would print, one line, and end with `code`."""
    assert result.exception is not None
    assert exit_code(result.exception) == code, repr(result.exception)
    assert result.stdout == ""
    return str(result.exception)


def test_ingest_takes_what_waits_once(collector: Collector, store: Path, tmp_path: Path) -> None:
    """A bundle of the inbox is ingested by the first call and known to the next that meets it."""
    bundle = publish(tmp_path / "bundles", "run-new", START + timedelta(days=9))
    Inbox(str(store)).put(bundle)

    assert document(collector("ingest", "--json")) == {
        "ingested": ["run-new"],
        "already_known": [],
        "quarantined": [],
    }
    Inbox(str(store)).put(bundle)
    assert said(collector("ingest")) == "0 runs ingested, 1 known already\n"


def test_create_makes_a_store_once(tmp_path: Path) -> None:
    """A new place is said to be new, a store stays as it is, and a folder without a parent is refused."""
    place = ["store", "create", "--store", str(tmp_path / "new")]

    assert "made a new store" in said(CliRunner().invoke(app, place))
    assert document(CliRunner().invoke(app, [*place, "--json"])) == {"store": str(tmp_path / "new"), "new": False}
    far = CliRunner().invoke(app, ["store", "create", "--store", str(tmp_path / "share" / "new")])
    assert f"there is no folder {tmp_path / 'share'}" in refusal(far)
    assert not (tmp_path / "share").exists()


@pytest.mark.parametrize("share", ["absent", "empty"])
def test_push_hands_runs_to_a_store_only(share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a share that is not mounted nothing is made and the runs wait on; mounted, it gets them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    spool, place = tmp_path / "state" / "kernel-observatory" / "spool", tmp_path / "share"
    publish(spool, "run-1", START)
    if share == "empty":
        place.mkdir()

    why = refusal(CliRunner().invoke(app, ["push", "--store", str(place)]), code=3)

    assert "1 runs wait" in why
    assert "is a share not mounted" in why
    assert (spool / "run-1").is_dir()
    assert not any(place.rglob("*"))
    Lake.create(place).close()
    assert said(CliRunner().invoke(app, ["push", "--store", str(place)])).startswith("1 of 1")
    assert not (spool / "run-1").exists()


def test_a_run_makes_a_store_and_says_so_but_a_confirmation_wants_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verb of `run` makes a store below a folder that is there; that of `confirm` makes none."""
    place = str(tmp_path / "first")

    assert host_verb(["open", "--store", place]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert host_verb(["make", "--store", place]) == 0
    assert json.loads(capsys.readouterr().out)["new"] is True
    assert host_verb(["open", "--store", place]) == 0
    assert host_verb(["make", "--store", str(tmp_path / "share" / "store")]) == 2
    assert not (tmp_path / "share").exists()


def test_stats_count_runs_and_tables(collector: Collector) -> None:
    """Runs, the latest number and each table's rows; the same as JSON and for a person."""
    found = document(collector("stats", "--json"))
    rows = {table["table"]: table["rows"] for table in found["tables"]}

    assert (found["runs"], found["latest_seq"], found["waiting"], found["quarantined"]) == (NIGHTS, NIGHTS, 0, [])
    assert (rows["runs"], rows["results"], rows["samples"]) == (NIGHTS, 2 * NIGHTS, 2 * NIGHTS)
    lines = said(collector("stats")).splitlines()
    assert f"{NIGHTS} runs, the latest is number {NIGHTS}" in lines[0]
    assert [line.split()[:2] for line in lines if line.startswith("results ")] == [["results", str(2 * NIGHTS)]]


def test_sql_prints_rows(collector: Collector) -> None:
    """One line a row, tab-separated with a head, or JSON a line; a number of runs asks the past."""
    query = "SELECT run_id, ratio_optimized AS ratio FROM results WHERE arm = 'candidate' ORDER BY run_id"

    assert said(collector("sql", query)).splitlines()[:2] == ["run_id\tratio", "run-0\t1.0"]
    lines = said(collector("sql", query, "--json", "--as-of", "2")).splitlines()
    assert [json.loads(line)["run_id"] for line in lines] == ["run-0", "run-1"]


def test_the_past_is_asked_by_time_too(collector: Collector) -> None:
    """As of a moment before the first ingest nothing had arrived, as of one after the last all had."""
    query = "SELECT count(*) AS n FROM runs"
    assert said(collector("sql", query, "--as-of", "2001-01-01T00:00Z")).splitlines() == ["n", "0"]
    assert said(collector("sql", query, "--as-of", "2199-01-01T01:00+01:00")).splitlines() == ["n", str(NIGHTS)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("99", f"--as-of is 99, must be at most {NIGHTS}"),
        ("-1", "--as-of is '-1', must be an ingest sequence or a time"),
        ("tuesday", "--as-of is 'tuesday', must be an ingest sequence or a time"),
        ("2026-11-24", "has no time zone: write 2026-11-24T00:00Z"),
    ],
)
def test_a_past_that_is_none_is_refused(collector: Collector, text: str, words: str) -> None:
    """A sequence that was never given, or a time without zone, is one line: not an answer to another question."""
    assert words in refusal(collector("sql", "SELECT 1", "--as-of", text))


def test_sql_refuses_what_is_no_select(collector: Collector) -> None:
    """A statement that is no SELECT is one line and exit code 2."""
    assert "must be one SELECT" in refusal(collector("sql", "DROP TABLE results"))


def test_verify_a_whole_store(collector: Collector) -> None:
    """A store without damage has no problems and exit code 0."""
    assert document(collector("verify", "--json"))["problems"] == []


def test_verify_tells_damage_and_exits_1(collector: Collector, store: Path) -> None:
    """A file whose bytes changed is a line with its table and path, and exit code 1."""
    file = next((store / "tables" / "results").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-9] + b"damagedit")

    done = collector("verify", "--json")

    assert done.exit_code == 1
    problems = json.loads(done.stdout)["problems"]
    assert {problem["table"] for problem in problems} == {"results"}
    assert any(file.name in problem["path"] for problem in problems)
    lines = collector("verify", "--no-fold").stdout.splitlines()
    assert len(lines) == len(problems) + 1
    assert lines[0].startswith("results ")


def test_optimize_says_what_it_rewrote(collector: Collector) -> None:
    """Days that are over are put together once: said table by table, and a second time there is nothing to do."""
    rewrites = document(collector("optimize", "--json"))["rewrites"]

    assert {(r["table"], r["month"]) for r in rewrites} >= {("results", "2026-02"), ("samples", "2026-02")}
    assert all(r["files_after"] < r["files_before"] for r in rewrites)
    assert said(collector("optimize")) == "nothing to do\n"


def test_vacuum_dry_run_deletes_nothing(collector: Collector, store: Path) -> None:
    """An orphan of a killed commit is listed by the dry run, is there after it, and gone after the real one."""
    orphan = store / "tables" / "results" / "part-00000-orphan.parquet"
    orphan.write_bytes(b"half a file")
    old = time.time() - 3 * 86400
    os.utime(orphan, (old, old))

    assert document(collector("vacuum", "--dry-run", "--json")) == {
        "dry_run": True,
        "files": [f"results/{orphan.name}"],
    }
    assert orphan.exists()
    assert said(collector("vacuum")).splitlines() == [f"results/{orphan.name}", "1 file deleted"]
    assert not orphan.exists()


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "0.5"])
def test_vacuum_keeps_what_readers_hold(collector: Collector, hours: str) -> None:
    """Less than an hour is refused: running queries would lose their files."""
    assert "must be" in refusal(collector("vacuum", "--keep-h", hours))


def test_migrate_shows_then_does(collector: Collector, store: Path) -> None:
    """A fold that an older store lacks is a step: shown by the dry run, done by the real one, then none is left."""
    shutil.rmtree(store / "tables" / "cliffs")

    assert document(collector("migrate", "--dry-run", "--json"))["steps"] == [
        {"name": "add-table", "table": "cliffs", "columns": []}
    ]
    assert not (store / "tables" / "cliffs").exists()
    assert said(collector("migrate")).splitlines() == ["add-table: cliffs", "1 step done"]
    assert said(collector("migrate")) == "the store is of this version\n"


def test_rebuild_folds_series(collector: Collector) -> None:
    """After a rebuild there is a row of `series` for each case, arm and device."""
    assert document(collector("rebuild", "--json")) == {"series": 2}


def test_expire_samples_counts_before_it_deletes(collector: Collector) -> None:
    """The dry run counts the rows of earlier months; the real one deletes exactly those, and no result."""
    before = f"{LAST_MONTH}-01"
    expected = {"dry_run": True, "before": LAST_MONTH, "rows": 4}

    assert document(collector("expire-samples", "--before", before, "--dry-run", "--json")) == expected
    assert document(collector("expire-samples", "--before", before, "--json")) == expected | {"dry_run": False}
    counts = "SELECT (SELECT count(*) FROM samples) AS samples, (SELECT count(*) FROM results) AS results"
    assert json.loads(said(collector("sql", counts, "--json"))) == {"samples": 2, "results": 2 * NIGHTS}


def test_expire_samples_wants_a_day(collector: Collector) -> None:
    """Something that is no day is refused with the value."""
    assert "'March'" in refusal(collector("expire-samples", "--before", "March"))


def test_backup_is_a_store(collector: Collector, tmp_path: Path) -> None:
    """The copy is a store with the same runs; a place that is a store already is refused."""
    target = tmp_path / "copy"

    said(collector("backup", str(target)))

    copy = CliRunner().invoke(app, ["store", "stats", "--store", str(target), "--json"])
    assert document(copy)["runs"] == NIGHTS
    assert "is a store already" in refusal(collector("backup", str(target)))


def test_retract_hides_and_release_shows(collector: Collector) -> None:
    """A retracted run is in no answer; who and why are kept; release brings it back."""
    who = ["--reason", "the fan was broken", "--actor", "kim"]

    assert document(collector("retract", "run-1", *who, "--json")) == {"retracted": ["run-1"], "actor": "kim"}
    assert document(collector("stats", "--json"))["retracted_runs"] == 1
    assert "run-1" not in said(collector("sql", "SELECT run_id FROM runs"))
    assert "already retracted" in refusal(collector("retract", "run-1", *who))
    act = said(collector("sql", "SELECT event, actor, reason FROM retractions", "--json"))
    assert json.loads(act) == {"event": "retracted", "actor": "kim", "reason": "the fan was broken"}
    assert said(collector("release", "run-1", *who)).splitlines()[-1] == "1 run released by kim"
    assert document(collector("stats", "--json"))["retracted_runs"] == 0


def test_a_node_is_retracted_whole(collector: Collector) -> None:
    """--host takes every visible run of a node; a node without runs is refused, and so are both ways at once."""
    reason = ("--reason", "wrong power limit")

    assert "'node-9'" in refusal(collector("retract", "--host", "node-9", *reason))
    assert "which runs?" in refusal(collector("retract", "run-1", "--host", "node-1", *reason))
    assert "which runs?" in refusal(collector("retract", *reason))
    chosen = document(collector("retract", "--host", "node-1", *reason, "--json"))["retracted"]
    assert chosen == [f"run-{night}" for night in range(NIGHTS)]


def test_a_reason_is_needed(collector: Collector) -> None:
    """Retracting without --reason is a usage error; an empty reason is refused too."""
    assert collector("retract", "run-1").exit_code == 2
    assert "a reason is needed" in refusal(collector("retract", "run-1", "--reason", " "))


def test_quarantine_lists_and_takes_back(collector: Collector, store: Path, tmp_path: Path) -> None:
    """A run from the future waits in quarantine with the reason; requeued it is refused again, unless its clock is
    let pass."""
    name = Inbox(str(store)).put(publish(tmp_path / "bundles", "run-future", datetime(2199, 1, 1, tzinfo=UTC)))
    collector("ingest")

    entries = document(collector("quarantine", "list", "--json"))
    assert [(entry["name"], "wrong clock" in entry["reason"]) for entry in entries] == [(name, True)]
    assert "refused again" in refusal(collector("quarantine", "requeue", name))
    done = document(collector("quarantine", "requeue", name, "--ignore-clock", "--json"))
    assert done["ingested"] == ["run-future"]
    assert said(collector("quarantine", "list")) == "0 bundles in quarantine\n"


def test_requeue_wants_a_known_name(collector: Collector) -> None:
    """A name that is not in quarantine is one line and exit code 2."""
    assert "'nothing'" in refusal(collector("quarantine", "requeue", "nothing"))


def test_a_busy_store_is_exit_75(store: Path) -> None:
    """Where another process holds the store's lock the error is that of a held lock."""
    with held(Lake.open(store).place, "ingest", wait_s=1), pytest.raises(StoreBusyError) as raised:
        Lake.open(store).ingest(wait_s=0.1)

    assert exit_code(raised.value) == 75


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    """Every command but create wants a store that is there: one line, exit code 2, and nothing is made."""
    for arguments in (["ingest"], ["stats"], ["verify"], ["optimize"], ["migrate"], ["quarantine", "list"]):
        done = CliRunner().invoke(app, ["store", *arguments, "--store", str(tmp_path / "none")])
        assert str(tmp_path / "none") in refusal(done)
    assert not (tmp_path / "none").exists()


def test_metrics_are_prometheus_text(collector: Collector, tmp_path: Path) -> None:
    """The text parses, says what the store holds, and the textfile is the same; a bad address is refused."""
    from prometheus_client.parser import text_string_to_metric_families

    def figures(text: str) -> dict[str, float]:
        return {
            f"{s.name}{sorted(s.labels.items()) or ''}": s.value
            for family in text_string_to_metric_families(text)
            for s in family.samples
            if "age" not in s.name
        }

    found = figures(said(collector("metrics")))
    assert found["kernel_observatory_runs"] == NIGHTS
    assert found["kernel_observatory_series[('status', 'measured')]"] == 2
    waiting = ("runs_partial", "inbox_bundles", "quarantined_bundles", "outbox_waiting", "outbox_dead")
    assert [found[f"kernel_observatory_{name}"] for name in waiting] == [0] * 5
    file = tmp_path / "observatory.prom"
    assert said(collector("metrics", "--textfile", str(file))) == ""
    assert figures(file.read_text()) == found
    assert "must be HOST:PORT" in refusal(collector("metrics", "--serve", "9464"))


def test_metrics_are_served(store: Path) -> None:
    """An HTTP scrape sees what came in since the last one; a device's age is that of its latest run."""
    import urllib.request

    from collector.host.metrics import serve

    lake = Lake.open(store)
    server, thread = serve(lake, "127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            before = answer.read().decode()
        (store / "inbox").mkdir(exist_ok=True)
        (store / "inbox" / "waits.bundle").write_bytes(b"12345")
        with urllib.request.urlopen(url, timeout=30) as answer:
            after = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert "kernel_observatory_inbox_bytes 0.0" in before
    assert "kernel_observatory_inbox_bytes 5.0" in after
    age = next(line for line in after.splitlines() if line.startswith("kernel_observatory_device_age_seconds{"))
    assert 'device_unit="cpu-0",host="node-1"' in age
    latest = START + timedelta(days=NIGHTS - 1)
    assert float(age.split()[-1]) == pytest.approx((datetime.now(UTC) - latest).total_seconds(), abs=60)
