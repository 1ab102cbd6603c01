"""Other people's histories come in with SI units and their statuses, or are refused with the line."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.exchange.errors import ImportRefused
from store.exchange.imported_case import device_family
from store.exchange.imported_runs import RunWords, import_runs
from store.exchange.long_csv import LongCsvOptions, read_long_csv
from store.exchange.statuses import case_status
from store.exchange.units import Dimension, unit_of
from store.lake.lake import Lake

HEAD = "run_id,started_at,host,gpu,case,metric,unit,sample,value,status"
LINE = "r1,2026-09-01T02:00:00Z,node-01,NVIDIA H100,gemm,latency,us,0,425.5,ok"


def write(folder: Path, *lines: str, head: str = HEAD) -> Path:
    """A file of these lines."""
    path = folder / "history.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def imported(folder: Path, *lines: str, head: str = HEAD, words: RunWords | None = None) -> Lake:
    """A store that has taken these lines in."""
    lake = Lake.create(folder / "store")
    import_runs(read_long_csv(write(folder, *lines, head=head)), lake.inbox, words)
    report = lake.ingest()
    assert report.quarantined == ()
    return lake


def test_units_become_si_and_a_change_is_told(tmp_path: Path) -> None:
    """us and ms of the same metric are both seconds, and a note says on which line the unit changed."""
    path = write(tmp_path, LINE, LINE.replace("r1", "r2").replace("01T", "02T").replace("us,0,425.5", "ms,0,0.43"))
    file = read_long_csv(path)
    assert [reading.value for reading in file.readings] == pytest.approx([425.5e-6, 430e-6])
    assert len(file.notes) == 1
    assert "line 3" in file.notes[0]
    assert "from us to ms" in file.notes[0]


def test_every_sample_is_kept_and_summarised(tmp_path: Path) -> None:
    """p50 is the median of the raw values, which are stored; p99 of few samples is null with its reason."""
    values = [1.0, 5.0, 2.0, 4.0, 3.0]
    lines = [LINE.replace("us,0,425.5", f"ms,{n},{value}") for n, value in enumerate(values)]
    lake = imported(tmp_path, *lines)
    row = lake.sql("SELECT * FROM results").to_pylist()[0]
    assert (row["latency_p50_s"], row["latency_n"], row["latency_p99_s"]) == (0.003, 5, None)
    assert "5 samples are not enough" in row["null_reasons"]
    assert lake.sql("SELECT wall_s FROM samples").to_pylist() == [{"wall_s": [v * 1e-3 for v in values]}]
    run = lake.sql("SELECT * FROM runs").to_pylist()[0]
    assert (run["kind"], run["started_at"], run["device_unit"]) == (
        "import",
        datetime(2026, 9, 1, 2, tzinfo=UTC),
        "node-01",
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("no_valid_samples:throttled", ("invalid", "throttled")),
        ("failed: out_of_memory", ("failed", "out_of_memory")),
        ("oom", ("failed", "out_of_memory")),
        ("timeout", ("failed", "timed_out")),
        ("failed: rank_missing", ("failed", "rank_missing")),
        ("skipped: not scheduled", ("skipped", "not_scheduled")),
        ("wrong", ("wrong", None)),
    ],
)
def test_a_status_without_value_is_a_row_of_that_status(
    tmp_path: Path, status: str, expected: tuple[str, str | None]
) -> None:
    """What happened to a case is kept in our words; no number is made up."""
    lake = imported(tmp_path, LINE.replace("0,425.5,ok", f",,{status}"))
    row = lake.sql("SELECT status, status_kind, latency_p50_s FROM results").to_pylist()[0]
    assert (row["status"], row["status_kind"], row["latency_p50_s"]) == (*expected, None)


def test_impossible_values_are_kept_and_not_used(tmp_path: Path) -> None:
    """Zero, negative and NaN times stay among the samples with a mark; a case of nothing else is impossible_value."""
    lines = [LINE.replace("us,0,425.5", f"us,{n},{value}") for n, value in enumerate(["0", "-1", "nan", "400"])]
    lines += [LINE.replace("gemm", "softmax").replace("425.5", "0")]
    lake = imported(tmp_path, *lines)
    rows = {row["case_id"]: row for row in lake.sql("SELECT * FROM results").to_pylist()}
    assert rows["gemm"]["latency_p50_s"] == pytest.approx(400e-6)
    assert (rows["softmax"]["status"], rows["softmax"]["status_kind"]) == ("failed", "impossible_value")
    marks = lake.sql("SELECT mark FROM samples WHERE case_id = 'gemm'").to_pylist()[0]["mark"]
    assert marks == ["impossible_value"] * 3 + [""]


def test_settings_make_another_series_and_spellings_of_a_gpu_do_not(tmp_path: Path) -> None:
    """number=10 and number=1 are two series; three names of one GPU on one host are one."""
    names = ["NVIDIA H100 80GB HBM3", "H100-SXM5-80GB", "NVIDIA H100"]
    lines = [LINE.replace("r1", f"r{n}").replace("NVIDIA H100", name) + ",number=10" for n, name in enumerate(names)]
    lines.append(LINE.replace("r1", "r9") + ",number=1")
    lake = imported(tmp_path, *lines, head=HEAD + ",settings")
    assert sorted(row["n_runs"] for row in lake.sql("SELECT n_runs FROM series").to_pylist()) == [1, 3]


def test_other_metrics_have_their_columns(tmp_path: Path) -> None:
    """Memory, rates and errors go to their columns; every reading that is no time is kept as telemetry; zero bytes are
    a value."""
    lake = imported(
        tmp_path,
        LINE.replace("latency,us,0,425.5", "peak_mem,KiB,0,4"),
        LINE.replace("latency,us,0,425.5", "throughput,TFLOPS,0,1.5"),
        LINE.replace("latency,us,0,425.5", "sm_clock,MHz,0,1965"),
        LINE.replace("gemm,latency,us,0,425.5", "alloc,peak_mem,B,0,0"),
    )
    rows = {row["case_id"]: row for row in lake.sql("SELECT * FROM results").to_pylist()}
    assert (rows["gemm"]["peak_memory_bytes"], rows["gemm"]["flop_per_s"]) == (4096, 1.5e12)
    assert (rows["alloc"]["status"], rows["alloc"]["peak_memory_bytes"]) == ("measured", 0)
    telemetry = lake.sql("SELECT metric, unit, value FROM telemetry ORDER BY metric").to_pylist()
    assert [tuple(row.values()) for row in telemetry] == [
        ("alloc/peak_mem", "B", 0.0),
        ("gemm/peak_mem", "B", 4096.0),
        ("gemm/sm_clock", "Hz", 1.965e9),
        ("gemm/throughput", "FLOP/s", 1.5e12),
    ]


def test_a_run_on_two_hosts_is_two_runs(tmp_path: Path) -> None:
    """One run id over two nodes becomes a run a node, named so."""
    lake = imported(tmp_path, LINE, LINE.replace("node-01", "node-02"))
    names = lake.sql("SELECT run_id FROM runs ORDER BY run_id").to_pylist()
    assert names == [{"run_id": "r1@node-01"}, {"run_id": "r1@node-02"}]


def test_importing_again_adds_nothing(tmp_path: Path) -> None:
    """The same file twice is the same runs."""
    lake = imported(tmp_path, LINE)
    import_runs(read_long_csv(tmp_path / "history.csv"), lake.inbox)
    assert lake.ingest().already_known == ("r1",)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([LINE.replace(",us,", ",jiffies,")], "line 2: unit 'jiffies' is unknown"),
        ([LINE, LINE.replace(",us,0", ",MB,1")], "line 3: unit of latency of case 'gemm' changes from 'us' to 'MB'"),
        ([LINE.replace("02:00:00Z", "02:00:00")], "line 2: started_at '2026-09-01T02:00:00' has no time zone"),
        ([LINE.replace("2026-09-01T02:00:00Z", "yesterday")], "line 2: started_at 'yesterday' is not"),
        ([LINE.replace("425.5", "fast")], "line 2: value 'fast' is not a number"),
        ([LINE.replace(",ok", ",shrug")], "line 2: status 'shrug' is unknown"),
        ([LINE, LINE], "line 3: sample 0 of latency of case 'gemm' in run 'r1' is there twice"),
        ([LINE.replace("r1", "")], "line 2: run_id is empty"),
        ([LINE + ",more"], "line 2: has not as many fields"),
        ([], "has no rows"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(tmp_path: Path, lines: list[str], words: str) -> None:
    """One line says file, line, value and rule; nothing is written."""
    with pytest.raises(ImportRefused) as caught:
        read_long_csv(write(tmp_path, *lines))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_foreign_file_names_all_that_is_missing(tmp_path: Path) -> None:
    """Every column that is missing stands in one line, with what there is and the option that renames."""
    path = write(tmp_path, "a,1", head="case,value")
    with pytest.raises(ImportRefused) as caught:
        read_long_csv(path)
    assert "has no column 'run_id', 'started_at', 'host', 'gpu', 'metric', 'unit'; it has case, value" in str(
        caught.value
    )
    assert "--column run_id=THEIRS" in str(caught.value)


def test_a_gzipped_file_is_read_and_a_cut_one_refused(tmp_path: Path) -> None:
    """By its first bytes, whatever its name; half of one is one line."""
    plain = read_long_csv(write(tmp_path, LINE))
    packed = tmp_path / "packed.csv"
    packed.write_bytes(gzip.compress((tmp_path / "history.csv").read_bytes()))
    assert read_long_csv(packed) == plain
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(ImportRefused, match="is cut or damaged"):
        read_long_csv(packed)


def test_a_case_without_a_judged_metric_is_told(tmp_path: Path) -> None:
    """Its values are kept as telemetry, and a note says that nothing judges them; a clock beside a time needs none."""
    clock = LINE.replace("latency,us,0,425.5", "sm_clock,MHz,0,1965")
    path = write(tmp_path, LINE, clock, LINE.replace("gemm,latency", "norm,speediness"))
    notes = import_runs(read_long_csv(path), Lake.create(tmp_path / "store").inbox).notes
    assert len(notes) == 1
    assert notes[0].startswith("case 'norm': 'speediness' kept but not judged")


def test_a_run_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    """Two starts of one run are named with the line of the second."""
    file = read_long_csv(write(tmp_path, LINE, LINE.replace("us,0", "us,1").replace("02:00", "03:00")))
    with pytest.raises(ImportRefused, match="line 3: started_at of run 'r1'"):
        import_runs(file, Lake.create(tmp_path / "store").inbox)


def test_other_column_names_and_a_zone_by_option(tmp_path: Path) -> None:
    """Columns of other names, a zone for naive times, other words for a status and another delimiter are options."""
    head = HEAD.replace("run_id", "build").replace("gpu", "device").replace(",", ";")
    line = LINE.replace("02:00:00Z", "02:00:00").replace(",ok", ",fine").replace(",", ";")
    options = LongCsvOptions(
        columns={"run_id": "build", "gpu": "device"},
        time_zone=ZoneInfo("Asia/Tokyo"),
        statuses={"fine": "ok"},
        delimiter=";",
    )
    reading = read_long_csv(write(tmp_path, line, head=head), options).readings[0]
    assert (reading.run_id, reading.gpu) == ("r1", "NVIDIA H100")
    assert reading.started_at == datetime(2026, 8, 31, 17, tzinfo=UTC)
    with pytest.raises(ImportRefused, match="has no column 'build' for run_id"):
        read_long_csv(write(tmp_path, LINE), LongCsvOptions(columns={"run_id": "build"}))
    with pytest.raises(ImportRefused, match="column option 'colour'"):
        read_long_csv(write(tmp_path, LINE), LongCsvOptions(columns={"colour": "x"}))


@given(st.floats(1e-6, 1e6), st.sampled_from(["ns", "us", "ms", "s"]))
def test_a_time_is_the_same_in_every_unit(value: float, unit: str) -> None:
    """Converting to SI and back gives the value."""
    found = unit_of(unit)
    assert found is not None
    assert found.dimension is Dimension.TIME
    assert value * found.factor / found.factor == pytest.approx(value)


def test_units_are_told_apart_by_case() -> None:
    """ms is time, MB is not mb, Mi is not M; a word that is none is none."""
    assert unit_of("MiB") != unit_of("MB")
    assert unit_of("mb") is None
    assert unit_of("") is None
    assert case_status("shrug") is None


def test_spellings_of_a_device_share_their_family() -> None:
    """Vendor, memory and form factor are not the family; another chip is another family."""
    spellings = ["NVIDIA H100 80GB HBM3", "H100-SXM5-80GB", "NVIDIA H100"]
    assert {device_family(name) for name in spellings} == {"H100"}
    assert device_family("NVIDIA A100-SXM4-80GB") == "A100"
    assert device_family("GPU") == "GPU"
