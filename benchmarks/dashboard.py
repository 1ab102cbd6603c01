"""How long a person waits for the dashboard: real Chromium, a store whose `series` has as many rows as asked.

    python benchmarks/dashboard.py --series 10000 100000 --out benchmarks/results/dashboard-DATE.md

Each page is opened in a fresh browser context (empty cache) against a warm server, and counts as painted when its own
right text is there: the overview when it shows the number of series that an independent DuckDB query counts. The
yardstick is an empty Streamlit page opened the same way. `script` is the server's own time for the whole page, `data`
for its answers alone, in a process without a browser. The series beyond those of the simulated runs are copies under
other names, with 30 nights of random values each: only the first page's tables are large, `results` is not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
import pyarrow as pa
from deltalake import DeltaTable

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import served_dashboard as served  # noqa: E402
import simulated_lake  # noqa: E402

from store.lake.lake import Lake  # noqa: E402
from store.lake.tables import HOST_TABLES  # noqa: E402

SPARKLINE = 30
UNITS = 50


def grow_series(lake: Lake, count: int) -> None:
    """Overwrites `series` with `count` rows."""
    schema = HOST_TABLES["series"]
    small = pa.Table.from_pylist(lake.sql("select * from series where status = 'measured'").to_pylist(), schema=schema)
    grown = pa.concat_tables([small] * (count // small.num_rows + 1)).slice(0, count)
    random = np.random.default_rng(0)
    offsets = pa.array(np.arange(0, SPARKLINE * count + 1, SPARKLINE, dtype=np.int32))
    days = np.datetime64(datetime.now(UTC).date()) - np.arange(SPARKLINE)[::-1].astype("timedelta64[D]")
    columns = {
        "subject_id": pa.array([f"{i:06d}" for i in range(count)]),
        "case_id": pa.array([f"case-{i // 4:06d}" for i in range(count)]),
        "device_unit": pa.array([f"unit-{i % UNITS}" for i in range(count)]),
        "sparkline_ratio": pa.ListArray.from_arrays(offsets, pa.array(1 + random.normal(0, 0.01, SPARKLINE * count))),
        "sparkline_latency_s": pa.ListArray.from_arrays(
            offsets, pa.array(1e-4 * (1 + random.normal(0, 0.01, SPARKLINE * count)))
        ),
        "sparkline_at": pa.ListArray.from_arrays(
            offsets, pa.array(np.tile(days.astype("datetime64[us]"), count), type=pa.timestamp("us", tz="UTC"))
        ),
    }
    weights = np.array(grown["weight"].to_pylist(), dtype=float)  # copies weigh less: a series page opens at a real one
    weights[small.num_rows :] /= 2
    columns["weight"] = pa.array(weights, from_pandas=True)
    for name in ("subject_id", "case_id", "device_unit"):  # the findings' own series stay, among the others
        own = small[name].to_pylist()
        columns[name] = pa.array(own + columns[name].to_pylist()[len(own) :])
    for name, values in columns.items():
        grown = grown.set_column(grown.schema.get_field_index(name), name, values)
    lake.overwrite("series", grown.cast(schema).sort_by("subject_id"))


def expected_text(store: Path) -> str:
    """What the first page has to show, counted without the dashboard."""
    files = DeltaTable(str(store / "tables" / "series")).file_uris()
    query = """
        select count(*) filter (verdict in ('regressed', 'improved', 'unchanged', 'inconclusive')), count(*)
        from read_parquet(?) where role = 'candidate'
    """
    judged, series = duckdb.connect().execute(query, [list(files)]).fetchall()[0]
    return f"{judged:,} of {series:,} series"


@contextlib.contextmanager
def empty_page() -> Iterator[str]:
    """A Streamlit page with one line of text, served with the dashboard's settings."""
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder) / "app.py"
        app.write_text("import streamlit as st\nst.html('<h1 class=\"ko-h1\">empty</h1>')\n")
        settings = Path(folder) / ".streamlit"
        settings.mkdir()
        (settings / "config.toml").write_text((ROOT / "dashboard" / ".streamlit" / "config.toml").read_text())
        port = served.free_port()
        command = [sys.executable, "-m", "streamlit", "run", str(app), "--server.port", str(port)]
        child = subprocess.Popen(command, cwd=folder)
        try:
            yield served.wait_until_up(child, port)
        finally:
            child.terminate()
            child.wait(timeout=20)


