"""Every page in every state of the store: something useful, never a traceback."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated_lake
from simulated_lake import CASES, DEVICES, HOSTILE, STEP_CASE, subject_id

from dashboard.frame import VIEWS
from store.lake.lake import Lake

Page = Callable[..., Any]
Said = Callable[[Any], str]
FAILED = "this page failed"
PATHS = [view.path for view in VIEWS]


@pytest.mark.parametrize("view", ["overview", "findings", "policies"])
def test_no_store_says_how_to_make_one(page: Page, said: Said, tmp_path: Path, view: str) -> None:
    """Where there is no store each page says so, and which command makes one."""
    shown = said(page(tmp_path / "nowhere", view))
    assert "There is no store to show yet." in shown
    assert "collector run --suite quick" in shown


@pytest.mark.parametrize("view", ["overview", "series"])
def test_foreign_folder_and_future_version_are_refused_in_words(
    page: Page, said: Said, tmp_path: Path, view: str
) -> None:
    """A folder that is no store, and a store of a later version, are each named with the reason."""
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("x")
    assert "is no store" in said(page(tmp_path / "foreign", view))
    Lake.create(tmp_path / "later")
    marker = json.loads((tmp_path / "later" / "store.json").read_text())
    (tmp_path / "later" / "store.json").write_text(json.dumps(marker | {"version": 99}))
    assert "version 99" in said(page(tmp_path / "later", view))


@pytest.mark.parametrize("view", PATHS)
def test_nothing_is_shown_before_sign_in(
    page: Page, said: Said, store: Path, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where sign-in is configured and nobody has signed in, a page says nothing at all of the store."""
    monkeypatch.setattr("dashboard.people.require_sign_in", lambda: False)
    assert said(page(store, view)) == ""


@pytest.mark.parametrize("view", PATHS)
def test_empty_store_says_what_to_do(page: Page, said: Said, tmp_path: Path, view: str) -> None:
    """An empty store is no error: the page says what would fill it."""
    Lake.create(tmp_path / "empty")
    shown = said(page(tmp_path / "empty", view))
    assert FAILED not in shown
    assert "collector" in shown


@pytest.mark.parametrize("view", PATHS)
def test_one_run_is_shown(page: Page, said: Said, one_run_store: Path, view: str) -> None:
    """A single run with failed, skipped, wrong and invalid rows is shown on every page."""
    shown = said(page(one_run_store, view))
    assert FAILED not in shown
    assert "<h1" in shown


@pytest.mark.parametrize("view", PATHS)
def test_hostile_names_are_text(page: Page, said: Said, hostile_store: Path, view: str) -> None:
    """Markup in a name of a device, a host, a case or a note adds no element to any page."""
    shown = said(page(hostile_store, view))
    assert FAILED not in shown
    assert "<img src=x" not in shown
    assert "onerror=alert" not in shown.replace(html.escape(HOSTILE), "").replace(html.escape(HOSTILE[:40]), "")


def test_overview_of_one_run_says_that_history_is_missing(page: Page, said: Said, one_run_store: Path) -> None:
    """With one run there is nothing to compare with, and the sections say what they need."""
    shown = said(page(one_run_store, "overview"))
    assert "First run: " in shown
    assert "history starts with the second run" in shown
    assert "No audit is in the store." in shown


def test_overview_says_what_changed(page: Page, said: Said, store: Path) -> None:
    """The first sentence names the kernel, its device, the change with its interval and the class of the finding."""
    shown = said(page(store, "overview"))
    assert "Since yesterday one kernel got slower, confirmed: " in shown
    assert "attention decode on H200" in shown
    assert "7.4\u00a0±\u00a00.9\u202f%" in shown
    assert "probably by its own code." in shown


def test_overview_score_is_the_weighted_geomean(page: Page, said: Said, store: Path) -> None:
    """The score tile is exp(sum w ln r / sum w) over the measured candidates, computed here from the results."""
    lake = Lake.open(store)
    rows = lake.sql(
        "select ratio_optimized, weight from results r where role = 'candidate' and status = 'measured'"
        " and measured_at ="
        " (select max(measured_at) from results x where x.subject_id = r.subject_id)"
    ).to_pylist()
    expected = simulated_lake.weighted_geomean([(row["ratio_optimized"], row["weight"]) for row in rows])
    assert f"<b>{expected:.3f}×</b>" in said(page(store, "overview"))


