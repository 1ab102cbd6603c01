"""The dashboard in a real Chromium: right numbers, working links, names as text, no request to anyone else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compiled_kernels
import duckdb
import pytest
import simulated_lake
from deltalake import DeltaTable
from playwright.sync_api import expect
from served_dashboard import WAIT_MS, Visit, browser, served
from simulated_lake import CASES, DEVICES, HOSTILE, STEP_CASE, subject_id

from dashboard.address import link
from dashboard.frame import VIEWS

pytestmark = pytest.mark.browser
expect.set_options(timeout=WAIT_MS)
PATHS = ["" if view.path == "overview" else view.path for view in VIEWS]
NAMELESS = ("policies", "collectives", "static")
"""Pages that show no name of the hostile store."""
SIMULATION = simulated_lake.Simulation(nights=8)
STEPPED = subject_id(STEP_CASE, "candidate", DEVICES[0])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("browser")
    simulated_lake.build_lake(root, SIMULATION)
    return root / "store"


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    with served(store) as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def context(chromium: Any) -> Iterator[Any]:
    """One reader's browser, so that the scripts are fetched once."""
    made = chromium.new_context(viewport={"width": 1440, "height": 1000})
    yield made
    made.close()


@pytest.fixture
def visit(chromium: Any, context: Any, address: str) -> Iterator[Visit]:
    """A tab that has to stay without an error and without a request to another host."""
    made = Visit(chromium, address, context=context)
    yield made
    made.close()
    assert made.errors == []
    assert made.outside == []


def ask(store: Path, table: str, query: str, *parameters: str) -> list[tuple[Any, ...]]:
    """An independent question: DuckDB over the active files of the Delta log, `t` in the query."""
    files = DeltaTable(str(store / "tables" / table)).file_uris()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("create view t as select * from read_parquet($files)".replace("$files", repr(list(files))))
    return connection.execute(query, list(parameters)).fetchall()


def test_overview_score_and_counts_are_those_of_the_results(visit: Visit, store: Path) -> None:
    """The score and the number of judged series on the first page equal what DuckDB finds in the tables."""
    visit.go("")
    ((score,),) = ask(
        store,
        "results",
        "with newest as (select *, row_number() over (partition by subject_id order by measured_at desc) as n from t"
        " where role = 'candidate') select exp(sum(weight * ln(ratio_optimized)) / sum(weight)) from newest"
        " where n = 1 and status = 'measured'",
    )
    ((judged,),) = ask(store, "verdicts", "select count(distinct subject_id) from t where status <> 'not_judged'")
    visit.says(f"{score:.3f}×")
    visit.says(f"{judged} of {judged} series")
    assert visit.page.title() == "Overview · Kernel Observatory"


def test_overview_leads_to_series_and_runs(visit: Visit) -> None:
    """A cell of the heat map leads to its series, a device to its newest run."""
    page = visit.go("")
    page.get_by_role("link", name="2 cases").first.click()
    page.wait_for_url("**/series?*")
    page.wait_for_selector("h1:has-text('Attention decode on')")
    visit.go("")
    page.locator(".ko-strip").get_by_role("link", name="H200").click()
    page.wait_for_url("**/runs?*")
    page.wait_for_selector("h1:has-text('H200, nightly: ')")


def test_heat_measure_is_in_the_address(visit: Visit) -> None:
    """The measure of the heat map comes from the address and goes back into it."""
    page = visit.go("?heat=roofline+fraction")
    visit.says("Roofline fraction")
    page.get_by_label("Heat map shows").click()
    page.get_by_role("option", name="candidate ÷ naive").click()
    page.wait_for_url("**heat=candidate*naive*")


def test_series_shows_the_newest_ratio(visit: Visit, store: Path) -> None:
    """The number at the end of the ratio line is that of the newest row in the table."""
    visit.go(link("series", subject=STEPPED))
    newest = "select arg_max(ratio_optimized, measured_at) from t where subject_id = ?"
    ((ratio,),) = ask(store, "results", newest, STEPPED)
    visit.says(f"{ratio:.3f}×", within=".js-plotly-plot .annotation-text")
    visit.says("slower +7.4\u202f%", within=".js-plotly-plot .annotation-text")


