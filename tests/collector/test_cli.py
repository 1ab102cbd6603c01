"""The command line as a person and cron meet it: help, exit codes, one line for bad input, a small quick parent."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collector import errors
from collector.cli import words

COLLECTOR = [sys.executable, "-m", "collector.cli.main"]


def collector(
    *arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COLLECTOR, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | (environment or {}),
        cwd=cwd,
    )


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A state folder of its own, so that tests side by side do not hold each other's lock."""
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def test_help_names_every_command_and_exit_code() -> None:
    """`collector --help` lists the commands and what the exit codes mean."""
    done = collector("--help", environment={"COLUMNS": "100"})

    assert done.returncode == 0
    for command in ("run", "calibrate", "confirm", "push", "detect", "notify", "store", "suite", "dashboard"):
        assert re.search(rf"^  {command}\s", done.stdout, re.MULTILINE)
    assert "75 another run holds the lock" in " ".join(done.stdout.split())


@pytest.mark.parametrize("command", ["--help", "run --help", "suite list"])
def test_help_loads_nothing_heavy(command: str) -> None:
    """Help, and the list of suites, import neither torch nor the store nor the pages."""
    program = (
        "import sys\n"
        "from collector.cli.main import app\n"
        "try:\n    app(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = set('torch triton duckdb pandas pyarrow deltalake streamlit plotly scipy numba httpx'.split())\n"
        "sys.stderr.write(','.join(sorted(heavy & set(sys.modules))))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *command.split()], capture_output=True, text=True, check=True)

    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("run --suite nonsense", "suite 'nonsense' is unknown, must be one of"),
        ("run --suite smoke --case gemm", "case 'gemm' is not in suite smoke"),
        ("run --suite smoke --replicates 0", "--replicates is 0, must be at least 1"),
        ("run --suite smoke --device cuda:x", "--device is 'cuda:x', must be KIND or KIND:INDEX"),
        ("run --suite smoke --policy nonsense", "nonsense"),
        ("suite show nonsense", "suite 'nonsense' is unknown"),
        ("detect --store {empty}", "is no store"),
        ("store sql --store {empty} x", "is no store"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, home: dict[str, str], arguments: str, line: str) -> None:
    """What, value, rule, way out: one line on stderr, nothing on stdout, exit code 2."""
    empty = tmp_path / "empty"
    empty.mkdir()
    words_of = [a.format(empty=empty) for a in arguments.split()]
    if words_of[0] == "run":
        words_of += ["--store", str(tmp_path / "store")]

    done = collector(*words_of, environment=home)

    assert done.returncode == 2, done.stderr
    assert line in done.stderr.replace("no store here", "is no store")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("axes = { M = 0, N = 4, K = 4 }\nweight = 0.5", "axis M is 0"),
        ("axes = { M = -3, N = 4, K = 4 }\nweight = 0.5", "axis M is -3"),
        ("axes = { M = 1, N = 4, K = 4 }\nweight = 0.0", "weight"),
        ("axes = { M = 1, N = 4, K = 4 }\nweight = 1.5", "weight"),
        ('axes = { M = 1, N = 4, K = 4 }\ndtype = "fp12"', "fp12"),
        ("axes = { M = 1, N = 4, K = 4 }\nwieght = 0.5", "wieght"),
        ('axes = { M = "1", N = 4, K = 4 }', "M"),
    ],
)
def test_a_mistake_in_a_suite_file_names_file_and_key(
    tmp_path: Path, home: dict[str, str], text: str, line: str
) -> None:
    """Each mistake in a suite file is one line with the file's name and the key, before anything is measured."""
    file = tmp_path / "mine.toml"
    head = (
        '[suite]\nname = "mine"\nsummary = "s"\nversion = 1\nseed = 1\ndtype = { cpu = "fp32", accelerator = "bf16" }\n'
    )
    file.write_text(f'{head}[[case]]\noperator = "gemm"\nphase = "decode"\n{text}\n')

    done = collector("run", "--suite", str(file), "--store", str(tmp_path / "store"), environment=home)

    assert done.returncode == 2, done.stderr
    assert "mine.toml" in done.stderr and line in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "store" / "inbox").exists()


def test_a_store_that_is_a_file_is_refused_before_measuring(tmp_path: Path, home: dict[str, str]) -> None:
    """A store path that is a file, or lies below one, is one line and exit code 2."""
    file = tmp_path / "file"
    file.write_text("x")

    done = collector("run", "--suite", "smoke", "--store", str(file / "store"), environment=home)

    assert done.returncode == 2
    assert "is a file, must be a folder" in done.stderr


def test_an_unknown_webhook_scheme_is_refused_before_measuring(tmp_path: Path, home: dict[str, str]) -> None:
    """A webhook whose scheme no service has is exit code 2, and its secret part is not repeated."""
    environment = home | {"KERNEL_OBSERVATORY_WEBHOOK": "carrier-pigeon://coop/s3cr3t-token"}

    done = collector("run", "--suite", "smoke", "--store", str(tmp_path / "store"), environment=environment)

    assert done.returncode == 2, done.stderr
    assert "carrier-pigeon" in done.stderr
    assert "s3cr3t-token" not in done.stderr


def test_a_second_run_yields(tmp_path: Path, home: dict[str, str]) -> None:
    """While one process holds the lock a run exits with 75 and names the holder; after it is gone a run goes on."""
    from collector.node.lock import run_lock

    with run_lock(Path(home["XDG_STATE_HOME"]) / "kernel-observatory" / "run.lock"):
        done = collector("run", "--suite", "smoke", "--store", str(tmp_path / "store"), environment=home)

    assert done.returncode == 75
    assert f"process {os.getpid()}" in done.stderr


def test_suites_as_json() -> None:
    """`suite show --json` gives every case with its weight, and the hash."""
    document = json.loads(collector("suite", "show", "quick", "--json").stdout)

    assert len(document["cases"]) >= 12
    assert len({case["case_id"] for case in document["cases"]}) == len(document["cases"])
    model = [
        c["case_id"] for c in document["cases"] if re.search(r"N=(28672|6144|4096),K=(4096|14336)\]", c["case_id"])
    ]
    assert len(model) >= 5


def test_every_known_error_exists() -> None:
    """The table of exit codes names classes by text; each of them is importable under that name."""
    import importlib

    for name in errors.EXIT_CODES:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type), name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (104.4e-6, "104 µs"),
        (999.9e-6, "1,000 µs"),
        (1.2351e-3, "1.24 ms"),
        (0.41, "410 ms"),
        (3.14159, "3.14 s"),
        (9.996e-3, "10.0 ms"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    """Three significant digits and one unit."""
    assert words.duration(value) == text


def test_changes_and_ratios() -> None:
    """A change has a sign and a true minus, never a signed zero; a ratio has three decimals and its half-width."""
    assert words.change(0.0741) == "+7.4 %"
    assert words.change(-0.0579) == "−5.8 %"
    assert words.change(-0.0001) == "0.0 %"
    assert words.ratio(0.9624, 0.95, 0.975) == "0.962× ± 1.3 %"
    assert words.ratio(None) == "–"
    assert words.memory(6.9 * 2**20) == "6.90 MiB"
    assert words.span(125) == "2 min 5 s"
    assert words.counted(1, "run") == "1 run"
    assert words.counted(1204, "run") == "1,204 runs"
