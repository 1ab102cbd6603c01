"""How long a person waits for the dashboard: real Chromium, a store whose `series` has as many rows as asked.

    python benchmarks/dashboard.py --series 10000 100000 --out benchmarks/results/dashboard.md

Each page is opened in a fresh browser context (empty cache) against a warm server, and counts as painted when its own
right text is there: the overview when it shows the number of series that an independent DuckDB query counts. The
yardstick is an empty Streamlit page opened the same way. `script` is the server's own time for the page's data, asked
once with nothing cached. The series beyond those of the simulated runs are copies under other names, with 30 nights of
random values each: only the first page's tables are large, `results` is not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
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
    for name, values in columns.items():
        grown = grown.set_column(grown.schema.get_field_index(name), name, values)
    lake.overwrite("series", grown.cast(schema))


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


def painted(browser: Any, url: str, text: str, tries: int) -> tuple[float, float]:
    """Median seconds until `text` is on the page, and bytes over the wire (encoded, websocket left out)."""
    seconds, sizes = [], []
    for _ in range(tries):
        context = browser.new_context(viewport={"width": 1440, "height": 1000})
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        received = [0.0]
        session.on("Network.loadingFinished", lambda event, got=received: _add(got, event["encodedDataLength"]))
        session.on(
            "Network.webSocketFrameReceived",
            lambda event, got=received: _add(got, len(event["response"]["payloadData"])),
        )
        start = time.perf_counter()
        page.goto(url)
        page.wait_for_function("text => document.body.innerText.includes(text)", arg=text, timeout=120_000)
        seconds.append(time.perf_counter() - start)
        page.wait_for_timeout(500)
        sizes.append(received[0])
        context.close()
    return statistics.median(seconds), statistics.median(sizes)


def _add(total: list[float], more: float) -> None:
    total[0] += more


def script_seconds(store: Path) -> float:
    """The server's time for the first page's data, nothing cached, in a process of its own."""
    code = (
        "import time, logging; logging.disable(logging.CRITICAL)\n"
        "from dashboard.data import overview as o\n"
        "from dashboard.data.source import lake\n"
        "lake().sql('select 1')\n"
        "start = time.perf_counter()\n"
        "totals, scores = o.totals(), o.scores()\n"
        "o.finding_totals(), o.judged(), o.findings_by_price(8), o.new_findings(totals), o.devices()\n"
        "o.heat_values('candidate ÷ optimized'), o.score_histories(scores), o.audit(), o.visible_changes()\n"
        "print(time.perf_counter() - start)\n"
    )
    environment = os.environ | {"KERNEL_OBSERVATORY_STORE": str(store), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    lines = [
        "# The dashboard, painted",
        "",
        f"`python benchmarks/dashboard.py`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load {load:.1f} at "
        f"the start, median of {given.tries}, empty browser cache, warm server.",
        "",
        "| page | series | painted, s | ÷ empty page | over the wire beyond it, MB | data, nothing cached, s |",
        "|---|---|---|---|---|---|",
    ]
    with served.browser() as browser:
        with empty_page() as address:
            painted(browser, address, "empty", 1)
            base, base_size = painted(browser, address, "empty", given.tries)
        lines.append(f"| empty Streamlit page | | {base:.2f} | 1.00 | | |")
        for count in given.series:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                lake = simulated_lake.build_lake(root, simulated_lake.Simulation(nights=6))
                grow_series(lake, count)
                store = root / "store"
                with served.served(store) as address:
                    text = expected_text(store)
                    painted(browser, address, text, 1)
                    seconds, size = painted(browser, address, text, given.tries)
                script = script_seconds(store)
                beyond = (size - base_size) / 1e6
                lines.append(
                    f"| overview | {count:,} | {seconds:.2f} | {seconds / base:.2f} | {beyond:.2f} | {script:.2f} |"
                )
    report = "\n".join(lines) + "\n"
    print(report)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
