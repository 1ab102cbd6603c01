"""What goes into a bundle comes out of it, whatever its rows are."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.bundle.errors import BundleError, RowsError
from store.bundle.inbox import Inbox
from store.bundle.manifest import checked_run_id, run_file_name
from store.bundle.reader import read_bundle
from store.bundle.rows import rows_to_table
from store.bundle.schemas import BUNDLE_TABLES, RowStatus
from store.bundle.writer import BundleWriter

MakeBundle = Callable[..., Path]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 given a zone


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Any value of an Arrow type, null among them."""
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=4)
    if pa.types.is_string(kind):
        return st.none() | TEXT
    if pa.types.is_timestamp(kind):
        return st.none() | TIMES
    if pa.types.is_floating(kind):
        return st.none() | st.floats(width=64)
    assert pa.types.is_integer(kind)
    edge = 1 << (kind.bit_width - 1)
    return st.none() | st.integers(-edge, edge - 1)


@st.composite
def rows_of(draw: st.DrawFn, table_name: str, run_id: str, count: int | None = None) -> list[dict[str, Any]]:
    """Rows of a table that name the run, and have a known status."""
    schema = BUNDLE_TABLES[table_name]
    fields = {field.name: values_of(field.type) for field in schema}
    fields["run_id"] = st.just(run_id)
    if table_name == "results":
        fields["status"] = st.sampled_from([status.value for status in RowStatus])
    row = st.fixed_dictionaries(fields)
    size = count if count is not None else draw(st.integers(0, 3))
    return [draw(row) for _ in range(size)]


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_table_round_trips(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Rows of all four tables come back equal: through folder, inbox and tar."""
    folder = tmp_path_factory.mktemp("round")
    rows = {name: data.draw(rows_of(name, "run", 1 if name == "runs" else None)) for name in BUNDLE_TABLES}
    writer = BundleWriter(folder, "run")
    for name, table_rows in rows.items():
        writer.add(name, table_rows)
    bundle = read_bundle(writer.publish({"words": "extra"}))
    inbox = Inbox(folder / "store")
    through_inbox = read_bundle(inbox.fetch(inbox.put(folder / "run"), folder / "fetched"))
    for name, expected in rows.items():
        assert same(bundle.tables[name].to_pylist(), expected), name
        assert through_inbox.tables[name].equals(bundle.tables[name]) or same(
            through_inbox.tables[name].to_pylist(), expected
        )
    assert through_inbox.manifest == bundle.manifest


@given(run_id=TEXT)
def test_any_run_id_is_a_file_name_or_refused(run_id: str) -> None:
    """A run id is refused with a line, or gives a name that is safe in any folder and its own."""
    try:
        checked_run_id(run_id)
    except BundleError as error:
        assert "\n" not in str(error)
        return
    name = run_file_name(run_id)
    assert name == Path(name).name
    assert not name.startswith(".")
    assert len(name.encode()) <= 120
    assert name.isascii()


@given(st.lists(TEXT, min_size=2, max_size=2, unique=True))
def test_two_run_ids_have_two_names(run_ids: list[str]) -> None:
    """File names tell run ids apart."""
    assert run_file_name(run_ids[0]) != run_file_name(run_ids[1])


HOSTILE = [
    "x' OR '1'='1",
    "x'; DROP TABLE runs;--",
    "../../etc/passwd",
    "<img src=x onerror=alert(1)>",
    'a"b',
    "..",
    "a/b",
    "C:\\x",
    "~",
    "%2e",
    "é 中",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str, store_folder: Path, make_bundle: MakeBundle) -> None:
    """Quotes, SQL, paths and HTML in run ids, cases and filters are nothing but text."""
    from store.lake.lake import Lake

    lake = Lake.create(store_folder)
    bundle = make_bundle(name, ratios={(name, "naive"): 1.5})
    assert bundle.parent == store_folder.parent / "bundles"
    lake.inbox.put(bundle)
    assert lake.ingest().ingested == (name,)
    found = lake.sql("SELECT run_id, case_id FROM results WHERE case_id = $case", {"case": name}).to_pylist()
    assert found == [{"run_id": name, "case_id": name}]
    assert lake.sql("SELECT * FROM results WHERE case_id = ?", [name + "'"]).num_rows == 0
    assert lake.sql("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 1}]


AUDIT = pa.schema([("name", pa.string()), ("n", pa.int32()), ("x", pa.float64()), ("at", pa.timestamp("us", tz="UTC"))])
GOOD = {"name": "a", "n": 1, "x": 1.0, "at": datetime(2026, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": 1}, "unknown column 'more'"),
        ({"name": 3}, "row 1 has 3"),
        ({"n": "1"}, "row 1 has '1'"),
        ({"n": 1.5}, "row 1 has 1.5"),
        ({"n": 1 << 40}, "row 1 has 1099511627776"),
        ({"x": "fast"}, "row 1 has 'fast'"),
        ({"x": True}, "row 1 has True, which is no double"),
        ({"at": datetime(2026, 1, 1)}, "not a time with its zone"),  # noqa: DTZ001 naive on purpose
        ({"at": "2026-01-01"}, "not a time with its zone"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_line(change: dict[str, Any], words: str) -> None:
    """Unknown columns and wrong types are named with table, column and value."""
    with pytest.raises(RowsError) as caught:
        rows_to_table("audit", AUDIT, [GOOD, GOOD | change])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_column_is_refused_and_good_rows_pass() -> None:
    """A column that is not there is named; None stands for a value that is not known; whole numbers pass for floats."""
    with pytest.raises(RowsError, match="column 'x' is missing"):
        rows_to_table("audit", AUDIT, [{key: GOOD[key] for key in ("name", "n", "at")}])
    table = rows_to_table("audit", AUDIT, [GOOD, dict.fromkeys(GOOD), GOOD | {"x": 2}])
    assert table.to_pylist() == [GOOD, dict.fromkeys(GOOD), GOOD | {"x": 2.0}]
    assert rows_to_table("audit", AUDIT, table.select(["x", "at", "n", "name"])).equals(table)
    with pytest.raises(RowsError, match="type string where double"):
        rows_to_table("audit", AUDIT, table.set_column(2, "x", pa.array(["a", "b", "c"])))


def test_times_of_any_zone_are_the_same_moment() -> None:
    """An offset is no difference: 03:00+02:00 is 01:00 UTC."""
    shifted = datetime(2026, 1, 1, 3, tzinfo=timezone(timedelta(hours=2)))
    table = rows_to_table("audit", AUDIT, [GOOD | {"at": shifted}])
    assert table["at"][0].as_py() == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert table.schema.field("at").type.tz == "UTC"