def test_series_link_survives_a_walk_and_a_reload(visit: Visit) -> None:
    """Range and series stay in the address over a reload, and come back after a walk through the navigation."""
    page = visit.go(link("series", subject=STEPPED))
    page.get_by_role("radio", name="30 nights").click()
    page.wait_for_url("**range=30*")
    visit.settle()
    page.reload()
    visit.settle()
    assert "subject=" in page.url
    expect(page.get_by_role("radio", name="30 nights")).to_have_attribute("aria-checked", "true")
    page.get_by_role("link", name="Runs").first.click()
    page.wait_for_url("**/runs*")
    visit.settle()
    page.get_by_role("link", name="Series").first.click()
    page.wait_for_url("**range=30*")
    visit.settle()
    assert "subject=" in page.url
    page.wait_for_selector("h1:has-text('Attention decode on H200')")


def test_series_choosers_lead_to_another_case(visit: Visit) -> None:
    """Choosing another case changes the address and the sentence."""
    page = visit.go(link("series", subject=subject_id(CASES[0], "candidate", DEVICES[0])))
    page.get_by_label("Case", exact=True).click()
    page.get_by_role("option", name="GEMM down projection · M 16").click()
    page.wait_for_url("**4096%2CK%3D14336**")
    page.wait_for_selector("h1:has-text('GEMM down projection on H200')")


def test_raw_samples_are_counted_as_in_the_table(visit: Visit, store: Path) -> None:
    """The page says how many samples the run has of the case, and that is how many the table has."""
    run = simulated_lake.run_id(6, DEVICES[0])
    visit.go(link("series", subject=STEPPED, run=run))
    query = "select sum(len(device_s)) from t where run_id = ? and case_id = ? and arm <> 'naive'"
    ((count,),) = ask(store, "samples", query, run, STEP_CASE.case_id)
    visit.says(f"{count} samples of 3 arms in run {run}")


def test_run_page_shows_a_latency_of_the_table(visit: Visit, store: Path) -> None:
    """A p50 on the run's page is that of the row."""
    run = simulated_lake.run_id(7, DEVICES[1])
    visit.go(link("runs", run=run))
    query = "select latency_p50_s from t where run_id = ? and arm = 'naive' and case_id = ?"
    ((p50,),) = ask(store, "results", query, run, STEP_CASE.case_id)
    visit.says(f"{p50 * 1e3:.2f}\u202fms", within="table[aria-label='Rows of the run'] tbody tr:first-child")


def test_csv_download_has_every_row(visit: Visit, store: Path) -> None:
    """The download of a run's rows has as many lines as the table has rows."""
    run = simulated_lake.run_id(7, DEVICES[2])
    page = visit.go(link("runs", run=run))
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").click()
    ((count,),) = ask(store, "results", "select count(*) from t where run_id = ?", run)
    assert len(Path(waiting.value.path()).read_text().splitlines()) == count + 1


def newest_weights(store: Path, where: str, *parameters: str) -> list[tuple[Any, ...]]:
    """The newest rows of the H200's candidates, asked independently."""
    query = """
        with newest as (select *, row_number() over (partition by subject_id order by measured_at desc) as n from t)
        select case_id, weight, roofline_fraction, peak_memory_bytes, busbw_bytes_per_s, error_margin from newest
        where n = 1 and device_unit = ? and """
    return ask(store, "results", query + where, DEVICES[0].unit, *parameters)


def test_finding_shows_the_ratio_before_and_after(visit: Visit, store: Path) -> None:
    """The page of a finding has the ratios of the runs on both sides, as the table has them."""
    visit.go(link("findings", finding=simulated_lake.planted_id(SIMULATION, 0)))
    query = "select ratio_optimized from t where subject_id = ? and run_id = ?"
    for night in (SIMULATION.nights - 3, SIMULATION.nights - 2):
        ((ratio,),) = ask(store, "results", query, STEPPED, simulated_lake.run_id(night, DEVICES[0]))
        visit.says(f"{ratio:.3f}×")
    visit.says("Attention decode on H200 is 7.4\u00a0±\u00a00.9\u202f% slower")


