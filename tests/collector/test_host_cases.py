"""What goes wrong for people who track performance, from file to finding: each report with its right behaviour.

The numbers (A01 ...) are those of tests/data/cases/README.md. All files are taken in by one import, each on a host of
its own, and judged night by night. Variations of them: test_host_case_variations.py.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from judged_files import H100, Judged, Line, file_rows, judge_lines, judge_rows, raw_rows

from bench_suite.datasheets import datasheet
from collector.host.gates import check_run, load_gate
from detection.classify import FindingClass
from detection.findings import EventKind
from detection.gate import Answer
from detection.verdict import Metric, ReasonCode, VerdictStatus

FILES = {
    "A01": "A01_noise_one_slow_host",
    "A02": "A02_bimodal_clock_ramp",
    "A03": "A03_throttle_inside_run",
    "A04": "A04_all_samples_discarded",
    "A05": "A05_compile_in_first_sample",
    "A07": "A07_step_25pct",
    "A08": "A08_slow_drift",
    "A09": "A09_short_history",
    "A10": "A10_unit_us_to_ms",
    "A11": "A11_zero_baseline",
    "A12": "A12_missing_nights",
    "A13": "A13_method_change_step",
    "A14": "A14_one_gpu_three_names",
}
SUSPECTED, CONFIRMED, REFUTED = EventKind.SUSPECTED, EventKind.CONFIRMED, EventKind.REFUTED
QUIET = {ReasonCode.FIRST_RUN, ReasonCode.NOT_ENOUGH_HISTORY, ReasonCode.WITHIN_NOISE, ReasonCode.WITHIN_FLOOR}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Every file, judged."""
    rows = [row for host, name in FILES.items() for row in file_rows(name, host)]
    return judge_rows(tmp_path_factory.mktemp("cases"), rows)


def test_a01_a_slow_host_is_one_notice(cases: Judged) -> None:
    """All forty cases 12 % up for one night: one suspicion of class host, refuted by the next night; nothing is
    confirmed, so that nobody is alerted, and no case of that night is named."""
    events = cases.events("A01")
    whole = [(e.event, e.run_id) for e in events if e.facts.finding_class is FindingClass.HOST]
    assert whole == [(SUSPECTED, "A01-r0025"), (REFUTED, "A01-r0026")]
    assert [e.facts.group for e in events if e.run_id == "A01-r0025"] == ["A01 · whole run"]
    assert CONFIRMED not in {e.event for e in events}
    assert [n for n in cases.report.notices if n.startswith("A01")] == [
        f"A01-r0025: {next(e for e in events if e.run_id == 'A01-r0025').facts.sentence}"
    ]
    assert VerdictStatus.REGRESSED not in {line.status for line in cases.lines("A01", "r0025")}


def test_a02_two_levels_are_named_not_alarmed(cases: Judged) -> None:
    """415 or 866 us, the share of slow calls drifting from 30 to 60 %: bimodal by name, all samples kept, no alert."""
    assert cases.events("A02") == []
    assert ReasonCode.BIMODAL in cases.all_codes("A02")
    kept = cases.lake.sql("SELECT sum(len(wall_s)) AS n FROM samples WHERE run_id LIKE 'A02-%'").to_pylist()
    assert kept == [{"n": 600}]


def test_a03_a_run_throttled_inside_is_no_evidence(cases: Judged) -> None:
    """The clock falls by a fifth within each run: throttled with the clocks in words, left out of every verdict; rate
    and clock of every sample are kept and joined, and the row still has its rate to show."""
    assert cases.events("A03") == []
    assert cases.all_codes("A03") == {ReasonCode.THROTTLED}
    row = cases.lake.sql("SELECT * FROM results WHERE run_id = 'A03-r0004'").to_pylist()[0]
    assert (row["status"], row["status_kind"]) == ("invalid", "throttled")
    assert "1965 to 1580 MHz" in row["status_reason"]
    assert row["flop_per_s"] == pytest.approx(1.4e15, rel=0.05)
    joined = cases.lake.sql(
        "SELECT count(*) AS n, min(clock.value) AS low FROM telemetry rate JOIN telemetry clock USING (run_id,"
        " monotonic_s) WHERE run_id = 'A03-r0004' AND rate.metric LIKE '%/tflops' AND clock.metric LIKE '%/sm_clock'"
    ).to_pylist()
    assert joined == [{"n": 100, "low": 1.58e9}]


def test_a04_a_run_without_valid_samples_says_so(cases: Judged) -> None:
    """All samples of the last night thrown away: not judged, throttled; a row without a number, no zero, no finding."""
    assert cases.codes("A04", "r0011") == [ReasonCode.THROTTLED]
    row = cases.lake.sql("SELECT status, latency_p50_s FROM results WHERE run_id = 'A04-r0011'").to_pylist()
    assert row == [{"status": "invalid", "latency_p50_s": None}]
    assert cases.events("A04") == []


