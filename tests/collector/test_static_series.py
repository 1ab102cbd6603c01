"""Static metrics in a store: one row a kernel and chip, kept as series, and what changed said exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from compiled_kernels import GEMM as KERNEL

from collector.cli.static_series import change_lines, keep_static
from detection.static_change import StaticVerdict
from store.lake.lake import Lake


def test_static_metrics_are_series_and_judged_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First new, then the same binary, then more registers: three rows of one series; a failure is a row, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = str(tmp_path / "store")
    worse = replace(KERNEL, registers=72, binary_sha256="b" * 64)
    broken = replace(KERNEL, chip="gfx942", failure="CompilationError: no such instruction")
    rounds = [keep_static(found, place) for found in ([KERNEL, broken], [KERNEL], [worse])]
    verdicts = [[change.verdict for change in changes] for changes in rounds]
    assert verdicts == [[StaticVerdict.NEW], [StaticVerdict.UNCHANGED], [StaticVerdict.REGRESSED]]
    assert change_lines(rounds[2]) == [
        f"{KERNEL.variant} for sm_90: regressed, registers 64 to 72",
        "1 kernel kept: 0 the same as before, 1 changed, 0 new",
    ]
    lake = Lake.open(place)
    try:
        rows = lake.sql(
            "SELECT subject_id, device_model, arm, status, static_registers, static_matrix_instructions, "
            "static_load_widths, status_reason "
            "FROM results ORDER BY device_model, measured_at"
        ).to_pylist()
    finally:
        lake.close()
    assert [row["static_registers"] for row in rows] == [None, 64, 64, 72]
    assert [row["static_matrix_instructions"] for row in rows] == [None, 48, 48, 48]
    assert rows[1]["static_load_widths"] == '{"32": 4, "128": 12}'
    assert len({row["subject_id"] for row in rows[1:]}) == 1 and {row["arm"] for row in rows} == {"candidate"}
    assert rows[0]["status"] == "failed" and "no such instruction" in rows[0]["status_reason"]