def test_triage_act_is_seen_after_a_reload_and_by_a_second_browser(
    chromium: Any, visit: Visit, address: str, store: Path
) -> None:
    """An act through the page is an event with its author, shown after a reload and to another reader."""
    finding = simulated_lake.planted_id(SIMULATION, 1)
    page = visit.go(link("findings", finding=finding))
    page.get_by_label("Your name").fill("Ana")
    page.get_by_label("Your name").press("Tab")
    page.get_by_role("button", name="Acknowledge").click()
    page.get_by_label("Remark, if any").first.fill("looking at it <b>now</b>")
    page.get_by_role("button", name="Say it").first.click()
    page.wait_for_selector(".ko-above .ko-chip:text('acknowledged')")
    page.reload()
    visit.settle()
    visit.says("looking at it <b>now</b>")
    second = Visit(chromium, address)
    second.go(link("findings", state="all"))
    row = second.page.locator("tr", has_text="GEMM down projection").first
    expect(row).to_contain_text("acknowledged")
    assert (second.errors, second.outside) == ([], [])
    second.close()
    ((event, actor),) = ask(store, "triage", "select event, actor from t where finding_id = ?", finding)
    assert (event, actor) == ("acknowledged", "Ana")


FOCUSED = """() => {
  const focused = document.activeElement, style = getComputedStyle(focused);
  return {
    tag: focused.tagName,
    words: focused.innerText || focused.getAttribute('aria-label') || '',
    marked: style.outlineStyle !== 'none' || style.boxShadow !== 'none',
  };
}"""


def tab_to(page: Any, tag: str, words: str, *, most: int = 150) -> None:
    """Walks by Tab until an element has the focus; each link and button on the way shows that it has it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found["tag"] in ("A", "BUTTON"):
            assert found["marked"], found
        if found["tag"] == tag and found["words"].startswith(words):
            return
    raise AssertionError(f"{words!r} is not reached within {most} steps")


def test_triage_by_keyboard_alone(visit: Visit, store: Path) -> None:
    """Name, act, text and button are reached by Tab and Enter, with a visible focus, and the act is an event."""
    finding = simulated_lake.planted_id(SIMULATION, 0)
    page = visit.go(link("findings", finding=finding))
    tab_to(page, "INPUT", "Your name")
    page.keyboard.type("Kim")
    page.keyboard.press("Enter")
    visit.settle()
    tab_to(page, "BUTTON", "Note")
    page.keyboard.press("Enter")
    page.locator("textarea:visible").wait_for()
    tab_to(page, "TEXTAREA", "Why")
    page.keyboard.type("seen from the keyboard")
    tab_to(page, "BUTTON", "Say it")
    page.keyboard.press("Enter")
    visit.says("seen from the keyboard", within="table[aria-label='Events of the finding']")
    query = "select event, actor from t where finding_id = ? and actor = 'Kim'"
    assert ask(store, "triage", query, finding) == [("note", "Kim")]


def test_static_counts_registers(chromium: Any, tmp_path: Path) -> None:
    """A kernel's registers on the page are those of the newest row in the table, and a cell leads to its series."""
    compiled_kernels.keep(tmp_path, compiled_kernels.FIRST)
    compiled_kernels.keep(tmp_path, compiled_kernels.SECOND)
    store, kernel = tmp_path / "store", compiled_kernels.GEMM.variant
    query = "select arg_max(static_registers, measured_at) from t where case_id = ? and device_model = 'sm_90'"
    ((registers,),) = ask(store, "results", query, kernel)
    with served(store) as address:
        visit = Visit(chromium, address)
        page = visit.go("static")
        visit.says(str(registers), within="table.ko-heat td")
        page.get_by_role("link", name=f"▲ {registers}").click()
        page.wait_for_url("**/static?kernel=*")
        visit.settle()
        visit.says("12 × 128 bit", within="table[aria-label='Compilations of the kernel']")
        assert visit.barriers() == []
        assert (visit.errors, visit.outside) == ([], [])
        visit.close()


def test_roofline_sentence_is_the_weighted_share(visit: Visit, store: Path) -> None:
    """The share of weighted time at 80 % of the roof or better is that of the table."""
    visit.go("roofline")
    rows = newest_weights(store, "arm = 'candidate' and status = 'measured'")
    share = sum(row[1] for row in rows if row[2] >= 0.8) / sum(row[1] for row in rows)
    visit.says(f"{share * 100:.0f}\u202f% of the suite's weighted time")


def test_shapes_weigh_what_the_suite_says(visit: Visit, store: Path) -> None:
    """The operator's share of production time is the sum of the weights of its shapes."""
    visit.go("shapes?family=GEMM&colour=ratio+to+optimized")
    rows = newest_weights(store, "arm = 'candidate' and family = 'GEMM'")
    visit.says(f"They are {100 * sum(row[1] for row in rows):.1f}\u202f% of production time.")
    visit.counts("table.ko-heat a", len(rows))


