"""Stores that are not as they should be: read-only, of an older or a later version, tidied while somebody reads."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import simulated_lake
import streamlit
from deltalake import DeltaTable, write_deltalake
from simulated_lake import CASES, DEVICES
from streamlit.testing.v1 import app_test

from dashboard.data import findings as data
from dashboard.frame import VIEWS
from store.lake.lake import Lake

Page = Callable[..., Any]
Said = Callable[[Any], str]
FAILED = "this page failed"
PATHS = [view.path for view in VIEWS]
SMALL = simulated_lake.Simulation(nights=3, devices=DEVICES[:1], cases=CASES[3:13])
NOBODY = 65534


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that each test gets a copy of."""
    root = tmp_path_factory.mktemp("odd")
    simulated_lake.build_lake(root, SMALL)
    return root / "store"


@pytest.fixture
def own_store(built: Path, tmp_path: Path) -> Iterator[Path]:
    """A store of one's own; nothing that was read of another is kept."""
    shutil.copytree(built, tmp_path / "store")
    streamlit.cache_resource.clear()
    streamlit.cache_data.clear()
    yield tmp_path / "store"


@contextlib.contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Nobody may write below `folder`; root, who always may, is somebody else for the time being."""
    parts = [folder, *(Path(at) / name for at, folders, files in os.walk(folder) for name in (*folders, *files))]
    modes = {part: part.stat().st_mode for part in parts}
    root = os.geteuid() == 0
    above = [parent for parent in folder.parents if root and parent.stat().st_mode & 0o055 != 0o055]
    for part in parts:
        part.chmod(0o555 if part.is_dir() else 0o444)
    opened = {parent: parent.stat().st_mode for parent in above}
    for parent in above:
        parent.chmod(opened[parent] | 0o055)
    try:
        if root:
            os.seteuid(NOBODY)
        yield
    finally:
        if root:
            os.seteuid(0)
        for part, mode in (*modes.items(), *opened.items()):
            part.chmod(mode)


def test_read_only_lake_is_shown_and_says_that_nothing_was_written(page: Page, said: Said, own_store: Path) -> None:
    """Every page of a store that may not be written is drawn; an act says in one line that nothing was written."""
    finding = simulated_lake.planted_id(SMALL, 0)
    apps = {view: page(own_store, view) for view in PATHS}  # what they import may be readable by its owner only
    one = page(own_store, "findings", finding=finding)
    Path(app_test.TMP_DIR.name).chmod(0o755)  # where the harness keeps what draws a page
    streamlit.cache_resource.clear()
    with unwritable(own_store):
        with pytest.raises(OSError):
            (own_store / "tables" / "triage" / "x").write_text("x")
        for view, app in apps.items():
            shown = said(app.run())
            assert FAILED not in shown, view
            assert "does not answer" not in shown, view
            assert "no store to show" not in shown, view
        one.text_input(key="triager-name").set_value("Ana")
        next(button for button in one.button if button.label == "Say it").click().run()
        assert not one.exception
        assert one.error[0].value.startswith("Nothing was written: ")
        assert "\n" not in one.error[0].value
    assert data.acts_of(finding) == []


def test_older_tables_name_the_command_that_brings_them_up(page: Page, said: Said, own_store: Path) -> None:
    """Where a table lacks columns of this version, the pages that need them say which command adds them."""
    results = own_store / "tables" / "results"
    late = ["static_matrix_instructions", "static_load_widths", "energy_j"]
    older = Lake.open(own_store).tables.dataset("results").to_table().drop_columns(late)
    shutil.rmtree(results)
    write_deltalake(results, older, partition_by=["month"])
    for view in PATHS:
        shown = said(page(own_store, view))
        assert FAILED not in shown, view
        assert "<h1" in shown
    lacking = said(page(own_store, "series", subject=older["subject_id"][0].as_py()))
    assert FAILED not in lacking


def test_column_of_a_later_version_is_passed_over(page: Page, said: Said, own_store: Path) -> None:
    """A table with a column that this version does not know is read for what it does know."""
    import pyarrow as pa

    series = own_store / "tables" / "series"
    found = DeltaTable(series).to_pyarrow_dataset().to_table()
    later = found.append_column("of_tomorrow", pa.array(["x"] * found.num_rows))
    write_deltalake(series, later, mode="overwrite", schema_mode="overwrite")
    for view in PATHS:
        shown = said(page(own_store, view))
        assert FAILED not in shown, view
        assert "<h1" in shown


def test_table_that_is_gone_is_said(page: Page, said: Said, own_store: Path) -> None:
    """Where a whole table is missing, a page says that the store does not answer, and why, in one line."""
    shutil.rmtree(own_store / "tables" / "verdicts")
    for view in PATHS:
        shown = said(page(own_store, view))
        assert FAILED not in shown, view
        assert "<h1" in shown


def test_every_page_after_compaction_and_vacuum(page: Page, said: Said, own_store: Path) -> None:
    """Files that a reader's handle knows are compacted and removed under it: every page is drawn from the new ones."""
    from store.lake.maintenance import optimize

    for view in PATHS:
        page(own_store, view)
    lake = Lake.open(own_store)
    optimize(lake)
    for name in ("runs", "results", "series", "verdicts", "samples", "telemetry", "findings_state"):
        lake.tables.load(name).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    streamlit.cache_data.clear()
    for view in PATHS:
        shown = said(page(own_store, view))
        assert FAILED not in shown, view
        assert "does not answer" not in shown, view