def test_a05_a_first_call_with_compilation_is_timed_apart(cases: Judged) -> None:
    """24 s in the first of ten samples: kept with its mark and as the row's first call, out of the percentiles."""
    assert cases.events("A05") == []
    row = cases.lake.sql("SELECT * FROM results WHERE run_id = 'A05-r0011'").to_pylist()[0]
    assert (row["first_call_s"], row["latency_n"]) == (24.0, 9)
    assert row["latency_p50_s"] == pytest.approx(209e-6, rel=0.02)
    samples = cases.lake.sql("SELECT wall_s, mark FROM samples WHERE run_id = 'A05-r0011'").to_pylist()[0]
    assert (samples["wall_s"][0], samples["mark"]) == (24.0, ["first_call"] + [""] * 9)


def test_a07_a_step_is_said_once_and_stays_open(cases: Judged) -> None:
    """+25 % from run 20 on: suspected there, confirmed by two later nights, still open at the end; the baseline is that
    of before, since no recorded act moved it."""
    assert cases.kinds("A07") == [(SUSPECTED, "A07-r0020"), (CONFIRMED, "A07-r0022")]
    (line,) = cases.lines("A07", "r0029")
    assert line.code is ReasonCode.OPEN_FINDING
    assert line.change == pytest.approx(0.25, abs=0.03)
    finding = cases.report.findings[cases.events("A07")[0].finding_id]
    assert finding.state.open
    assert finding.facts.last_good_run_id == "A07-r0019"
    assert cases.lake.sql("SELECT * FROM baselines").to_pylist() == []


def test_a08_a_slow_drift_is_found(cases: Judged) -> None:
    """0.4 % a run is less than any night's noise; it is found, confirmed, and its size said anew as it grows."""
    events = cases.events("A08")
    assert [e.event for e in events[:2]] == [SUSPECTED, CONFIRMED]
    assert {e.event for e in events[2:]} == {EventKind.MOVED}
    assert len({e.finding_id for e in events}) == 1
    assert events[-1].facts.change == pytest.approx(0.19, abs=0.05)
    assert "by now" in events[-1].facts.sentence


def test_a09_early_points_are_not_change_points(cases: Judged) -> None:
    """Four runs, the second 8 % up: not enough history, with the minimum stated; nothing is said."""
    assert cases.events("A09") == []
    (line,) = cases.lines("A09", "r0001")
    assert line.code is ReasonCode.NOT_ENOUGH_HISTORY
    assert "3 are needed" in line.sentence


def test_a10_a_unit_is_not_a_change(cases: Judged) -> None:
    """Microseconds until run 15, milliseconds after: seconds all of them, said on import, no finding."""
    assert cases.events("A10") == []
    assert cases.all_codes("A10") <= QUIET | {ReasonCode.TOO_WIDE}
    assert [n for n in cases.imported.notes if "rope_fwd" in n and "us to ms" in n] != []


def test_a11_zero_is_not_a_divisor(cases: Judged) -> None:
    """0 to 0 is no change; 0 to 4 KiB is "from zero", without a ratio, and too little to be worth a finding."""
    assert cases.codes("A11", "r0002", "peak_memory") == [ReasonCode.STILL_ZERO]
    (line,) = cases.lines("A11", "r0003", "peak_memory")
    assert (line.code, line.change) == (ReasonCode.FROM_ZERO, None)
    assert "From zero" in line.sentence
    assert cases.events("A11") == []


def test_a12_missing_nights_are_a_gap_and_one_alert(cases: Judged) -> None:
    """Three nights without a run: one alert of class host, resolved by the run that comes; no row for them, no drop to
    zero, no change said of the run after."""
    assert cases.kinds("A12") == [(CONFIRMED, "A12-r0011"), (EventKind.RESOLVED, "A12-r0015")]
    assert {e.facts.metric for e in cases.events("A12")} == {Metric.SILENCE}
    assert set(cases.codes("A12", "r0015")) <= QUIET
    rows = cases.lake.sql("SELECT count(*) AS n, min(latency_p50_s) AS low FROM results WHERE host = 'A12'").to_pylist()
    assert rows[0]["n"] == 17
    assert rows[0]["low"] > 0.9e-3


def test_a13_other_settings_are_another_series(cases: Judged) -> None:
    """Three times slower at a change of settings: a new series that names the old one; no alert, not of its end
    either."""
    assert cases.events("A13") == []
    (line,) = [li for li in cases.lines("A13", "r0015") if li.code is ReasonCode.FIRST_RUN]
    assert '"number": "1"' in line.sentence
    assert '"number": "10"' in line.sentence
    keys = cases.lake.sql("SELECT DISTINCT subject_id, settings FROM results WHERE host = 'A13'").to_pylist()
    assert sorted(json.loads(k["settings"])["number"] for k in keys) == ["1", "10"]