def test_compare_of_two_arms_is_the_paired_geomean(visit: Visit, store: Path) -> None:
    """Candidate against optimized: the total is the weighted geomean of the ratios of the newest run."""
    visit.go("compare?by=arm")
    query = "select ratio_optimized, weight from t where run_id = ? and arm = 'candidate'"
    pairs = ask(store, "results", query, simulated_lake.run_id(SIMULATION.nights - 1, DEVICES[0]))
    change = simulated_lake.weighted_geomean(pairs) - 1
    visit.says(f"{abs(change) * 100:.1f}\u00a0±", within="h1")
    visit.says("slower" if change > 0 else "faster", within="h1")


def test_memory_names_the_largest_peak(visit: Visit, store: Path) -> None:
    """The largest peak memory of the sentence is the largest of the table."""
    visit.go("memory")
    peak = max(row[3] for row in newest_weights(store, "arm = 'candidate'"))
    visit.says(f"needs most, {peak / 2**30:.2f}\u202fGiB")


def test_collectives_say_the_bus_bandwidth(visit: Visit, store: Path) -> None:
    """The bus bandwidth of the sentence is that of the optimized arm in the table."""
    visit.go("collectives")
    ((*_, busbw, _),) = newest_weights(store, "arm = 'optimized' and message_bytes is not null")
    visit.says(f"{busbw / 1e9:,.0f}\u202fGB/s of bus bandwidth")


def test_numerics_say_the_row_nearest_its_tolerance(visit: Visit, store: Path) -> None:
    """The largest share of a tolerance is that of the table."""
    visit.go("numerics")
    margin = max(row[5] for row in newest_weights(store, "arm <> 'aa'"))
    visit.says(f"at {margin * 100:.0f}\u202f%", within="h1")


def test_fleet_counts_runs(visit: Visit, store: Path) -> None:
    """Each device stands with as many runs as the table has of it."""
    visit.go("fleet")
    ((runs,),) = ask(store, "runs", "select count(*) from t where device_unit = ?", DEVICES[0].unit)
    row = visit.page.locator("table[aria-label='Devices'] tr", has_text="H200").first
    expect(row.get_by_text(str(runs), exact=True).first).to_be_visible()


def test_policies_count_verdicts(visit: Visit, store: Path) -> None:
    """The number of verdicts of the policy is that of the table."""
    visit.go("policies")
    ((verdicts,),) = ask(store, "verdicts", "select count(*) from t where against = 'history'")
    visit.says(f"of {verdicts} verdicts called a change")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_fits_a_phone(chromium: Any, address: str, dark: bool) -> None:
    """At 390 px nothing but scrolling tables is wider than the screen, in both modes, and axe finds no barrier."""
    visit = Visit(chromium, address, phone=True, dark=dark)
    for path in PATHS:
        page = visit.go(path)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, path
        ground = page.evaluate("() => getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        assert ground == ("rgb(16, 21, 28)" if dark else "rgb(255, 255, 255)")
        assert visit.barriers() == [], path
    assert (visit.errors, visit.outside) == ([], [])
    visit.close()


def test_a_wide_screen_has_no_barrier(visit: Visit) -> None:
    """axe finds nothing serious on the widest pages: overview, a series, a finding, the comparison."""
    finding = link("findings", finding=simulated_lake.planted_id(SIMULATION, 0))
    for path in ("", link("series", subject=STEPPED), finding, "compare?by=arm"):
        visit.go(path)
        assert visit.barriers() == [], path


def test_hostile_names_are_text_on_every_page(chromium: Any, tmp_path: Path) -> None:
    """Names that are markup make no element, run nothing and are read as they are, in tables, hover and titles."""
    simulated_lake.build_lake(tmp_path, simulated_lake.Simulation(nights=2, hostile=True, cases=CASES[6:13]))
    with served(tmp_path / "store") as address:
        visit = Visit(chromium, address)
        for path in PATHS:
            page = visit.go(path)
            if path not in NAMELESS:
                visit.carries(HOSTILE[:20])
            assert page.locator("img[src='x']").count() == 0
        page = visit.go(link("series", subject=STEPPED))
        visit.says(HOSTILE)
        plot = page.locator(".js-plotly-plot .nsewdrag").first
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        for share in (0.1, 0.3, 0.5, 0.9):
            page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] * 0.9)
        assert page.locator("img[src='x']").count() == 0
        assert (visit.errors, visit.outside) == ([], [])
        visit.close()