def opened(browser: Any) -> Any:
    """A fresh context with an empty cache."""
    return browser.new_context(viewport={"width": 1440, "height": 1000})


def until(page: Any, text: str) -> None:
    page.wait_for_function("text => document.body.innerText.includes(text)", arg=text, timeout=120_000)


def painted(browser: Any, url: str, text: str) -> tuple[float, float]:
    """Seconds until `text` is on the page, and bytes over the wire (encoded, websocket left out)."""
    context = opened(browser)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    received = [0.0]
    session.on("Network.loadingFinished", lambda event: _add(received, event["encodedDataLength"]))
    start = time.perf_counter()
    page.goto(url)
    until(page, text)
    seconds = time.perf_counter() - start
    page.wait_for_timeout(500)
    context.close()
    return seconds, received[0]


def beside_empty(
    browser: Any, empty: str, address: str, text: str, tries: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Medians of (seconds, bytes) of the empty page and of that at `address`, in turn: both meet the same load."""
    pairs = [(painted(browser, empty, "empty"), painted(browser, address, text)) for _ in range(tries + 1)][1:]
    medians = [
        (statistics.median(pair[side][0] for pair in pairs), statistics.median(pair[side][1] for pair in pairs))
        for side in (0, 1)
    ]
    return medians[0], medians[1]


def _add(total: list[float], more: float) -> None:
    total[0] += more


def walked_to_a_series(page: Any) -> float:
    """Seconds from the press on a link of the overview to a series that is drawn."""
    start = time.perf_counter()
    page.get_by_role("link", name="Series").first.click()
    until(page, "samples of ")
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    return time.perf_counter() - start


def stepped(browser: Any, address: str, text: str, tries: int) -> tuple[float, float, float]:
    """Median seconds of a filter (another measure of the heat map), and of the way from the overview to a series: the
    first in a browser, which fetches the library that draws, and the next."""
    filters, walks, again = [], [], []
    for _ in range(tries):
        context = opened(browser)
        page = context.new_page()
        page.goto(address)
        until(page, text)
        page.get_by_label("Heat map shows").click()
        option = page.get_by_role("option", name="error ÷ tolerance")
        option.wait_for()
        start = time.perf_counter()
        option.click()
        until(page, "Error ÷ tolerance")
        filters.append(time.perf_counter() - start)
        walks.append(walked_to_a_series(page))
        page.get_by_role("link", name="Overview").first.click()
        until(page, text)
        again.append(walked_to_a_series(page))
        context.close()
    return statistics.median(filters), statistics.median(walks), statistics.median(again)


def memory_mb(port: int) -> float:
    """Resident memory of the server that listens on `port`, MB (1e6)."""
    for process in psutil.process_iter(["cmdline"]):
        if f"--server.port {port} " in " ".join(process.info["cmdline"] or []) + " ":
            return float(process.memory_info().rss) / 1e6
    return float("nan")


def steadiness(browser: Any, address: str, text: str) -> tuple[float, float, float]:
    """Server memory, MB: after a first look, after 10 browsers at once, and after 50 more loads of the page."""
    port = int(address.rsplit(":", 1)[1])
    before = memory_mb(port)
    contexts = [opened(browser) for _ in range(10)]
    for context in contexts:
        page = context.new_page()
        page.goto(address)
        until(page, text)
    several = memory_mb(port)
    page = contexts[0].pages[0]
    for _ in range(50):
        page.reload()
        until(page, text)
    after = memory_mb(port)
    for context in contexts:
        context.close()
    return before, several, after


def script_seconds(store: Path) -> tuple[float, float, float]:
    """In a process of its own, the page's script with nothing cached, with all cached, and its data, nothing cached."""
    code = (
        "import time, logging; logging.disable(logging.CRITICAL)\n"
        "from streamlit.testing.v1 import AppTest\n"
        "import streamlit as st\n"
        "page = 'from dashboard.frame import VIEWS; VIEWS[0].draw()'\n"
        "app = AppTest.from_string(page, default_timeout=120).run()\n"
        "from dashboard.data import overview as o\n"
        "from dashboard.data.source import lake\n"
        "def forget():\n"
        "    st.cache_data.clear(); st.cache_resource.clear(); lake().sql('select 1')\n"
        "def data():\n"
        "    totals, scores = o.totals(), o.scores()\n"
        "    o.finding_totals(), o.judged(), o.findings_by_price(8), o.new_findings(totals), o.devices()\n"
        "    o.heat_values('candidate ÷ optimized'), o.score_histories(scores), o.audit(), o.visible_changes()\n"
        "def timed(act, first=lambda: None):\n"
        "    found = []\n"
        "    for _ in range(5):\n"
        "        first(); start = time.perf_counter(); act(); found.append(time.perf_counter() - start)\n"
        "    return sorted(found)[2]\n"
        "print(timed(app.run, forget), timed(app.run), timed(data, forget))\n"
    )
    environment = os.environ | {"KERNEL_OBSERVATORY_STORE": str(store), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    cold, warm, data = map(float, done.stdout.split()[-3:])
    return cold, warm, data


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    started = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {os.getloadavg()[0]:.1f}"
    rows, steps, held = [], [], []
    with served.browser() as browser, empty_page() as empty:
        for count in given.series:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                lake = simulated_lake.build_lake(root, simulated_lake.Simulation(nights=6))
                grow_series(lake, count)
                store = root / "store"
                with served.served(store) as address:
                    text = expected_text(store)
                    (base, base_size), (seconds, size) = beside_empty(browser, empty, address, text, given.tries)
                    changed, walked, again = stepped(browser, address, text, given.tries)
                    memory = steadiness(browser, address, text)
                cold, warm, data = script_seconds(store)
            rows.append(
                f"| overview | {count:,} | {base:.2f} | {seconds:.2f} | {seconds / base:.2f} "
                f"| {(size - base_size) / 1e6:.2f} | {cold:.2f} | {warm:.3f} | {data:.2f} |"
            )
            steps.append(f"| {count:,} | {changed:.2f} | {walked:.2f} | {again:.2f} |")
            held.append(f"| {count:,} | " + " | ".join(f"{value:.0f}" for value in memory) + " |")
    heads = (
        "page | series | empty page, s | painted, s | ÷ empty page | wire beyond it, MB | script, nothing cached, s "
        "| script again, s"
    )
    lines = [
        "# The dashboard, painted",
        "",
        f"`python benchmarks/dashboard.py`, started {started}, ended at load {os.getloadavg()[0]:.1f}; "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, streamlit {version('streamlit')}, "
        f"duckdb {version('duckdb')}; median of {given.tries}, empty browser cache, warm server.",
        "",
        f"| {heads} | its data, nothing cached, s |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        "| series | another measure of the heat map, s | first way to a drawn series, s | the next way, s |",
        "|---|---|---|---|",
        *steps,
        "",
        "| series | server memory after a first look, MB | after 10 browsers, MB | after 50 more loads, MB |",
        "|---|---|---|---|",
        *held,
        "",
        "Not measured: a `results` table of 365 nights behind the series page (benchmarks/store_fleet.py asks the",
        "store itself), and a quiet machine where the load above is more than 2.",
    ]
    report = "\n".join(lines) + "\n"
    print(report)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