def test_a14_three_names_are_one_card(cases: Judged) -> None:
    """Three spellings are one series of one model, the one that a device reports, and the import says so; a peak is
    looked up by that exact name only, and an unknown name has none."""
    assert cases.events("A14") == []
    assert sum(li.code is ReasonCode.FIRST_RUN for li in cases.report.lines if li.run_id.startswith("A14")) == 1
    models = cases.lake.sql("SELECT DISTINCT device_model FROM runs WHERE host = 'A14'").to_pylist()
    assert models == [{"device_model": H100}]
    assert [n for n in cases.imported.notes if n.startswith("A14: ") and f"taken for '{H100}'" in n] != []
    assert datasheet(H100) is not None
    assert datasheet("NVIDIA H100") is None
    assert datasheet("H100-SXM5-80GB") is None


def test_a06_cold_and_warm_are_two_series(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A set that fits the cache is 1.6 times faster warm: cold and warm are settings, two series that are never
    compared; the night that went over to warm says nothing of speed."""
    lines = [
        Line(
            run=run, case="copy_64MB", metric="bandwidth", unit="TB/s", sample=s, settings=f"cache={mode}",
            value={"cold": 7.0, "warm": 11.2}[mode] * (1 + 0.004 * (s - 1)),
        )
        for run in range(16)
        for mode in (["cold", "warm"] if run < 12 else ["warm"])
        for s in range(3)
    ]  # fmt: skip
    judged = judge_lines(tmp_path_factory.mktemp("a06"), lines)
    keys = judged.lake.sql("SELECT DISTINCT subject_id, settings FROM results").to_pylist()
    assert sorted(json.loads(k["settings"])["cache"] for k in keys) == ["cold", "warm"]
    assert {e.facts.metric for e in judged.report.events} <= {Metric.SILENCE}
    assert judged.all_codes("node-01") <= QUIET | {ReasonCode.GAP}
    assert "TB/s" in judged.lines("node-01", "r0010", "bandwidth")[0].sentence


def test_a31_a_percentile_of_nine_samples_is_no_answer(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nine samples, one ten times slower: p95 would be the maximum, so the gate says how many samples it needs."""
    lines = [
        Line(run=run, case="decode", sample=s, value=(10.0 if run == 5 and s == 4 else 1.0) + 0.001 * s)
        for run in range(6)
        for s in range(9)
    ]
    folder = tmp_path_factory.mktemp("a31")
    judged = judge_lines(folder, lines)
    gate = folder / "tails.toml"
    rule = '[[rule]]\nname = "{0}"\nmetric = "latency_{0}"\nagainst = "history"\nat_most = 0.1\nminimum_runs = 3\n'
    gate.write_text('name = "tails"\nversion = "1"\n' + "".join(rule.format(name) for name in ("p95", "p99")))
    outcome = check_run(judged.lake, load_gate(str(gate)))
    assert outcome is not None
    assert outcome.answer is Answer.UNDECIDED
    assert [line.sentence for line in outcome.lines] == [
        f"decode: not enough samples, latency_{name} of 9; {needed} are needed."
        for name, needed in (("p95", 60), ("p99", 300))
    ]


def test_a32_every_event_has_a_class_and_its_evidence(cases: Judged) -> None:
    """Noise, method, hardware and regression side by side: each movement has one of the classes, a cause in words, and
    the numbers behind it; only the step and the drift are confirmed regressions."""
    for event in cases.report.events:
        facts = event.facts
        assert facts.finding_class in set(FindingClass)
        assert facts.cause
        assert facts.sentence
        assert facts.evidence.members or facts.metric is Metric.SILENCE
    slower = {e.facts.host for e in cases.report.events if e.event is CONFIRMED and e.facts.metric is Metric.LATENCY}
    assert slower == {"A07", "A08"}


def test_real_noise_of_code_that_never_changed_is_quiet(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Six years of a fixed example on hosted runners, on which "10 % worse than the run before" fires 32 times: at most
    three changes are confirmed, each of them lasting."""
    rows = [
        {
            "run_id": f"{row['commit']}-{row['recorded_ms']}",
            "started_at": datetime.fromtimestamp(int(row["recorded_ms"]) / 1000, UTC).isoformat(),
            "host": "runner",
            "gpu": "CPU",
            "case": row["case"],
            "metric": "time",
            "unit": "ns",
            "value": row["value"],
        }
        for row in raw_rows("real_noise_cpp_fib")
    ]
    judged = judge_rows(tmp_path_factory.mktemp("fib"), rows)
    confirmed = [e for e in judged.report.events if e.event is CONFIRMED and e.facts.metric is Metric.LATENCY]
    assert len(judged.report.runs) > 190
    assert len(confirmed) <= 3