def test_overview_reads_only_small_tables(store: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page asks nothing of results, samples or telemetry, however large they are."""
    asked: list[str] = []
    original = Lake.sql

    def listening(self: Lake, query: str, params: Any = None) -> Any:
        asked.append(query)
        return original(self, query, params)

    monkeypatch.setattr(Lake, "sql", listening)
    import streamlit

    streamlit.cache_data.clear()
    streamlit.cache_resource.clear()
    page(store, "overview")
    assert asked
    assert not [q for q in asked if {"results", "samples", "telemetry"} & set(q.lower().split())]


def test_series_by_link_is_the_series_asked_for(page: Page, said: Said, store: Path) -> None:
    """The address names the series; the sentence is its own."""
    shown = said(page(store, "series", subject=subject_id(STEP_CASE, "candidate", DEVICES[0])))
    assert "Attention decode on H200: " in shown
    assert "slower since" in shown
    other = said(page(store, "series", subject=subject_id(CASES[3], "candidate", DEVICES[1])))
    assert "GEMM down projection on MI300X: " in other


def test_series_of_a_heat_cell_is_of_its_operator_and_device(page: Page, said: Said, store: Path) -> None:
    """A cell of the heat map leads to the heaviest series of its operator and device."""
    shown = said(page(store, "series", family="RMSNorm", device="AMD EPYC 9654"))
    assert "RMSNorm on EPYC 9654" in shown


def test_unknown_series_and_run_are_said(page: Page, said: Said, store: Path) -> None:
    """An address that names what is not there is answered in words and with a way on."""
    assert "There is no such series." in said(page(store, "series", subject=HOSTILE))
    assert "There is no such run." in said(page(store, "runs", run="'; drop table runs; --"))


def test_failed_newest_run_is_in_the_sentence(page: Page, said: Said, one_run_store: Path) -> None:
    """Where the newest run has no time, the series says what became of it."""
    lake = Lake.open(one_run_store)
    row = lake.sql("select subject_id from results where status = 'failed'").to_pylist()[0]
    shown = said(page(one_run_store, "series", subject=row["subject_id"]))
    assert "the newest run failed: out of memory." in shown


def test_run_page_counts_its_rows(page: Page, said: Said, one_run_store: Path) -> None:
    """The sentence has the counts of the rows by status, and each odd row its reason."""
    shown = said(page(one_run_store, "runs"))
    assert "56 of 60 rows measured over 15 cases" in shown
    for text in ("1 wrong and 1 failed", "1 skipped and 1 invalid", "wanted 96.0 GiB, 79.6 GiB were free"):
        assert text in shown


def test_quarantined_bundle_is_shown_with_its_reason(page: Page, said: Said, tmp_path: Path) -> None:
    """A bundle that was refused is listed with the reason for it."""
    lake = Lake.create(tmp_path / "store")
    (tmp_path / "store" / "inbox").mkdir(exist_ok=True)
    (tmp_path / "store" / "inbox" / "broken-0123456789abcdef.bundle").write_bytes(b"not a tar")
    report = lake.ingest()
    assert report.quarantined
    shown = said(page(tmp_path / "store", "runs"))
    assert "broken-0123456789abcdef.bundle" in shown
    assert html.escape(report.quarantined[0][1])[:30] in shown


def test_pages_stay_right_while_the_lake_is_written_and_tidied(page: Page, said: Said, tmp_path: Path) -> None:
    """While runs arrive and old files are compacted and removed, every page is drawn and counts what is there."""
    from store.bundle.inbox import Inbox
    from store.lake.maintenance import optimize

    simulation = simulated_lake.Simulation(nights=4, devices=DEVICES[:1], cases=CASES[6:10])
    simulated_lake.build_lake(tmp_path, simulation)
    lake = Lake.open(tmp_path / "store")
    inbox = Inbox(tmp_path / "store")
    later = simulated_lake.Simulation(nights=9, devices=DEVICES[:1], cases=CASES[6:10], end=simulation.end)
    for night in (7, 8):
        inbox.put(simulated_lake.publish_run(later, tmp_path / "later", night, 0))
        lake.ingest()
        optimize(lake)
        for name in ("runs", "results", "series"):  # harsher than the store's own upkeep, which spares readers an hour
            lake.tables.load(name).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        for view in ("overview", "series", "runs"):
            shown = said(page(tmp_path / "store", view))
            assert FAILED not in shown
            assert "does not answer" not in shown
    newest = simulated_lake.run_id(8, DEVICES[0])
    assert "H200, nightly: 12 of 16 rows measured" in said(page(tmp_path / "store", "runs", run=newest))
